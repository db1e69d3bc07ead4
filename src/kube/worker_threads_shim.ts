/**
 * Must be imported before `@kubernetes/client-node` 2.x, which brings undici 8: that calls
 * `markAsUncloneable` of `node:worker_threads` at import, and Deno 2.6 (the release that compiled executables may be
 * built with) does not have it. To do nothing is right: it only keeps objects from being sent to workers, and there
 * are none. Goes when the oldest supported Deno has it (2.9 does).
 */
import { createRequire } from "node:module";

const workerThreads: { markAsUncloneable?: (value: unknown) => void } = createRequire(import.meta.url)(
  "node:worker_threads",
);
workerThreads.markAsUncloneable ??= () => {};

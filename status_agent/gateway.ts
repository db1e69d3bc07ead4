// `status-agent gateway`: sits beside the charon of a gateway pod. It fences the pod's network, gives charon its
// connections and keys, watches its SAs, and tells the API server. Only wiring here.
import { flagsOrExit } from "../src/process/flags.ts";
import { createLog } from "../src/process/log.ts";
import { GatewayAgent } from "./gateway/agent.ts";
import { GATEWAY_FLAGS } from "./gateway/flags.ts";

/** Runs until SIGTERM. Wrong flags: one line for each on standard error, exit 2. */
export async function runGateway(args: readonly string[], version: string): Promise<void> {
  const flags = flagsOrExit(GATEWAY_FLAGS, {
    args,
    env: Deno.env.get,
    program: "status-agent gateway",
    version,
    about: "runs the tunnels of an IPsecGateway beside its charon",
  });
  const log = createLog({ level: flags["log-level"] });
  const life = new AbortController();
  // At once, without a farewell: charon keeps its SAs, and the NIC must be free for the next pod.
  for (const name of ["SIGTERM", "SIGINT"] as const) {
    Deno.addSignalListener(name, () => {
      log.info("Stopped; charon keeps its SAs", { signal: name });
      Deno.exit(0);
    });
  }
  await new GatewayAgent(flags, log, life.signal).run(version);
}

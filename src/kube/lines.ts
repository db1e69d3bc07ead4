/** A body as lines: the framing of watches and logs. */

/** Lines of an open answer. Leaving the loop or disposing it ends the answer and frees its connection. */
export interface LineStream extends AsyncIterable<string>, AsyncDisposable {}

/** A watch event is one object on one line; etcd takes no object above 1.5 MiB, so this is far above any. */
const MAX_LINE = 32 * 1024 * 1024;

/**
 * Reads `body` line by line (without "\n"; a last line without an end counts). `close` is called once, at the end,
 * on an error or when the reader leaves.
 *
 * @throws RangeError when a line is above 32 MiB; else what the body fails with.
 */
export function readLines(body: ReadableStream<Uint8Array>, close: () => void): LineStream {
  const reader = body.getReader();
  let closed: Promise<void> | undefined;
  const end = () =>
    closed ??= (async () => {
      try {
        await reader.cancel();
      } catch {
        // It failed already, which its reader was told.
      } finally {
        close();
      }
    })();

  async function* lines(): AsyncGenerator<string> {
    const decoder = new TextDecoder();
    let rest = "";
    try {
      for (;;) {
        const { done, value } = await reader.read();
        rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
        let from = 0;
        for (let at = rest.indexOf("\n"); at >= 0; at = rest.indexOf("\n", from)) {
          yield rest.slice(from, at);
          from = at + 1;
        }
        rest = rest.slice(from);
        if (rest.length > MAX_LINE) {
          throw new RangeError(`Cannot read a line: it is longer than ${MAX_LINE} characters`);
        }
        if (done) break;
      }
      if (rest) yield rest;
    } finally {
      await end();
    }
  }
  const iterator = lines();
  return {
    [Symbol.asyncIterator]: () => iterator,
    [Symbol.asyncDispose]: end,
  };
}

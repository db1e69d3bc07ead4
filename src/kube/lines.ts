/** A body as lines: the framing of watches and logs. */

/** Lines of an open answer. Leaving the loop or disposing it ends the answer and frees its connection. */
export interface LineStream extends AsyncIterable<string>, AsyncDisposable {}

/** A watch event is one object on one line; etcd takes no object above 1.5 MiB, so this is far above any. */
const MAX_LINE = 32 * 1024 * 1024;

/**
 * Reads `body` line by line (without "\n"; a last line without an end counts) until it ends or `signal` aborts.
 * `close` is called once: at the end, on an error, or when the reader leaves.
 *
 * Aborting the signal of a `fetch` is not enough to end its body: once the Response is garbage, which a reader of its
 * body does not prevent, the abort no longer arrives and a read of a silent body stays for ever (seen with Deno 2.6
 * and 2.9). So the reader is cancelled from here.
 *
 * @throws RangeError when a line is above 32 MiB; the signal's reason; else what the body fails with.
 */
export function readLines(
  body: ReadableStream<Uint8Array>,
  { signal, close }: { signal: AbortSignal; close: () => void },
): LineStream {
  const reader = body.getReader();
  let closed: Promise<void> | undefined;
  const end = () =>
    closed ??= (async () => {
      signal.removeEventListener("abort", end);
      try {
        await reader.cancel();
      } catch {
        // It failed already, which its reader was told.
      } finally {
        close();
      }
    })();
  if (signal.aborted) end();
  else signal.addEventListener("abort", end, { once: true });

  async function* lines(): AsyncGenerator<string> {
    const decoder = new TextDecoder();
    let rest = "";
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (signal.aborted) throw signal.reason;
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
    } catch (error) {
      throw signal.aborted ? signal.reason : error;
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

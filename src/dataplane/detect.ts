// Which driver this kernel can run.
import type { Exec } from "./exec.ts";
import type { Driver } from "./network.ts";

/** Never used by a tunnel: numbers come from the ledger or from 1000 up to about a million. */
const PROBE_IF_ID = 0xfffffffe;
const PROBE = "ipsecprobe";
/** An SA over loopback with a key of zeros that nothing will ever use: adding it shows whether the kernel has ESP. */
const PROBE_SA = "src 127.0.0.1 dst 127.0.0.1 proto esp spi 0xfffffffe";
const PROBE_KEY = `0x${"00".repeat(20)}`;
/** The first SA of a kernel loads modules for its cipher, which an emulated machine needs a while for. */
const PROBE_MS = 60_000;

/** The driver, and the reason in words, for the status and the log. */
export interface Detected {
  readonly driver: Driver;
  readonly reason: string;
}

/**
 * Resolves `auto` by trying: an XFRM interface and an ESP SA can be made, or not. Leaves nothing behind.
 *
 * @throws Error when `xfrm` is asked for and this kernel can't.
 */
export async function detectDriver(choice: Driver | "auto", exec: Exec): Promise<Detected> {
  if (choice === "libipsec") return { driver: "libipsec", reason: "asked for" };
  const problem = await tryXfrm(exec);
  if (problem === undefined) {
    return {
      driver: "xfrm",
      reason: choice === "xfrm" ? "asked for" : "the kernel has ESP and XFRM interfaces",
    };
  }
  if (choice === "xfrm") throw new Error(`Cannot use the data plane xfrm: ${problem}`);
  return { driver: "libipsec", reason: problem };
}

async function tryXfrm(exec: Exec): Promise<string | undefined> {
  // A probe that was interrupted may have left its link.
  await exec(["ip", "link", "delete", PROBE]);
  const link = await exec([
    "ip",
    "link",
    "add",
    PROBE,
    "type",
    "xfrm",
    "dev",
    "lo",
    "if_id",
    String(PROBE_IF_ID),
  ]);
  if (link.code !== 0) return `no XFRM interface can be made: ${firstLine(link.stderr)}`;
  await exec(["ip", "link", "delete", PROBE]);
  const sa = PROBE_SA.split(" ");
  await exec(["ip", "xfrm", "state", "delete", ...sa]);
  const state = await exec(
    ["ip", "xfrm", "state", "add", ...sa, "mode", "tunnel", "aead", "rfc4106(gcm(aes))", PROBE_KEY, "128"],
    { timeoutMs: PROBE_MS },
  );
  if (state.code !== 0) return `no ESP SA can be made: ${firstLine(state.stderr)}`;
  await exec(["ip", "xfrm", "state", "delete", ...sa]);
  return undefined;
}

function firstLine(text: string): string {
  return text.trim().split("\n")[0] || "ip said nothing";
}

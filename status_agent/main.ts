// The status-agent: sits beside a charon, and is the only thing that talks to it.
import { runGateway } from "./gateway.ts";

const VERSION = "0.1.0";

const USAGE = `status-agent ${VERSION}: sits beside a charon and is the only thing that talks to it

Usage: status-agent gateway [--flag=value ...]   in the pod of an IPsecGateway
       status-agent gateway --help               its flags
       status-agent --version
`;

function say(text: string, stream: { writeSync(bytes: Uint8Array): number }): void {
  stream.writeSync(new TextEncoder().encode(text));
}

if (import.meta.main) {
  const [command, ...args] = Deno.args;
  if (command === "gateway") await runGateway(args, VERSION);
  else if (command === "--help" || command === "-h") say(USAGE, Deno.stdout);
  else if (command === "--version") say(`status-agent ${VERSION}\n`, Deno.stdout);
  else {
    const problem = command === undefined
      ? "no sub-command is given"
      : `there is no ${JSON.stringify(command)}`;
    say(`Cannot start status-agent: ${problem}; the sub-commands are: gateway\n`, Deno.stderr);
    Deno.exit(2);
  }
}

// The status-agent: sits beside a charon, and is the only thing that talks to it.
import config from "../deno.json" with { type: "json" };
import { runGateway } from "./gateway.ts";

const USAGE = `status-agent ${config.version}: sits beside a charon and is the only thing that talks to it

Usage: status-agent gateway [--flag=value ...]   in the pod of an IPsecGateway
       status-agent gateway --help               its flags
       status-agent --version
`;

function say(text: string, stream: { writeSync(bytes: Uint8Array): number }): void {
  stream.writeSync(new TextEncoder().encode(text));
}

if (import.meta.main) {
  const [command, ...args] = Deno.args;
  if (command === "gateway") await runGateway(args, config.version);
  else if (command === "--help" || command === "-h") say(USAGE, Deno.stdout);
  else if (command === "--version") say(`status-agent ${config.version}\n`, Deno.stdout);
  else {
    const problem = command === undefined
      ? "no sub-command is given"
      : `there is no ${JSON.stringify(command)}`;
    say(`Cannot start status-agent: ${problem}; the sub-commands are: gateway\n`, Deno.stderr);
    Deno.exit(2);
  }
}

// deno-lint-ignore-file no-console
// What the controller does with a kubeconfig, in one small program, to be compiled: client-node's import, its typed API
// over our transport, our own client. Its one line of output is read by kube_test.ts.
import { findConnection } from "../src/kube/connect.ts";
import { createKubeClient } from "../src/kube/client.ts";
import { NODES } from "../src/kube/kinds.ts";
import { list } from "../src/kube/objects.ts";

const connection = await findConnection({ kubeconfig: Deno.args[0] });
using client = createKubeClient(connection);
const ours = (await list(client, NODES)).items.map((node) => node.metadata?.name ?? "");
// By our own module, and by a static name: `deno compile` packs what it can see.
const { clientNode } = await import("../src/kube/kubeconfig.ts");
const { CoreV1Api } = await import("@kubernetes/client-node");
using node = clientNode(connection);
const typed = (await new CoreV1Api(node.configuration).listNode()).items.map((each) =>
  each.metadata?.name ?? ""
);
console.log(JSON.stringify({ deno: Deno.version.deno, ours, typed }));

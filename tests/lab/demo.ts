// deno-lint-ignore-file no-console -- what it shows is its purpose
// The demo on a lab that is up: installs the operator, applies docs/examples/gateway.yaml, brings the partner's side up, and
// shows conditions, tunnel and traffic. Ends with 1 when one of these is not as it should be.
import assert from "node:assert/strict";
import { CONDITION_TYPES, type IPsecGateway } from "../../src/api/ipsec_gateway.ts";
import { run, until } from "./command.ts";
import { apply, getJson, installOperator, kubectl } from "./operator.ts";
import { load, phost, phostSend, sas } from "./partner.ts";

const NAMESPACE = "tenant";
const GATEWAY = "berlin";
const FILES = {
  workloads: new URL("demo.yaml", import.meta.url).pathname,
  gateway: new URL("../../docs/examples/gateway.yaml", import.meta.url).pathname,
};
const started = performance.now();

function at(text: string): void {
  console.log(`[${((performance.now() - started) / 1000).toFixed(1).padStart(5)} s] ${text}`);
}

const own = (args: readonly string[]) => kubectl(["-n", NAMESPACE, ...args], { timeoutMs: 150_000 });
const gateway = () => getJson<IPsecGateway>(["-n", NAMESPACE, "ipsecgateway", GATEWAY]);

async function install(): Promise<string> {
  await installOperator();
  at("operator installed by helm from charts/ipsec-operator, it leads");
  await kubectl(["apply", "-f", FILES.workloads]);
  // A new key each time, by standard input only.
  const key = crypto.randomUUID();
  await apply([{
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "berlin-keys", namespace: NAMESPACE },
    stringData: { psk: key },
  }]);
  await kubectl(["apply", "-f", FILES.gateway]);
  at("applied docs/examples/gateway.yaml, a Secret with the key, pods web and client");
  return key;
}

async function conditions(): Promise<IPsecGateway> {
  const complete = await until("all conditions are True", async () => {
    const current = await gateway();
    const found = new Map(current.status?.conditions?.map((one) => [one.type, one.status]));
    return CONDITION_TYPES.every((type) => found.get(type) === "True") ? current : undefined;
  }, { timeoutMs: 150_000, intervalMs: 250 }).catch(async (error: unknown) => {
    console.log(await own(["describe", "ipsecgateway", GATEWAY]));
    throw error;
  });
  at(`${CONDITION_TYPES.length} conditions are True:`);
  for (const { type, reason, message } of complete.status?.conditions ?? []) {
    console.log(`            ${type.padEnd(16)} ${reason.padEnd(14)} ${message ?? ""}`);
  }
  return complete;
}

async function tunnel(floatingIP: string): Promise<void> {
  await until(
    "the tunnel is ESTABLISHED",
    async () => (await gateway()).status?.tunnels?.[0]?.state === "ESTABLISHED",
    { timeoutMs: 90_000, intervalMs: 250 },
  );
  at("the tunnel is ESTABLISHED:");
  const indent = (text: string) => text.trimEnd().replace(/^/gm, "            ");
  console.log(indent(await own(["get", "ipsecgateway", GATEWAY])));
  console.log(
    indent(await own(["exec", `deploy/${GATEWAY}`, "-c", "strongswan", "--", "swanctl", "--list-sas"])),
  );
  const [sa] = await sas();
  assert.equal(sa?.remoteHost, floatingIP, "the partner should see the floating IP");
  at(`the partner sees ${sa?.remoteHost} as ${sa?.remoteId}, which is the gateway's floating IP`);
}

async function traffic(exposure: string, cidr: string): Promise<void> {
  await own(["wait", "--for=condition=Ready", "pod/web", "pod/client", "--timeout=60s"]);
  const inwards = crypto.randomUUID();
  const web = (await phostSend(inwards, `TCP:${exposure}:8080`)).trim().replaceAll("\n", " / ");
  assert.ok(web.startsWith("web saw ") && web.includes(inwards), `the web server answered "${web}"`);
  at(`partner's host 192.168.77.10 -> ${exposure}:8080 -> Service web -> pod: "${web}"`);

  const service = await own(["get", "service", `${GATEWAY}-api`, "-o", "jsonpath={.spec.clusterIP}"]);
  const outwards = crypto.randomUUID();
  const call = `echo ${outwards} | timeout 5 socat -t2 - TCP:${service}:80,connect-timeout=5`;
  const host = (await own(["exec", "client", "--", "sh", "-c", call])).trim().replaceAll("\n", " / ");
  assert.ok(host.includes(outwards), `the partner's host answered "${host}"`);
  at(`pod client -> Service ${GATEWAY}-api (${service}:80) -> partner's host 192.168.77.10:8080: "${host}"`);

  const first = cidr.replace(/0\/24$/, "1");
  const ping = await phost(["ping", "-c", "3", "-i", "0.2", "-W", "2", first]);
  assert.equal(ping.code, 0, `ping ${first}: ${ping.stdout}`);
  at(`partner's host pings ${first}: ${ping.stdout.match(/\d+ received.*/)?.[0]}`);
}

function howToLookFurther(): void {
  console.log(`
How to look further, while it is up (./run demo --keep); first, in this directory: . tests/lab/env.sh; export KUBECONFIG PATH
  kubectl -n ${NAMESPACE} get ipsecgateway ${GATEWAY} -o yaml                                what the status says
  kubectl -n ${NAMESPACE} get events --field-selector involvedObject.name=${GATEWAY}        what happened
  kubectl -n ${NAMESPACE} exec deploy/${GATEWAY} -c strongswan -- swanctl --list-sas         what strongSwan says
  kubectl -n ${NAMESPACE} logs deploy/${GATEWAY} -c status-agent                             what the agent did
  kubectl -n ipsec-system logs deploy/ipsec-operator                                what the operator did
  deno run -A tests/lab/partner.ts sas                                              what the partner sees
  ip netns exec ipo-router tcpdump -ni any udp port 4500                            the wire: ESP, nothing in clear
  ./run lab status
`);
}

try {
  const key = await install();
  const { status } = await conditions();
  const floatingIP = status?.floatingIP?.address ?? "";
  const cidr = status?.serviceCIDR ?? "";
  await load([{ name: GATEWAY, remote: floatingIP, key, children: [{ name: "net", remoteTs: [cidr] }] }]);
  at("the partner's firewall is configured for it, with the same key");
  await tunnel(floatingIP);
  await traffic(status?.exposures?.[0]?.address ?? "", cidr);
  howToLookFurther();
  at("the demo worked");
} catch (error) {
  console.log(`the demo failed: ${error instanceof Error ? error.message : String(error)}`);
  if (error instanceof Error && error.cause) console.log(`  because: ${error.cause}`);
  await run([
    "sh",
    "-c",
    "kubectl get pods -A -o wide; kubectl -n ipsec-system logs deploy/ipsec-operator --tail=20",
  ], {
    timeoutMs: 20_000,
  }).then(console.log, () => {});
  Deno.exit(1);
}

import assert from "node:assert/strict";
import { FLAGS, gatewayOptions } from "./mod.ts";
import type { IPsecGateway } from "./src/api/ipsec_gateway.ts";
import { gateway } from "./src/gateway/gateway_builder.ts";
import type { Lease } from "./src/kube/kinds.ts";
import { startLoopbackApiServer } from "./src/kube/loopback_apiserver.ts";
import type { KubeObject } from "./src/kube/resource.ts";
import { startCloudDouble } from "./src/openstack/cloud_double.ts";
import { eventually } from "./src/process/eventually.ts";
import { parseFlags } from "./src/process/flags.ts";

const TEXT = { program: "controller", version: "0", about: "", env: () => undefined };
const GATEWAYS = "/apis/ipsec.bnerd.net/v1alpha1/namespaces/tenant/ipsecgateways";
const NEEDED = ["--service-cidr-pool=100.64.0.0/16", "--image-strongswan=s", "--image-status-agent=a"];

function problems(...args: string[]): string {
  const { exit } = parseFlags(FLAGS, { ...TEXT, args: [...NEEDED, ...args] });
  assert.equal(exit?.code, 2);
  return exit.text;
}

Deno.test("gatewayOptions() leaves out what is not given", () => {
  const { values } = parseFlags(FLAGS, { ...TEXT, args: NEEDED });
  assert.ok(values);
  assert.deepEqual(gatewayOptions(values).openstack, {
    allowedNetworkIDs: [],
    allowedFloatingIPs: [],
    allowedRoutedCIDRs: [],
  });
});

Deno.test("gatewayOptions() carries what is given", () => {
  const { values } = parseFlags(FLAGS, {
    ...TEXT,
    args: [...NEEDED, "--agent-interval=5s", "--allowed-floating-ips=203.0.113.9,203.0.113.8"],
  });
  assert.ok(values);
  const options = gatewayOptions(values);
  assert.equal(options.agentIntervalSeconds, 5);
  assert.deepEqual(options.openstack.allowedFloatingIPs, ["203.0.113.9", "203.0.113.8"]);
});

Deno.test("FLAGS name one problem a line when several values are wrong", () => {
  const lines = problems(
    "--network-id=x",
    "--workers=0",
    "--data-plane=magic",
    "--service-cidr-pool=10.0.0.0/25",
  ).split("\n");
  assert.equal(lines.length, 4);
  for (const flag of ["network-id", "workers", "data-plane", "service-cidr-pool"]) {
    assert.ok(lines.some((line) => line.includes(`--${flag}`)), flag);
  }
});

// An abort does not reach the body of an answer that is garbage, and a watch that is
// not ended by hand then holds up the end for ever.
Deno.test("the controller ends on SIGTERM and releases its lease when its watches' answers are garbage", async () => {
  await using api = startLoopbackApiServer();
  await using cloud = startCloudDouble();
  api.put(GATEWAYS, gateway());
  api.put(
    "/api/v1/namespaces/tenant/secrets",
    { metadata: { name: "keys" }, data: { psk: "eA==" } } as KubeObject,
  );
  const directory = await Deno.makeTempDir();
  const named = { name: "a", cluster: { server: api.connection.server }, user: { token: "loopback" } };
  const kubeconfig = {
    ...{ apiVersion: "v1", kind: "Config", "current-context": "a", clusters: [named], users: [named] },
    contexts: [{ name: "a", context: { cluster: "a", user: "a" } }],
  };
  const auth = { auth_url: cloud.cloud.authURL, user_id: "u", password: "sesame", project_id: "p" };
  await Deno.writeTextFile(`${directory}/kubeconfig`, JSON.stringify(kubeconfig));
  await Deno.writeTextFile(`${directory}/clouds.yaml`, JSON.stringify({ clouds: { double: { auth } } }));
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "-A", "--quiet", "--no-check"],
      ...[new URL("mod.ts", import.meta.url).pathname, ...NEEDED],
      ...[`--kubeconfig=${directory}/kubeconfig`, `--clouds-file=${directory}/clouds.yaml`],
      ...["--leader-election-namespace=default", "--metrics-bind-address=0"],
      "--health-probe-bind-address=127.0.0.1:0",
    ],
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const said = new Response(child.stdout).text();
  const lease = () =>
    api.read("/apis/coordination.k8s.io/v1/namespaces/default/leases/ipsec-operator") as Lease;
  try {
    const busy = () => cloud.calls.length > 0 && api.watches() >= 5;
    await eventually("a controller at work", busy, { timeoutMs: 30_000 });
    assert.match(lease().spec?.holderIdentity ?? "", /./);
    // So much to read that memory is collected many times.
    for (let generation = 1; generation <= 40; generation++) {
      const annotations = { padding: "x".repeat(200_000) };
      api.put(GATEWAYS, gateway({}, { metadata: { generation, annotations } }));
    }
    await eventually("the last edit's reconcile", () => {
      return (api.read(`${GATEWAYS}/gw/status`) as IPsecGateway | undefined)?.status?.observedGeneration ===
        40;
    }, { timeoutMs: 30_000 });
  } finally {
    child.kill("SIGTERM");
  }
  const { code } = await child.status;
  assert.equal(code, 0, await said);
  assert.equal(lease().spec?.holderIdentity, "");
  await said;
  await Deno.remove(directory, { recursive: true });
});

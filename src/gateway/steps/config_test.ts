import assert from "node:assert/strict";
import type { ExposureSpec } from "../../api/ipsec_gateway.ts";
import { CONFIG_MAPS, DEPLOYMENTS, NETWORK_ATTACHMENT_DEFINITIONS, SERVICES } from "../../kube/kinds.ts";
import { startWorld, type World } from "../context_builder.ts";
import { gateway } from "../gateway_builder.ts";
import { attachmentName, objectLabels } from "../names.ts";
import { exposureAddresses } from "./config.ts";

const CIDR = "100.64.0.0/24";

function exposure(name: string, fields: Partial<ExposureSpec> = {}): ExposureSpec {
  return { name, port: 443, protocol: "TCP", target: { address: "10.0.0.1", port: 443 }, ...fields };
}

Deno.test("exposureAddresses() gives the lowest free address when none is named", () => {
  const addresses = exposureAddresses(
    [exposure("a"), exposure("b"), exposure("c", { port: 80 })],
    new Map(),
    CIDR,
  );
  assert.deepEqual(Object.fromEntries(addresses), { a: "100.64.0.10", b: "100.64.0.11", c: "100.64.0.10" });
});

Deno.test("exposureAddresses() moves none when another is added before it", () => {
  const before = new Map([["b", "100.64.0.10"]]);
  const addresses = exposureAddresses([exposure("a"), exposure("b")], before, CIDR);
  assert.deepEqual(Object.fromEntries(addresses), { b: "100.64.0.10", a: "100.64.0.11" });
});

Deno.test("exposureAddresses() ignores an old address outside of the service CIDR", () => {
  assert.equal(
    exposureAddresses([exposure("a")], new Map([["a", "10.0.0.9"]]), CIDR).get("a"),
    "100.64.0.10",
  );
});

Deno.test("exposureAddresses() names both exposures when they want the same port of one address", () => {
  const clash = [exposure("a", { ip: "100.64.0.20" }), exposure("b", { ip: "100.64.0.20" })];
  assert.throws(
    () => exposureAddresses(clash, new Map(), CIDR),
    /Exposures a and b both want 100\.64\.0\.20 TCP 443/,
  );
});

Deno.test("exposureAddresses() refuses an address outside of the service CIDR", () => {
  assert.throws(
    () => exposureAddresses([exposure("a", { ip: "10.0.0.9" })], new Map(), CIDR),
    /is not in the service CIDR/,
  );
});

const serving = (name: string, service: string): ExposureSpec => ({
  name,
  port: 443,
  protocol: "TCP",
  target: { service: { name: service, port: 8080 } },
});

function putService(world: World, name: string, clusterIP: string): void {
  world.write(SERVICES, { metadata: { name }, spec: { clusterIP, ports: [{ port: 8080 }] } });
}

const natRules = (world: World) => world.read(CONFIG_MAPS, "gw-nat")?.data?.["nat.rules"] ?? "";
const targets = (world: World) =>
  [...natRules(world).matchAll(/-d (\S+)\/32 .*--to-destination (\S+)/g)].map(([, from, to]) =>
    `${from} ${to}`
  );

/** The attachment that the pod template asks for. */
function attachmentOf(world: World): string | undefined {
  const template = world.read(DEPLOYMENTS, "gw")?.spec?.template;
  return JSON.parse(template?.metadata?.annotations?.["k8s.v1.cni.cncf.io/networks"] ?? "[{}]")[0].name;
}

Deno.test("config takes the rule away of an exposure whose Service is gone, keeps the others and names it", async () => {
  await using world = startWorld();
  putService(world, "web", "10.96.0.10");
  putService(world, "mail", "10.96.0.11");
  await world.run(gateway({ exposures: [serving("web", "web"), serving("mail", "mail")] }));
  assert.deepEqual(targets(world), ["100.64.0.11 10.96.0.11:8080", "100.64.0.10 10.96.0.10:8080"]);

  world.api.remove("/api/v1/namespaces/tenant/services/web");
  const { requeueAfterMs } = await world.reconcile();
  assert.deepEqual(targets(world), ["100.64.0.11 10.96.0.11:8080"]);
  assert.equal(world.condition("ConfigRendered"), "False/RenderFailed");
  const { message = "" } = world.conditionOf("ConfigRendered") ?? {};
  assert.match(message, /^Service tenant\/web \(exposure web\) does not exist: create it/);
  assert.doesNotMatch(message, /mail/);
  assert.deepEqual(world.gateway().status?.exposures, [{ name: "mail", address: "100.64.0.11", port: 443 }]);
  assert.equal(requeueAfterMs, 15_000);
  assert.equal(world.replicas(), 1);

  putService(world, "web", "10.96.0.99");
  await world.reconcile();
  assert.deepEqual(targets(world), ["100.64.0.11 10.96.0.11:8080", "100.64.0.10 10.96.0.99:8080"]);
  assert.equal(world.condition("ConfigRendered"), "True/Rendered");
});

Deno.test("config renders a new tunnel also while an exposure has no target", async () => {
  await using world = startWorld();
  await world.run(gateway({ exposures: [serving("web", "nothing")] }));
  const [berlin] = gateway().spec.tunnels;
  assert.ok(berlin);
  const rome = { ...berlin, name: "rome", peer: { address: "203.0.113.251", port: 500 } };
  world.edit({ tunnels: [berlin, rome] });
  await world.reconcile();
  assert.match(world.read(CONFIG_MAPS, "gw-swanctl")?.data?.["swanctl.conf"] ?? "", /rome/);
  assert.equal(world.condition("ConfigRendered"), "False/RenderFailed");
});

Deno.test("config names a foreign ConfigMap of the same name, and leaves it as it is", async () => {
  for (const name of ["gw-swanctl", "gw-nat"]) {
    await using world = startWorld();
    world.write(CONFIG_MAPS, { metadata: { name, labels: objectLabels("gw") }, data: { mine: "x" } });
    const before = world.read(CONFIG_MAPS, name);
    world.put(gateway());
    await world.reconcile();
    assert.equal(world.condition("ConfigRendered"), "False/RenderFailed");
    const told = new RegExp(`ConfigMap "tenant/${name}": an object of that name is there`);
    assert.match(world.conditionOf("ConfigRendered")?.message ?? "", told);
    assert.deepEqual(world.read(CONFIG_MAPS, name), before);
    assert.equal(world.read(DEPLOYMENTS, "gw"), undefined);
  }
});

Deno.test("config replaces the NetworkAttachmentDefinition when the port was made anew, and removes no foreign one", async () => {
  await using world = startWorld();
  await world.run();
  const nameNow = async () => {
    const { macAddress = "", fixedIP = "" } = world.gateway().status?.port ?? {};
    return await attachmentName("gw", macAddress, fixedIP);
  };
  const old = await nameNow();
  assert.ok(world.read(NETWORK_ATTACHMENT_DEFINITIONS, old));
  assert.equal(attachmentOf(world), old);
  world.write(NETWORK_ATTACHMENT_DEFINITIONS, { metadata: { name: "gw-mine", labels: objectLabels("gw") } });

  world.double.items.ports = world.items("ports").filter(({ id }) => id === "R-port");
  world.item("floatingips", ({ id }) => id !== "pinned").port_id = null;
  await world.reconcile();
  assert.notEqual(await nameNow(), old);
  assert.equal(world.read(NETWORK_ATTACHMENT_DEFINITIONS, old), undefined);
  assert.ok(world.read(NETWORK_ATTACHMENT_DEFINITIONS, await nameNow()));
  assert.equal(attachmentOf(world), await nameNow());
  assert.ok(world.read(NETWORK_ATTACHMENT_DEFINITIONS, "gw-mine"));
});

import assert from "node:assert/strict";
import { type CloudDouble, startCloudDouble } from "../cloud_double.ts";
import type { OpenStackClient } from "../client.ts";
import { ensureFloatingIP } from "./floating_ip.ts";
import { releaseFloatingIP } from "./floating_ip_release.ts";
import { markedDescription } from "./owner.ts";
import { ensurePort } from "./port.ts";
import { ensureRoutes } from "./routes.ts";

const owner = { tag: "ipsec.bnerd.net/uid=u-1", name: "ipsec-gw", description: "IPsecGateway ns/gw" };
const pinnedTag = "ipsec.bnerd.net/pinned-by=u-1";

interface At {
  double: CloudDouble;
  os: OpenStackClient;
  portID: string;
  ensure(pinnedAddress?: string): ReturnType<typeof ensureFloatingIP>;
}

async function withPort(test: (at: At) => Promise<void>) {
  await using double = startCloudDouble();
  await using os = double.client();
  const { id: portID } = await ensurePort(os, owner, { networkID: "N", securityGroupID: "g" });
  const ensure = (pinnedAddress?: string) =>
    ensureFloatingIP(os, owner, {
      portID,
      pinnedTag,
      externalNetworkID: "X",
      ...(pinnedAddress === undefined ? {} : { pinnedAddress }),
    });
  await test({ double, os, portID, ensure });
  assert.deepEqual(double.unmet(), []);
}

/** A floating IP that is there already. */
function give(double: CloudDouble, fields: Record<string, unknown> = {}) {
  const fip = {
    id: "fip-theirs",
    floating_ip_address: "203.0.113.77",
    floating_network_id: "X",
    description: "customer's",
    port_id: null as string | null,
    tags: [] as string[],
    created_at: "0",
    revision_number: 1,
    ...fields,
  };
  double.items.floatingips!.push(fip);
  return fip;
}

Deno.test("ensureFloatingIP() leaks no address in ten tries when the port has one already, and uses that", () =>
  withPort(async ({ double, portID, ensure }) => {
    double.fail({
      match: /POST .*floatingips/,
      meanwhile: () => give(double, { port_id: portID }),
    });
    await assert.rejects(
      ensure(),
      /FloatingIPPortAlreadyAssociated.*another floating IP was put on the port/,
    );
    for (let at = 0; at < 10; at++) {
      assert.deepEqual(await ensure(), {
        kind: "attached",
        id: "fip-theirs",
        address: "203.0.113.77",
        pinned: true,
      });
    }
    assert.equal(double.items.floatingips!.length, 1);
  }));

Deno.test("ensureFloatingIP() makes one address when the answer to the create or the tag is lost", async () => {
  for (const match of [/POST .*floatingips/, /PUT .*floatingips\/.*tags/]) {
    for (const fault of [{ cut: "after" as const }, { statusAfter: 503 }]) {
      await withPort(async ({ double, ensure }) => {
        double.fail({ match, ...fault });
        const outcome = await ensure();
        assert.ok(outcome.kind === "attached" && !outcome.pinned);
        assert.deepEqual(double.items.floatingips!.map((fip) => fip.tags), [[owner.tag]]);
      });
    }
  }
});

Deno.test("ensureFloatingIP() deletes the address that it could not tag", () =>
  withPort(async ({ double, ensure }) => {
    double.fail({ match: /PUT .*tags/, status: 403 });
    await assert.rejects(ensure(), /Cannot tag floating IP .* of ipsec-gw \(it was deleted again\)/);
    assert.equal(double.items.floatingips!.length, 0);
  }));

Deno.test("ensureFloatingIP() reads back a lost association instead of failing", () =>
  withPort(async ({ double, portID, ensure }) => {
    for (const fault of [{ cut: "after" as const }, { statusAfter: 500 }, { cut: "before" as const }]) {
      double.items.floatingips = double.items.floatingips!.filter(() => false);
      const fip = give(double);
      double.fail({ match: /PUT .*floatingips\/fip-theirs$/, ...fault });
      assert.equal((await ensure(fip.floating_ip_address)).kind, "attached");
      assert.equal(fip.port_id, portID);
    }
  }));

Deno.test("ensureFloatingIP() never sends an update without port_id and without the revision", () =>
  withPort(async ({ double, os, ensure }) => {
    give(double);
    await ensure("203.0.113.77");
    await releaseFloatingIP(os, owner, { pinnedTag });
    const puts = double.seen(/PUT .*floatingips\/[^/]+$/);
    assert.equal(puts.length, 2);
    for (const put of puts) {
      assert.ok("port_id" in (put.body as { floatingip: object }).floatingip);
      assert.match(put.headers.get("if-match") ?? "", /^revision_number=\d+$/);
    }
  }));

Deno.test("ensureFloatingIP() leaves an address that moved between look and write, and gives up on one that never rests", () =>
  withPort(async ({ double, ensure }) => {
    const fip = give(double);
    double.fail({
      match: /PUT .*floatingips\/fip-theirs$/,
      meanwhile: () => Object.assign(fip, { port_id: "foreign", revision_number: fip.revision_number + 1 }),
    });
    assert.equal((await ensure(fip.floating_ip_address)).kind, "elsewhere");
    fip.port_id = null;
    double.fail({
      match: /PUT .*floatingips\/fip-theirs$/,
      meanwhile: () => fip.revision_number++,
      times: 4,
    });
    await assert.rejects(
      ensure(fip.floating_ip_address),
      /put floating IP 203\.0\.113\.77.*RevisionNumberConstraintFailed/,
    );
  }));

Deno.test("ensureFloatingIP() frees its own address from the port when one gets pinned", () =>
  withPort(async ({ double, portID, ensure }) => {
    const own = await ensure();
    const fip = give(double, { port_id: "foreign" });
    assert.equal((await ensure(fip.floating_ip_address)).kind, "elsewhere");
    assert.equal(double.items.floatingips!.length, 2, "the own one serves until the pinned one is free");
    fip.port_id = null;
    assert.deepEqual(await ensure(fip.floating_ip_address), {
      kind: "attached",
      id: fip.id,
      address: fip.floating_ip_address,
      pinned: true,
    });
    assert.equal(fip.port_id, portID);
    assert.ok(own.kind === "attached" && double.items.floatingips!.every((one) => one.id !== own.id));
  }));

Deno.test("ensureFloatingIP() gives the old pin back when another address is pinned", () =>
  withPort(async ({ double, portID, ensure }) => {
    const one = give(double, { tags: ["customer=7"] });
    const two = give(double, { id: "fip-two", floating_ip_address: "203.0.113.78" });
    await ensure(one.floating_ip_address);
    await ensure(two.floating_ip_address);
    assert.deepEqual([one.port_id, one.tags], [null, ["customer=7"]]);
    assert.deepEqual([two.port_id, two.tags], [portID, [pinnedTag]]);
  }));

Deno.test("ensureFloatingIP() lets go of a pin that left the spec while its address was elsewhere", () =>
  withPort(async ({ double, ensure }) => {
    const fip = give(double, { port_id: "foreign" });
    assert.equal((await ensure(fip.floating_ip_address)).kind, "elsewhere");
    assert.deepEqual(fip.tags, [pinnedTag]);
    const own = await ensure();
    assert.ok(own.kind === "attached" && own.id !== fip.id);
    assert.deepEqual([fip.port_id, fip.tags], ["foreign", []]);
  }));

Deno.test("ensureFloatingIP() keeps the pin of the tag that sorts first when two marked at once", () =>
  withPort(async ({ double, ensure }) => {
    const other = "ipsec.bnerd.net/pinned-by=u-0";
    const fip = give(double);
    double.fail({ match: /GET .*floatingips\/fip-theirs\/tags/, meanwhile: () => fip.tags.push(other) });
    const outcome = await ensure(fip.floating_ip_address);
    assert.ok(outcome.kind === "pinnedByOther" && outcome.by === other);
    assert.deepEqual([fip.tags, fip.port_id], [[other], null]);
  }));

Deno.test("ensureFloatingIP() moves its own address from its own old port, not from a foreign one", () =>
  withPort(async ({ double, portID, ensure }) => {
    const own = give(double, { tags: [owner.tag], port_id: "old", description: markedDescription(owner) });
    const template = double.items.ports!.find((port) => port.id === portID)!;
    double.items.ports!.push({ ...template, id: "old", tags: [], description: "foreign" });
    assert.equal((await ensure()).kind, "elsewhere");
    double.items.ports!.find((port) => port.id === "old")!.tags = [owner.tag];
    assert.equal((await ensure()).kind, "attached");
    assert.equal(own.port_id, portID);
  }));

Deno.test("ensureFloatingIP() and releaseFloatingIP() work where the cloud has no tags", () =>
  withPort(async ({ double, portID }) => {
    double.extensions = [];
    double.items.ports!.find((port) => port.id === portID)!.tags = [];
    await using plain = double.client();
    const fip = give(double);
    const options = { portID, pinnedTag, externalNetworkID: "X" };
    const own = await ensureFloatingIP(plain, owner, options);
    assert.ok(own.kind === "attached" && !own.pinned);
    assert.deepEqual(await ensureFloatingIP(plain, owner, options), own);
    const pinned = await ensureFloatingIP(plain, owner, {
      ...options,
      pinnedAddress: fip.floating_ip_address,
    });
    assert.equal(pinned.kind, "attached");
    const released = await releaseFloatingIP(plain, owner, { pinnedTag });
    assert.deepEqual(released, { deleted: [], freed: [fip.floating_ip_address], left: [] });
    assert.deepEqual(double.items.floatingips!.map((one) => [one.id, one.port_id]), [[fip.id, null]]);
  }));

Deno.test("releaseFloatingIP() leaves an own address that somebody put on a foreign port or pinned, and says so", () =>
  withPort(async ({ double, os, ensure }) => {
    const own = await ensure();
    assert.ok(own.kind === "attached");
    const item = double.items.floatingips![0]!;
    item.port_id = "foreign";
    const moved = await releaseFloatingIP(os, owner, { pinnedTag });
    assert.deepEqual(moved.left, [
      `floating IP ${own.address} (${own.id}) of ipsec-gw was left, because it is on port foreign, which is not ours`,
    ]);
    Object.assign(item, { port_id: null, tags: [owner.tag, "ipsec.bnerd.net/pinned-by=u-2"] });
    assert.match((await releaseFloatingIP(os, owner, { pinnedTag })).left[0]!, /pinned \(tag .*u-2\)/);
    item.tags = [owner.tag];
    double.fail({ match: /DELETE .*floatingips/, cut: "after" });
    await releaseFloatingIP(os, owner, { pinnedTag });
    assert.equal(double.items.floatingips!.length, 0);
    assert.deepEqual(await releaseFloatingIP(os, owner, { pinnedTag }), { deleted: [], freed: [], left: [] });
  }));

Deno.test("releaseFloatingIP() deletes no own address that gets associated while it looks", () =>
  withPort(async ({ double, os, ensure }) => {
    await ensure();
    const item = double.items.floatingips![0]!;
    double.fail({
      match: /DELETE .*floatingips/,
      meanwhile: () =>
        Object.assign(item, { port_id: "foreign", revision_number: Number(item.revision_number) + 1 }),
    });
    assert.equal((await releaseFloatingIP(os, owner, { pinnedTag })).left.length, 1);
    assert.equal(double.items.floatingips!.length, 1);
  }));

Deno.test("ensureRoutes() touches only routes by its next hop, and says what is missing", () =>
  withPort(async ({ double, os }) => {
    const router = double.items.routers![0]!;
    router.routes = [{ destination: "10.5.0.0/16", nexthop: "10.0.0.9" }];
    const ensure = (destinations: string[]) =>
      ensureRoutes(os, owner, { networkID: "N", nexthop: "10.0.0.7", destinations });
    assert.deepEqual(await ensure(["10.6.0.0/16"]), { routerID: "R", added: ["10.6.0.0/16"], removed: [] });
    assert.deepEqual(await ensure(["10.6.0.0/16"]), { routerID: "R", added: [], removed: [] });
    assert.deepEqual(await ensure([]), { routerID: "R", added: [], removed: ["10.6.0.0/16"] });
    assert.deepEqual(router.routes, [{ destination: "10.5.0.0/16", nexthop: "10.0.0.9" }]);
    double.items.ports = double.items.ports!.filter((port) => port.id !== "R-port");
    double.items.ports.length = 0;
    await assert.rejects(ensure(["10.6.0.0/16"]), /subnet S has no router/);
    assert.deepEqual(await ensure([]), { routerID: "", added: [], removed: [] });
  }));

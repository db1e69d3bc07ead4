// Floating IPs of the lab's real Neutron; judged by a client of its own (lab/cloud.ts).
import assert from "node:assert/strict";
import type { OpenStack } from "../src/openstack/contract.ts";
import { ensureFloatingIP } from "../src/openstack/ensure/floating_ip.ts";
import { releaseFloatingIP } from "../src/openstack/ensure/floating_ip_release.ts";
import { deletePort } from "../src/openstack/ensure/port.ts";
import { pinOf, place } from "./openstack_place.ts";

Deno.test("ensureFloatingIP() makes one address of our own on the port, and finds it again by port and by tag", async () => {
  await using at = await place();
  const port = await at.port();
  const ensure = (portID: string) => ensureFloatingIP(at.os, at.owner, { portID, ...at });
  const first = await ensure(port.id);
  assert.equal(first.kind, "attached");
  assert.deepEqual(await ensure(port.id), first);
  assert.ok(first.kind === "attached" && !first.pinned);
  assert.deepEqual((await at.judge.get("floatingips", first.id)).tags, [at.owner.tag]);
  await at.judge.update("floatingips", first.id, { port_id: null });
  assert.deepEqual(await ensure(port.id), first, "found by tag");
  await deletePort(at.os, at.owner);
  const replaced = await at.port();
  assert.deepEqual(await ensure(replaced.id), first, "moved to the new port");
  assert.equal((await at.judge.get("floatingips", first.id)).port_id, replaced.id);
  const released = await releaseFloatingIP(at.os, at.owner, at);
  assert.deepEqual(released, { deleted: [first.address], freed: [], left: [] });
  await assert.rejects(at.judge.get("floatingips", first.id), /404/);
});

Deno.test("ensureFloatingIP() refuses a pinned address on a foreign port, takes it when it is free, and gives it back", async () => {
  await using at = await place();
  const port = await at.port();
  const vm = at.another();
  const vmPort = await at.port(vm);
  const fip = await at.judge.create("floatingips", {
    floating_network_id: at.externalNetworkID,
    port_id: vmPort.id,
    description: "customer's",
  });
  await at.judge.call("network", "PUT", `/floatingips/${fip.id}/tags`, { tags: ["customer=7"] });
  const ensure = () =>
    ensureFloatingIP(at.os, at.owner, { portID: port.id, pinnedAddress: fip.floating_ip_address, ...at });
  try {
    const refused = await ensure();
    assert.equal(refused.kind, "elsewhere");
    assert.ok(
      refused.kind === "elsewhere" && refused.portID === vmPort.id && refused.why.includes(vmPort.id),
    );
    assert.equal((await at.judge.get("floatingips", fip.id)).port_id, vmPort.id);
    await at.judge.update("floatingips", fip.id, { port_id: null });
    assert.deepEqual(await ensure(), {
      kind: "attached",
      id: fip.id,
      address: fip.floating_ip_address,
      pinned: true,
    });
    const seen = await at.judge.get("floatingips", fip.id);
    assert.equal(seen.port_id, port.id);
    assert.deepEqual([...seen.tags].sort(), ["customer=7", at.pinnedTag]);
    // Back to the VM: noticed, and left there.
    await at.judge.update("floatingips", fip.id, { port_id: vmPort.id });
    assert.equal((await ensure()).kind, "elsewhere");
    await releaseFloatingIP(at.os, at.owner, at);
    const left = await at.judge.get("floatingips", fip.id);
    assert.equal(left.port_id, vmPort.id);
    assert.deepEqual(left.tags, ["customer=7"]);
  } finally {
    await at.judge.remove("floatingips", fip.id);
  }
});

Deno.test("releaseFloatingIP() takes a pinned address off our port and deletes it never, not even one we had made", async () => {
  await using at = await place();
  const port = await at.port();
  const own = await ensureFloatingIP(at.os, at.owner, { portID: port.id, ...at });
  assert.ok(own.kind === "attached");
  const pinned = await ensureFloatingIP(at.os, at.owner, {
    portID: port.id,
    pinnedAddress: own.address,
    ...at,
  });
  assert.deepEqual(pinned, { ...own, pinned: true });
  const unpinned = await ensureFloatingIP(at.os, at.owner, { portID: port.id, ...at });
  assert.deepEqual(unpinned, { ...own, pinned: true }, "the pin left the spec");
  assert.deepEqual(await releaseFloatingIP(at.os, at.owner, at), {
    deleted: [],
    freed: [own.address],
    left: [],
  });
  assert.equal((await at.judge.get("floatingips", own.id)).port_id, null);
  await at.judge.remove("floatingips", own.id);
});

Deno.test("ensureFloatingIP() lets the first pin win", async () => {
  await using at = await place();
  const other = at.another();
  const [port, otherPort] = [await at.port(), await at.port(other)];
  const fip = await at.judge.create("floatingips", { floating_network_id: at.externalNetworkID });
  const pinnedAddress = fip.floating_ip_address;
  const ours = () => ensureFloatingIP(at.os, at.owner, { portID: port.id, pinnedAddress, ...at });
  const theirs = () =>
    ensureFloatingIP(at.os, other, { portID: otherPort.id, pinnedAddress, pinnedTag: pinOf(other) });
  try {
    assert.equal((await ours()).kind, "attached");
    const second = await theirs();
    assert.ok(second.kind === "pinnedByOther" && second.by === at.pinnedTag && second.portID === port.id);
    await at.judge.update("floatingips", fip.id, { port_id: null });
    assert.equal((await theirs()).kind, "pinnedByOther", "also while it is on no port");
    assert.equal((await ours()).kind, "attached");
    await releaseFloatingIP(at.os, at.owner, at);
    assert.equal((await theirs()).kind, "attached", "the first one let go");
    // Both at once, on a free one: one gets it and the other says why not.
    await releaseFloatingIP(at.os, other, { pinnedTag: pinOf(other) });
    await Promise.all([ours(), theirs()]);
    const settled = [await ours(), await theirs()].map((one) => one.kind).sort();
    assert.equal(settled[0], "attached");
    assert.match(settled[1]!, /pinnedByOther|elsewhere/);
  } finally {
    await at.judge.remove("floatingips", fip.id);
  }
});

Deno.test("ensureFloatingIP() does not take an address that somebody associates between its look and its write", async () => {
  await using at = await place();
  const port = await at.port();
  const vmPort = await at.port(at.another());
  const fip = await at.judge.create("floatingips", { floating_network_id: at.externalNetworkID });
  let stolen = 0;
  const os: OpenStack = {
    async request(request) {
      if (request.method === "PUT" && request.path === `/v2.0/floatingips/${fip.id}` && stolen++ === 0) {
        await at.judge.update("floatingips", fip.id, { port_id: vmPort.id });
      }
      return await at.os.request(request);
    },
  };
  try {
    const outcome = await ensureFloatingIP(os, at.owner, {
      portID: port.id,
      pinnedAddress: fip.floating_ip_address,
      pinnedTag: at.pinnedTag,
    });
    assert.equal(stolen, 1, "the race was played");
    assert.equal(outcome.kind, "elsewhere");
    assert.equal((await at.judge.get("floatingips", fip.id)).port_id, vmPort.id);
  } finally {
    await at.judge.remove("floatingips", fip.id);
  }
});

Deno.test("ensureFloatingIP() says that a pinned address does not exist", async () => {
  await using at = await place();
  const outcome = await ensureFloatingIP(at.os, at.owner, {
    portID: "none",
    pinnedAddress: "203.0.113.199",
    pinnedTag: at.pinnedTag,
  });
  assert.ok(outcome.kind === "notFound" && outcome.why.includes("203.0.113.199"));
});

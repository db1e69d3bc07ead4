// Every call of the whole way, up and down, goes wrong once in every way: afterwards there is one of each, or nothing.
import assert from "node:assert/strict";
import type { OpenStackClient } from "../client.ts";
import { type CloudDouble, type Fault, startCloudDouble } from "../cloud_double.ts";
import { attachPort, detachPort } from "./attachment.ts";
import { ensureFloatingIP } from "./floating_ip.ts";
import { releaseFloatingIP } from "./floating_ip_release.ts";
import { deletePort, ensurePort, findPorts } from "./port.ts";
import { ensureRoutes } from "./routes.ts";
import { deleteSecurityGroup, ensureSecurityGroup } from "./security_group.ts";
import { resolveServer } from "./server.ts";

const owner = { tag: "ipsec.bnerd.net/uid=u-1", name: "ipsec-gw", description: "IPsecGateway ns/gw" };
const pinnedTag = "ipsec.bnerd.net/pinned-by=u-1";
const PINNED = "203.0.113.77";

const FAULTS: Record<string, Omit<Fault, "match">> = {
  "cut before": { cut: "before" },
  "503 after": { statusAfter: 503 },
  "404": { status: 404 },
  "409": { status: 409 },
};

async function up(os: OpenStackClient, pinnedAddress?: string): Promise<boolean> {
  const { id: securityGroupID } = await ensureSecurityGroup(os, owner, {
    rules: [{ direction: "ingress", ethertype: "IPv4", protocol: "udp", portMin: 500, portMax: 500 }],
  });
  const port = await ensurePort(os, owner, {
    networkID: "N",
    securityGroupID,
    allowedAddressPairs: ["10.9.0.0/24"],
  });
  const server = await resolveServer(os, { nodeName: "node-1" });
  if (server.kind === "missing") return false;
  const { state } = await attachPort(os, owner, { portID: port.id, serverID: server.id });
  if (state === "waiting") return false;
  const address = await ensureFloatingIP(os, owner, {
    portID: port.id,
    pinnedTag,
    externalNetworkID: "X",
    ...(pinnedAddress === undefined ? {} : { pinnedAddress }),
  });
  await ensureRoutes(os, owner, { networkID: "N", nexthop: port.fixedIP, destinations: ["192.168.7.0/24"] });
  return address.kind === "attached";
}

// Between two tries a detach whose answer was lost may be asked for again.
let clock = 0;
const now = () => clock += 11_000;

async function down(os: OpenStackClient): Promise<boolean> {
  await releaseFloatingIP(os, owner, { pinnedTag });
  for (const port of await findPorts(os, owner)) {
    for (const nexthop of port.fixedIPs) {
      await ensureRoutes(os, owner, { networkID: "N", nexthop, destinations: [] });
    }
    if ((await detachPort(os, owner, { portID: port.id, now })).state === "waiting") return false;
  }
  await deletePort(os, owner);
  await deleteSecurityGroup(os, owner);
  return true;
}

/** Tries until it answers true, at most ten times; a failed try counts. */
async function persist(attempt: () => Promise<boolean>): Promise<void> {
  let last: unknown;
  for (let at = 0; at < 10; at++) {
    try {
      if (await attempt()) return;
    } catch (error) {
      assert.ok(
        error instanceof Error && /^Cannot .*(?:ipsec-gw|node-1|network N|subnet S)/.test(error.message),
        String(error),
      );
      last = error;
    }
  }
  throw new Error("it did not settle in ten tries", { cause: last });
}

function fresh(): CloudDouble {
  // A clock that leaps, so that the client's pauses after a refusal cost no time.
  let now = 1_000_000_000_000;
  const double = startCloudDouble(() => now += 3_000);
  double.tokenLife = 1e9;
  double.items.floatingips!.push({
    id: "fip-theirs",
    floating_ip_address: PINNED,
    floating_network_id: "X",
    description: "customer's",
    port_id: null,
    tags: ["customer=7"],
    created_at: "0",
    revision_number: 1,
  });
  return double;
}

function ours(double: CloudDouble, kind: string) {
  return double.items[kind]!.filter((item) =>
    item.name === owner.name || String(item.description).includes(owner.tag)
  );
}

for (const [name, fault] of Object.entries(FAULTS)) {
  // With a pinned address in two of the ways only: the others would show nothing that these don't.
  for (const pinned of ["503 after", "409"].includes(name) ? [undefined, PINNED] : [undefined]) {
    Deno.test(`the ensure functions end with one of each when any one call answers ${name}${pinned ? ", pinned" : ""}`, async () => {
      for (let call = 0, met = true; met; call++) {
        await using double = fresh();
        await using os = double.client({ fetch: double.fetch });
        double.fail({ match: /./, skip: call, ...fault });
        await persist(() => up(os, pinned));
        met = double.unmet().length === 0;
        await persist(() => up(os, pinned));
        const where = `call ${call}`;
        for (const kind of ["security-groups", "ports"]) {
          assert.deepEqual(ours(double, kind).map((item) => item.tags), [[owner.tag]], `${kind}, ${where}`);
        }
        assert.equal(double.items["security-group-rules"]!.length, 3, where);
        const [port] = ours(double, "ports");
        const onPort = double.items.floatingips!.filter((item) => item.port_id === port!.id);
        const tags = pinned ? ["customer=7", pinnedTag].sort() : [owner.tag];
        assert.deepEqual(onPort.map((item) => [...item.tags as string[]].sort()), [tags], where);
        assert.equal(double.items.floatingips!.length, pinned ? 1 : 2, where);
        assert.deepEqual(double.items.routers![0]!.routes, [
          {
            destination: "192.168.7.0/24",
            nexthop: (port!.fixed_ips as { ip_address: string }[])[0]!.ip_address,
          },
        ], where);
      }
    });

    Deno.test(`the release functions leave nothing when any one call answers ${name}${pinned ? ", pinned" : ""}`, async () => {
      for (let call = 0, met = true; met; call++) {
        await using double = fresh();
        await using os = double.client({ fetch: double.fetch });
        await persist(() => up(os, pinned));
        // A 404 to a delete is to be believed.
        double.fail({ match: name === "404" ? /^(?!DELETE)/ : /./, skip: call, ...fault });
        await persist(() => down(os));
        met = double.unmet().length === 0;
        const where = `call ${call}`;
        for (const kind of ["security-groups", "ports", "floatingips"]) {
          assert.deepEqual(ours(double, kind), [], `${kind}, ${where}`);
        }
        assert.deepEqual(double.items.routers![0]!.routes, [], where);
        const [theirs] = double.items.floatingips!;
        assert.deepEqual([theirs?.port_id, theirs?.tags], [null, ["customer=7"]], where);
      }
    });
  }
}

// What the tests of src/openstack against the lab's real services share.
import assert from "node:assert/strict";
import { OpenStackClient } from "../src/openstack/client.ts";
import { type Cloud as Credentials, parseClouds } from "../src/openstack/clouds.ts";
import type { OpenStack } from "../src/openstack/contract.ts";
import { releaseFloatingIP } from "../src/openstack/ensure/floating_ip_release.ts";
import type { Owner } from "../src/openstack/ensure/owner.ts";
import { deletePort, ensurePort, type Port } from "../src/openstack/ensure/port.ts";
import type { Rule } from "../src/openstack/ensure/rules.ts";
import { deleteSecurityGroup, ensureSecurityGroup } from "../src/openstack/ensure/security_group.ts";
import { AUTH_URL, type Cloud, connectAs, type Rule as SeenRule } from "./lab/cloud.ts";

/** A clouds.yaml of the lab's tenant, by password. */
export function tenantClouds(authURL = AUTH_URL): string {
  return `clouds:
  lab:
    auth: {auth_url: "${authURL}", username: tenant, password: tenantpw, project_name: tenant, user_domain_name: Default, project_domain_name: Default}
    region_name: RegionOne
`;
}

/** IKE and its NAT traversal from the partner. */
export const IKE: readonly Rule[] = [500, 4500].map((port) => ({
  direction: "ingress",
  ethertype: "IPv4",
  protocol: "udp",
  portMin: port,
  portMax: port,
  remoteIPPrefix: "203.0.113.250/32",
}));

/** What a test gets: our client, the judge, an owner of its own whose things are removed afterwards. */
export interface Place extends AsyncDisposable {
  os: OpenStack;
  judge: Cloud;
  owner: Owner;
  pinnedTag: string;
  networkID: string;
  externalNetworkID: string;
  another(): Owner;
  port(owner?: Owner): Promise<Port>;
}

/** @param credentials by default the tenant's, past the fault proxy */
export async function place(credentials: Credentials = parseClouds(tenantClouds())): Promise<Place> {
  const os = new OpenStackClient(credentials);
  const direct = new OpenStackClient(parseClouds(tenantClouds()));
  const judge = await connectAs("tenant");
  const networks = await judge.list("networks");
  const networkID = networks.find((one) => one.name === "tenant-net")!.id;
  const externalNetworkID = networks.find((one) => one["router:external"])!.id;
  const owners: Owner[] = [];
  const another = () => {
    const uid = crypto.randomUUID();
    const owner = {
      tag: `ipsec.bnerd.net/uid=${uid}`,
      name: `ipsec-${uid.slice(0, 8)}`,
      description: "IPsecGateway test/gw",
    };
    owners.push(owner);
    return owner;
  };
  const owner = another();
  return {
    os,
    judge,
    owner,
    pinnedTag: pinOf(owner),
    networkID,
    externalNetworkID,
    another,
    async port(of = owner) {
      const { id: securityGroupID } = await ensureSecurityGroup(os, of, { rules: IKE });
      return await ensurePort(os, of, { networkID, securityGroupID });
    },
    async [Symbol.asyncDispose]() {
      for (const one of owners) {
        await releaseFloatingIP(direct, one, { pinnedTag: pinOf(one) });
        await deletePort(direct, one);
        await deleteSecurityGroup(direct, one);
      }
      await os[Symbol.asyncDispose]();
      await direct[Symbol.asyncDispose]();
    },
  };
}

/** The tag by which an owner marks a pinned address. */
export function pinOf(owner: Owner): string {
  return owner.tag.replace("/uid=", "/pinned-by=");
}

/** Waits until `condition` answers something, at most `ms`. */
export async function until<T>(
  what: string,
  condition: () => Promise<T | undefined>,
  ms = 30_000,
): Promise<T> {
  const deadline = performance.now() + ms;
  for (;;) {
    const value = await condition();
    if (value !== undefined) return value;
    assert.ok(performance.now() < deadline, `${what} within ${ms} ms`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/** A group's rules, as the judge sees them. */
export function rulesOf(judge: Cloud, groupID: string): Promise<SeenRule[]> {
  return judge.list("security-group-rules", { security_group_id: groupID });
}

/** A rule as Neutron's API wants it. */
export function body(rule: Rule): Record<string, unknown> {
  return {
    direction: rule.direction,
    ethertype: rule.ethertype,
    protocol: rule.protocol,
    port_range_min: rule.portMin,
    port_range_max: rule.portMax,
    remote_ip_prefix: rule.remoteIPPrefix,
  };
}

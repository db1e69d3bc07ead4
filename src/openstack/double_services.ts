// The Neutron and Nova of the loopback double: objects in memory, answers as the real services were measured to give.

export type Item = Record<string, unknown> & { id: string };

export interface SeenCall {
  method: string;
  path: string;
  query: URLSearchParams;
  headers: Headers;
  body: unknown;
}

/** What a test sets about the services. */
export interface Settings {
  extensions: string[];
  /** Neutron's own largest page; undefined for none. */
  pageSize: number | undefined;
  /** Reads of a port that still show it attached after a detach. */
  detachReads: number;
}

export interface DoubleServices {
  /** Neutron's and Nova's objects, by collection. */
  items: Record<string, Item[]>;
  neutron(call: SeenCall): Response;
  nova(call: SeenCall): Response;
  nextID(kind: string): string;
}

/** An answer that refuses. */
export class Refusal extends Error {
  constructor(readonly status: number, readonly type: string) {
    super(type);
  }
}

/** Services with network N, subnet S (10.0.0.0/24), external network X, router R and servers A and B. */
export function createDoubleServices(settings: Settings): DoubleServices {
  let serial = 0;
  const nextID = (kind: string) => `${kind}-${String(++serial).padStart(4, "0")}`;
  const detaching = new Map<string, number>();
  const items: DoubleServices["items"] = {
    networks: [{ id: "N", name: "tenant", mtu: 1450, "router:external": false }, {
      id: "X",
      name: "external",
      mtu: 1500,
      "router:external": true,
    }],
    subnets: [{
      id: "S",
      name: "s",
      network_id: "N",
      cidr: "10.0.0.0/24",
      ip_version: 4,
      gateway_ip: "10.0.0.1",
    }],
    "security-groups": [],
    "security-group-rules": [],
    ports: [
      port("R-port", { device_id: "R", device_owner: "network:router_interface", name: "" }, "10.0.0.1"),
    ],
    floatingips: [],
    routers: [{ id: "R", name: "router", routes: [] }],
    servers: [{ id: "A", name: "node-1", status: "ACTIVE" }, { id: "B", name: "node-2", status: "ACTIVE" }],
  };
  return { items, neutron, nova, nextID };

  function port(id: string, fields: Record<string, unknown>, address: string): Item {
    return {
      id,
      network_id: "N",
      mac_address: `fa:16:3e:00:00:${address.split(".").at(-1)?.padStart(2, "0")}`,
      fixed_ips: [{ subnet_id: "S", ip_address: address }],
      device_id: "",
      device_owner: "",
      description: "",
      security_groups: [],
      allowed_address_pairs: [],
      admin_state_up: true,
      tags: [],
      created_at: String(serial).padStart(6, "0"),
      revision_number: 1,
      ...fields,
    };
  }

  function neutron(call: SeenCall): Response {
    const [, , collection = "", id, sub] = call.path.split("/");
    if (collection === "extensions") {
      return json(200, { extensions: settings.extensions.map((alias) => ({ alias })) });
    }
    const all = items[collection];
    if (!all) throw new Refusal(404, "HTTPNotFound");
    const plural = collection.replaceAll("-", "_");
    const singular = plural.replace(/s$/, "");
    const fields = ((call.body ?? {}) as Record<string, Record<string, unknown>>)[singular] ?? {};
    if (id === undefined) {
      if (call.method === "GET") return listing(call, all, plural);
      const made = create(collection, fields);
      all.push(made);
      return json(201, { [singular]: made });
    }
    const item = all.find((one) => one.id === id);
    if (!item) throw new Refusal(404, `${singular}NotFound`);
    if (sub === "tags") return tags(call, item);
    if (sub) return extraRoutes(call, item, sub);
    const match = call.headers.get("if-match");
    if (match && match !== `revision_number=${item.revision_number}`) {
      throw new Refusal(412, "RevisionNumberConstraintFailed");
    }
    if (call.method === "GET") {
      const left = detaching.get(id);
      if (left !== undefined && left <= 0) Object.assign(item, { device_id: "", device_owner: "" });
      if (left !== undefined) detaching.set(id, left - 1);
      if (item.device_id === "") detaching.delete(id);
    } else if (call.method === "PUT") update(collection, item, fields);
    else return drop(collection, item);
    return json(200, { [singular]: item });
  }

  function listing(call: SeenCall, all: Item[], plural: string): Response {
    const found = all.filter((item) =>
      [...new Set(call.query.keys())].every((key) => {
        const wanted = call.query.getAll(key);
        if (key === "limit" || key === "marker") return true;
        if (key === "tags") return wanted.flatMap((one) => one.split(",")).every((one) => has(item, one));
        return wanted.includes(String(item[key] ?? ""));
      })
    ).toSorted((a, b) => a.id.localeCompare(b.id));
    const limit = Number(call.query.get("limit") ?? settings.pageSize ?? found.length);
    const at = found.findIndex((item) => item.id === call.query.get("marker"));
    const page = found.slice(at + 1, at + 1 + limit);
    const query = new URLSearchParams(call.query);
    query.set("limit", String(limit));
    query.set("marker", page.at(-1)?.id ?? "");
    const more = at + 1 + limit < found.length;
    return json(200, {
      [plural]: page,
      ...(more
        ? {
          [`${plural}_links`]: [{ rel: "next", href: `http://unreachable.invalid/v2.0/${plural}?${query}` }],
        }
        : {}),
    });
  }

  function has(item: Item, tag: string): boolean {
    return Array.isArray(item.tags) && item.tags.includes(tag);
  }

  function create(collection: string, fields: Record<string, unknown>): Item {
    const base = {
      tags: [],
      description: "",
      created_at: String(serial).padStart(6, "0"),
      revision_number: 1,
    };
    if (collection === "ports") return port(nextID("port"), fields2port(fields), `10.0.0.${serial + 10}`);
    if (collection === "security-group-rules") {
      const same = items[collection]?.find((rule) =>
        [
          "security_group_id",
          "direction",
          "ethertype",
          "protocol",
          "port_range_min",
          "port_range_max",
          "remote_ip_prefix",
        ]
          .every((key) => (rule[key] ?? null) === (fields[key] ?? null))
      );
      if (same) throw new Refusal(409, "SecurityGroupRuleExists");
      return { id: nextID("rule"), ...fields };
    }
    if (collection === "security-groups") {
      const group = { ...base, id: nextID("group"), ...fields };
      for (const ethertype of ["IPv4", "IPv6"]) {
        const rule = { id: nextID("rule"), security_group_id: group.id, direction: "egress", ethertype };
        items["security-group-rules"]?.push(rule);
      }
      return group;
    }
    if (collection === "floatingips") {
      refuseSecond(fields.port_id);
      return { ...base, id: nextID("fip"), floating_ip_address: `203.0.113.${serial}`, ...fields };
    }
    throw new Refusal(400, "HTTPBadRequest");
  }

  function fields2port(fields: Record<string, unknown>): Record<string, unknown> {
    const { fixed_ips: _, ...rest } = fields;
    return rest;
  }

  function refuseSecond(portID: unknown, own?: Item): void {
    if (portID && items.floatingips?.some((fip) => fip !== own && fip.port_id === portID)) {
      throw new Refusal(409, "FloatingIPPortAlreadyAssociated");
    }
  }

  function update(collection: string, item: Item, fields: Record<string, unknown>): void {
    // An update without the port disassociates, as the real one does.
    const sent = collection === "floatingips" ? { port_id: null, ...fields } : fields;
    if (collection === "floatingips") refuseSecond(sent.port_id, item);
    Object.assign(item, sent, { revision_number: Number(item.revision_number) + 1 });
  }

  function drop(collection: string, item: Item): Response {
    if (
      collection === "security-groups" &&
      items.ports?.some((one) => (one.security_groups as string[]).includes(item.id))
    ) throw new Refusal(409, "SecurityGroupInUse");
    items[collection] = items[collection]?.filter((one) => one !== item) ?? [];
    items["security-group-rules"] =
      items["security-group-rules"]?.filter((rule) => rule.security_group_id !== item.id) ?? [];
    for (const fip of items.floatingips ?? []) {
      if (collection === "ports" && fip.port_id === item.id) fip.port_id = null;
    }
    return new Response(null, { status: 204 });
  }

  function tags(call: SeenCall, item: Item): Response {
    if (call.method === "PUT") {
      item.tags = (call.body as { tags: string[] }).tags;
      item.revision_number = Number(item.revision_number) + 1;
    }
    return json(200, { tags: item.tags });
  }

  function extraRoutes(call: SeenCall, router: Item, change: string): Response {
    const routes =
      (call.body as { router: { routes: { destination: string; nexthop: string }[] } }).router.routes;
    const keys = new Set(routes.map((route) => JSON.stringify(route)));
    const others = (router.routes as unknown[]).filter((route) => !keys.has(JSON.stringify(route)));
    router.routes = change === "add_extraroutes" ? [...others, ...routes] : others;
    return json(200, { router });
  }

  function nova(call: SeenCall): Response {
    const [, , id = "", sub, portID] = call.path.split("/");
    if (id === "detail") {
      const name = new RegExp(call.query.get("name") ?? "", "i");
      return json(200, { servers: (items.servers ?? []).filter((one) => name.test(String(one.name))) });
    }
    const server = items.servers?.find((one) => one.id === id);
    if (!server) throw new Refusal(404, "itemNotFound");
    if (sub === undefined) return json(200, { server });
    if (call.method === "DELETE") {
      const attached = items.ports?.find((one) => one.id === portID && one.device_id === id);
      if (!attached) throw new Refusal(404, "itemNotFound");
      if (!detaching.has(attached.id)) detaching.set(attached.id, settings.detachReads);
      return new Response(null, { status: 202 });
    }
    const wanted = (call.body as { interfaceAttachment: { port_id: string } }).interfaceAttachment.port_id;
    const target = items.ports?.find((one) => one.id === wanted);
    if (!target) throw new Refusal(404, "itemNotFound");
    if (target.device_id !== "") throw new Refusal(409, "conflictingRequest");
    Object.assign(target, { device_id: id, device_owner: "compute:nova" });
    return json(200, { interfaceAttachment: { port_id: wanted, net_id: "N", mac_addr: target.mac_address } });
  }
}

export function json(status: number, body: unknown, headers: Record<string, string> = {}): Response {
  return new Response(body === undefined ? null : JSON.stringify(body), {
    status,
    headers: { "content-type": "application/json", ...headers },
  });
}

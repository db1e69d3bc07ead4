import assert from "node:assert/strict";
import { parseSwanctl } from "../../swanctl/parse.ts";
import { translateConnections } from "../../swanctl/translate.ts";
import { gateway, tunnel } from "../gateway_builder.ts";
import { renderSwanctlConf, type SwanctlInput } from "./swanctl_conf.ts";

function input(fields: Partial<SwanctlInput> = {}): SwanctlInput {
  return {
    gateway: gateway(),
    port: {
      id: "p",
      fixedIP: "10.0.0.23",
      prefixLength: 24,
      gatewayIP: "10.0.0.1",
      macAddress: "fa:16:3e:00:00:01",
      mtu: 1450,
    },
    floatingIP: { address: "203.0.113.140" },
    serviceCIDR: "100.64.0.0/24",
    peers: new Map([["berlin", ["203.0.113.250"]]]),
    ...fields,
  };
}

function loaded(text: string) {
  return translateConnections(parseSwanctl(text));
}

Deno.test("renderSwanctlConf() names the floating IP as the local identity and the service CIDR as the local subnet", () => {
  const [connection] = loaded(renderSwanctlConf(input()));
  assert.equal(connection?.name, "berlin");
  const message = connection?.message;
  assert.equal((message?.get("local") as Map<string, unknown>).get("id"), "203.0.113.140");
  assert.equal((message?.get("remote") as Map<string, unknown>).get("id"), "203.0.113.250");
  assert.equal(message?.get("mobike"), "no");
  assert.deepEqual(message?.get("local_addrs"), ["10.0.0.23"]);
  const child = ((message?.get("children") as Map<string, unknown>).get("berlin")) as Map<string, unknown>;
  assert.deepEqual(child.get("local_ts"), ["100.64.0.0/24"]);
  assert.equal(child.get("dpd_action"), "restart");
  assert.equal(child.get("close_action"), "none");
});

Deno.test("renderSwanctlConf() lets charon restart nothing when the start action is trap or none", () => {
  for (const startAction of ["trap", "none"] as const) {
    const text = renderSwanctlConf(input({ gateway: gateway({ tunnels: [tunnel({ startAction })] }) }));
    assert.match(text, /dpd_action = clear/);
    assert.match(text, new RegExp(`start_action = ${startAction}`));
  }
});

Deno.test("renderSwanctlConf() has neither secrets nor a key when everything is set", () => {
  assert.doesNotMatch(renderSwanctlConf(input()), /secret/i);
});

Deno.test("renderSwanctlConf() gives the same bytes whatever the order of tunnels and children", () => {
  const children = [{ name: "b", remoteSubnets: ["10.2.0.0/16"] }, {
    name: "a",
    remoteSubnets: ["10.1.0.0/16"],
  }];
  const one = tunnel({ children });
  const two = tunnel({ name: "oslo", peer: { address: "203.0.113.251", port: 4501 } });
  const peers = new Map([["berlin", ["203.0.113.250"]], ["oslo", ["203.0.113.251"]]]);
  const forth = renderSwanctlConf(input({ gateway: gateway({ tunnels: [one, two] }), peers }));
  const back = renderSwanctlConf(
    input({ gateway: gateway({ tunnels: [two, { ...one, children: [...children].reverse() }] }), peers }),
  );
  assert.equal(forth, back);
  assert.match(forth, /remote_port = 4501/);
});

Deno.test("renderSwanctlConf() carries an identity with spaces and commas as one value", () => {
  const id = "C=DE, O=Beispiel AG, CN=gw";
  const text = renderSwanctlConf(
    input({ gateway: gateway({ tunnels: [tunnel({ peer: { address: "203.0.113.250", port: 500, id } })] }) }),
  );
  const [connection] = loaded(text);
  assert.equal((connection?.message.get("remote") as Map<string, unknown>).get("id"), id);
});

import assert from "node:assert/strict";
import { toCidrs } from "../../src/dataplane/cidr.ts";
import { connection, gatewayConfig } from "./fixture.ts";
import { networkOf } from "./network.ts";

Deno.test("networkOf() takes subnets and if_id of each tunnel from swanctl.conf", () => {
  const { tunnels } = networkOf(gatewayConfig(), "xfrm");
  assert.deepEqual(tunnels.map(({ name, ifId }) => [name, ifId]), [["branch", 1042], ["hq", 1043]]);
  assert.deepEqual(toCidrs(tunnels[0]!.remote), ["192.168.77.0/24"]);
  assert.deepEqual(toCidrs(tunnels[0]!.local), ["100.64.0.0/24"]);
});

Deno.test("networkOf() works MTU and MSS out from the port's MTU, unless they are given", () => {
  const sizes = (changes: Parameters<typeof gatewayConfig>[0]) => {
    const { mtu, mss } = networkOf(gatewayConfig(changes), "xfrm");
    return [mtu, mss];
  };
  assert.deepEqual(sizes({}), [1386, 1346]);
  assert.deepEqual(sizes({ mtu: 1300 }), [1300, 1260]);
  assert.deepEqual(sizes({ mss: 1000 }), [1386, 1000]);
});

Deno.test("networkOf() reckons with the least favourable cipher when a child names none", () => {
  const children = { net: { local_ts: ["100.64.0.0/24"], remote_ts: ["192.168.77.0/24"] } };
  const config = gatewayConfig({ tunnels: [{ name: "one" }] }, { one: connection({ children }) });
  assert.equal(networkOf(config, "xfrm").mtu, 1358);
});

Deno.test("networkOf() refuses a tunnel without an if_id when the driver is xfrm", () => {
  const bare = connection({ if_id_in: undefined, if_id_out: undefined });
  const config = gatewayConfig({ tunnels: [{ name: "one" }] }, { one: bare });
  assert.throws(
    () => networkOf(config, "xfrm"),
    /Cannot make the interface of tunnel one: its if_id_out is 0/,
  );
  assert.equal(networkOf(config, "libipsec").tunnels.length, 1);
});

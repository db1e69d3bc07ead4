import assert from "node:assert/strict";
import { renderStrongswanConf } from "./strongswan_conf.ts";

const options = { uplink: "net1", paths: { viciSocket: "/run/ipsec/charon.vici", log: "/dev/stdout" } };

Deno.test("renderStrongswanConf() leaves routes to the agent when the driver is xfrm", () => {
  const text = renderStrongswanConf("xfrm", options);
  assert.match(text, /install_routes = no/);
  assert.match(text, /routing_table = 0/);
  assert.match(text, /interfaces_use = net1\n/);
  assert.doesNotMatch(text, /libipsec|fwmark/);
});

Deno.test("renderStrongswanConf() lets charon route when the driver is libipsec", () => {
  const text = renderStrongswanConf("libipsec", options);
  assert.doesNotMatch(text, /install_routes/);
  assert.match(text, /interfaces_use = net1, lo\n/);
  assert.match(text, /load = .* kernel-libipsec kernel-netlink /);
});

Deno.test("renderStrongswanConf() keeps counters in, stroke out, and keys out of the log", () => {
  for (const driver of ["xfrm", "libipsec"] as const) {
    const text = renderStrongswanConf(driver, options);
    assert.match(text, / counters\n/);
    assert.doesNotMatch(text, /stroke/);
    assert.match(text, /cfg = 1\n/);
    assert.equal(text.match(/unix:\/\/\/run\/ipsec\/charon\.vici/g)?.length, 2);
  }
});

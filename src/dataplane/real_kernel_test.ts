// What this folder writes, taken by a real kernel in a network namespace of its own. Needs root, `ip` and `nft`.
import assert from "node:assert/strict";
import { createApplier } from "./apply.ts";
import { createExec, type Exec, runOrThrow } from "./exec.ts";
import { FENCE_TABLE, renderFence } from "./fence.ts";
import { network, ranges, tunnelNetwork } from "./network_fixture.ts";
import { planOf } from "./plan.ts";

const ignore = Deno.uid() !== 0;

/** An Exec inside a fresh network namespace that has a net1. */
async function withNamespace(use: (exec: Exec) => Promise<void>): Promise<void> {
  const exec = createExec();
  const name = `ipo-test-${crypto.randomUUID().slice(0, 8)}`;
  await runOrThrow(exec, ["ip", "netns", "add", name]);
  try {
    const inside: Exec = (argv, options) => exec(["ip", "netns", "exec", name, ...argv], options);
    const setup =
      "link set lo up\nlink add net1 type veth peer name peer1\nlink set net1 up\nlink set peer1 up\n" +
      "address add 10.0.0.7/24 dev net1\n";
    await runOrThrow(inside, ["ip", "-batch", "-"], { stdin: setup });
    await use(inside);
  } finally {
    await exec(["ip", "netns", "delete", name]);
  }
}

Deno.test({
  name: "Applier.apply() writes nothing the second time, and puts back what was taken away",
  ignore,
  fn: () =>
    withNamespace(async (exec) => {
      const tunnels = [
        tunnelNetwork(),
        tunnelNetwork({ name: "b", ifId: 1043, remote: ranges("172.16.0.0/12", "192.0.2.9") }),
      ];
      const plan = planOf(network({ tunnels }));
      const applier = createApplier(exec);
      assert.ok((await applier.apply(plan)).lines.length > 0);
      assert.deepEqual((await applier.apply(plan)).lines, []);
      await runOrThrow(exec, ["ip", "-batch", "-"], {
        stdin:
          "rule delete priority 100\nroute delete unreachable 192.0.2.9 metric 9999\naddress delete 100.64.0.1/32 dev lo\n",
      });
      assert.deepEqual((await applier.apply(plan)).lines, [
        "route replace unreachable 192.0.2.9 table main metric 9999 proto 117",
        "address add 100.64.0.1/32 dev lo",
        "rule add priority 100 from 10.0.0.7 table 100 protocol 117",
      ]);
      await applier.apply(planOf(network({ tunnels: [] })));
      assert.equal(await runOrThrow(exec, ["ip", "route", "show", "type", "unreachable"]), "");
    }),
});

Deno.test({
  name: "renderFence() is taken by nft in both modes, with and without tunnels, and again over itself",
  ignore,
  fn: () =>
    withNamespace(async (exec) => {
      const overlapping = tunnelNetwork({ name: "b", remote: ranges("192.168.0.0/16", "192.168.77.0/25") });
      for (const mode of ["nat", "routed"] as const) {
        for (const driver of ["xfrm", "libipsec"] as const) {
          for (const tunnels of [[], [tunnelNetwork()], [tunnelNetwork(), overlapping]]) {
            await runOrThrow(exec, ["nft", "-f", "-"], {
              stdin: renderFence(network({ mode, driver, tunnels })),
            });
          }
        }
      }
      const listed = await runOrThrow(exec, ["nft", "-s", "list", "table", "inet", FENCE_TABLE]);
      assert.match(listed, /elements = \{ 192\.168\.0\.0\/16 \}/);
      assert.match(listed, /policy drop/);
    }),
});

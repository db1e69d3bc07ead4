// What a status-agent's own token may do: report on its gateway, and nothing else. RBAC keeps it to its object, the
// chart's ValidatingAdmissionPolicy to its part of the status.
import assert from "node:assert/strict";
import { installOperator, kubectl, type Tenant, tenant, tryKubectl } from "./lab/operator.ts";

Deno.test.beforeAll(() => installOperator());

/** A call with the token of the agent of tenant's gateway; kubectl's answer. */
async function asAgent(own: Tenant, args: readonly string[], input?: string): ReturnType<typeof tryKubectl> {
  const token = (await own.kubectl(["create", "token", "gw-ipsec-gateway", "--duration=10m"])).trim();
  const kubeconfig = await Deno.makeTempFile();
  try {
    const admin = JSON.parse(await kubectl(["config", "view", "--raw", "--minify", "-o", "json"]));
    await Deno.writeTextFile(
      kubeconfig,
      JSON.stringify({ ...admin, users: [{ name: admin.users[0].name, user: { token } }] }),
      { mode: 0o600 },
    );
    return await tryKubectl(
      ["--kubeconfig", kubeconfig, "-n", own.namespace, ...args],
      input === undefined ? {} : { input },
    );
  } finally {
    await Deno.remove(kubeconfig);
  }
}

function patch(status: unknown): string[] {
  return [
    "patch",
    "ipsecgateway",
    "gw",
    "--subresource=status",
    "--type=merge",
    "-p",
    JSON.stringify({ status }),
  ];
}

Deno.test("an agent's token changes tunnels, agent and dataPlane of its own gateway, and nothing else", async (t) => {
  await using own = await tenant();
  await own.applyGateway();
  await own.condition("DeploymentReady", "True", { timeoutMs: 120_000 });

  await t.step("its own part is accepted", async () => {
    const { code, stderr } = await asAgent(own, patch({ agent: { podName: "somebody" } }));
    assert.equal(code, 0, stderr);
  });

  const denied: readonly (readonly [string, unknown])[] = [
    ["conditions", { conditions: [] }],
    ["serviceCIDR", { serviceCIDR: "10.0.0.0/24" }],
    ["nodeName", { nodeName: "node9" }],
    ["floatingIP", { floatingIP: { id: "x", address: "192.0.2.1", pinned: false } }],
    ["port", { port: null }],
    ["summary", { summary: { ready: "True", established: "9", tunnels: 9 } }],
    ["observedGeneration", { observedGeneration: 99 }],
  ];
  for (const [field, status] of denied) {
    await t.step(`status.${field} is refused`, async () => {
      const { code, stderr } = await asAgent(own, patch(status));
      assert.notEqual(code, 0);
      assert.match(stderr, /a status-agent may change only tunnels, agent and dataPlane/);
    });
  }

  await t.step("spec, Secrets and other objects are refused", async () => {
    for (
      const args of [
        ["patch", "ipsecgateway", "gw", "--type=merge", "-p", '{"spec":{"mtu":1300}}'],
        ["get", "secret", "keys"],
        ["get", "pods"],
        ["delete", "ipsecgateway", "gw"],
        ["get", "ipsecgateways"],
      ]
    ) {
      const { code, stderr } = await asAgent(own, args);
      assert.notEqual(code, 0, args.join(" "));
      assert.match(stderr, /forbidden/i, args.join(" "));
    }
  });
});

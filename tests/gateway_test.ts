// The main path of an IPsecGateway on real peers: the compiled executables, installed by the chart.
import assert from "node:assert/strict";
import { CONDITION_TYPES } from "../src/api/ipsec_gateway.ts";
import { CLEAR, ESP_IN_UDP, showsClear, startCapture } from "./lab/capture.ts";
import { connectAs } from "./lab/cloud.ts";
import { attempt, until } from "./lab/command.ts";
import { getJson, installOperator, type Tenant, tenant } from "./lab/operator.ts";
import { podPlace } from "./lab/pod_place.ts";
import { phost, PHOST_ADDRESSES, phostSend, sas, terminate } from "./lab/partner.ts";

Deno.test.beforeAll(() => installOperator());

Deno.test("an applied gateway gets eight True conditions, a tunnel and traffic both ways", async (t) => {
  await using own = await tenant({ workloads: true });
  const reverseExposures = [
    { name: "api", port: 80, remoteAddress: "192.168.77.10", remotePort: 8080 },
    { name: "echo", port: 53, protocol: "UDP", remoteAddress: "192.168.77.10", remotePort: 9053 },
  ];
  await own.establish({ reverseExposures });
  const gateway = await own.gateway();
  const cidr = gateway.status?.serviceCIDR ?? "";
  const first = cidr.replace(/0\/24$/, "1");
  const exposed = gateway.status?.exposures?.[0]?.address ?? "";

  await t.step("conditions, columns and the agent's report say so", async () => {
    const conditions = await own.conditions();
    assert.deepEqual(Object.keys(conditions), [...CONDITION_TYPES]);
    for (const [type, { status }] of Object.entries(conditions)) assert.equal(status, "True", type);
    const { status } = await until("the summary is Ready", async () => {
      const now = await own.gateway();
      return now.status?.summary?.ready === "True" ? now : undefined;
    });
    assert.equal(status?.summary?.established, "1");
    assert.equal(status?.dataPlane, "libipsec");
    assert.equal(status?.agent?.podName, await own.pod());
  });

  await t.step("the peer sees the floating IP as our identity, and ESP in UDP", async () => {
    const [sa] = await sas();
    assert.equal(sa?.remoteId, gateway.status?.floatingIP?.address);
    assert.equal(sa?.remoteHost, gateway.status?.floatingIP?.address);
    assert.ok(sa?.children.every((child) => child.encap));
  });

  await t.step("partner host to exposure to Service to pod, payload and all", async () => {
    const payload = crypto.randomUUID();
    const answer = await phostSend(payload, `TCP:${exposed}:8080`);
    assert.match(answer, /^web saw /);
    assert.ok(answer.includes(payload), answer);
  });

  await t.step("ordinary pod to the reverse exposure's Service to the partner host", async () => {
    const service = await own.kubectl(["get", "service", "gw-api", "-o", "jsonpath={.spec.clusterIP}"]);
    const payload = crypto.randomUUID();
    const answer = await own.client(`echo ${payload} | timeout 5 socat -t2 - TCP:${service}:80`);
    assert.ok(answer.includes(payload), answer);
    assert.match(answer, new RegExp(`saw ${first.replaceAll(".", "\\.")}`));
  });

  await t.step("the same by UDP", async () => {
    const answer = await callUdp(own);
    assert.ok(answer.includes(`saw ${first}`), answer);
  });

  await t.step("ICMP between the partner host and the gateway's own address", async () => {
    const ping = await phost(["ping", "-c", "3", "-i", "0.2", "-W", "2", first]);
    assert.equal(ping.code, 0, ping.stdout);
    // The pod's containers have no NET_RAW: its network is entered from this machine.
    const id = await own.kubectl([
      "get",
      "pod",
      await own.pod(),
      "-o",
      "jsonpath={.status.containerStatuses[0].containerID}",
    ]);
    const argv = ["ping", "-c", "3", "-i", "0.2", "-W", "2", "-I", first, PHOST_ADDRESSES[0]];
    const back = await attempt(argv, { in: await podPlace(id) });
    assert.equal(back.code, 0, back.stdout);
  });

  await t.step("what is no exposure does not answer, the agent's metrics least of all", async () => {
    assert.equal(await phostSend("x", `TCP:${first}:9903`, { timeoutMs: 2000 }), "");
    assert.equal(await phostSend("x", `TCP:${exposed}:8081`, { timeoutMs: 2000 }), "");
  });

  await t.step("plain swanctl works for a person", async () => {
    assert.match(await own.exec("strongswan", ["swanctl", "--list-sas"]), /berlin: #\d+, ESTABLISHED/);
  });

  await t.step("what is in the tunnel is ESP on every wire, and nothing of it clear", async () => {
    await using esp = await startCapture(ESP_IN_UDP);
    await using clear = await startCapture(CLEAR);
    await phostSend("hello", `TCP:${exposed}:8080`);
    await callUdp(own);
    assert.deepEqual((await clear.stop()).packets, []);
    assert.ok(await showsClear(), "the capture would not have shown it");
    assert.ok((await esp.stop()).packets.length > 0);
  });

  await t.step("with the SA torn down traffic stops, and nothing of it is seen in clear", async () => {
    await own.kubectl([
      "patch",
      "ipsecgateway",
      "gw",
      "--type=json",
      "-p",
      '[{"op":"replace","path":"/spec/tunnels/0/startAction","value":"none"}]',
    ]);
    await until(
      "charon has the new configuration",
      async () =>
        /start_action = none/.test(
          await own.exec("strongswan", ["cat", "/etc/swanctl-rendered/swanctl.conf"]),
        ),
      { timeoutMs: 90_000, intervalMs: 500 },
    );
    await until("the SA is gone and stays away", async () => {
      await terminate("gw");
      return (await sas()).length === 0 && (await own.tunnelState()) === "DOWN";
    }, { timeoutMs: 60_000, intervalMs: 500 });
    await using clear = await startCapture(CLEAR);
    const service = await own.kubectl(["get", "service", "gw-api", "-o", "jsonpath={.spec.clusterIP}"]);
    const called = await own.client(
      `echo secret | timeout 3 socat -t1 - TCP:${service}:80,connect-timeout=2 || true`,
    );
    assert.equal(called + await callUdp(own), "");
    assert.equal(await phostSend("secret", `TCP:${exposed}:8080`, { timeoutMs: 2000 }), "");
    assert.deepEqual((await clear.stop()).packets, []);
    assert.ok(await showsClear(), "the capture would not have shown it");
  });
});

/** Sends a datagram from an ordinary pod to the reverse exposure `echo`; what came back. */
async function callUdp(own: Tenant): Promise<string> {
  const service = await own.kubectl(["get", "service", "gw-echo", "-o", "jsonpath={.spec.clusterIP}"]);
  return await own.client(`echo secret | timeout 3 socat -t1 - UDP:${service}:53 || true`);
}

Deno.test("a deleted gateway leaves nothing in Kubernetes, Neutron and Nova", async () => {
  const tenantCloud = await connectAs("tenant");
  const own = await tenant();
  try {
    await own.applyGateway();
    await own.condition("DeploymentReady", "True", { timeoutMs: 120_000 });
    const { metadata } = await own.gateway();
    const tag = `ipsec.bnerd.net/uid=${metadata.uid}`;
    const there = async () => ({
      groups: (await tenantCloud.list("security-groups", { tags: tag })).length,
      ports: (await tenantCloud.list("ports", { tags: tag })).length,
      addresses: (await tenantCloud.list("floatingips", { tags: tag })).length,
    });
    assert.deepEqual(await there(), { groups: 1, ports: 1, addresses: 1 });
    await own.kubectl(["delete", "ipsecgateway", "gw", "--timeout=60s"], { timeoutMs: 70_000 });
    assert.deepEqual(await there(), { groups: 0, ports: 0, addresses: 0 });
    await until("the garbage collector is through", async () => {
      const { items } = await getJson<{ items: unknown[] }>([
        "-n",
        own.namespace,
        "deploy,cm,svc,sa,role,rolebinding,netpol,net-attach-def,pod",
        "-l",
        "ipsec.bnerd.net/gateway=gw",
      ]);
      return items.length === 0;
    }, { timeoutMs: 30_000 });
  } finally {
    await own[Symbol.asyncDispose]();
  }
});

// What an established tunnel sees of its controller's death, which is nothing; and how a controller ends.
import assert from "node:assert/strict";
import type { Pod } from "kubernetes-types/core/v1";
import { CACHE, until } from "./lab/command.ts";
import { charonSas, firstProcess, gatewayPod, identities, readLog, restarts } from "./lab/gateway_pod.ts";
import {
  installOperator,
  KUBECONFIG,
  kubectl,
  OPERATOR_NAMESPACE,
  type Tenant,
  tenant,
  tryKubectl,
} from "./lab/operator.ts";
import { leaseHolder, newLeader, operatorPod, scaleOperator } from "./lab/operator_pod.ts";
import { sas } from "./lab/partner.ts";
import { clearRules, withFault } from "./lab/proxy.ts";

/** A controller ends within this time after SIGTERM. */
const SHUTDOWN_MS = 10_000;

let own: Tenant;

Deno.test.beforeAll(async () => {
  await installOperator();
  await scaleOperator(1);
  own = await tenant();
  await own.establish();
});

Deno.test.afterAll(async () => {
  await clearRules();
  await scaleOperator(1);
  await own?.[Symbol.asyncDispose]();
});

/** What must stay as it is: the pod, its containers' restarts, the SAs of both ends. */
async function tunnelState(): Promise<unknown> {
  const pod = await gatewayPod(own.namespace);
  const supervisor = await firstProcess(pod, "strongswan");
  return {
    pod: pod.metadata?.uid,
    restarts: restarts(pod),
    ours: identities(await charonSas(supervisor)),
    partner: identities(await sas()),
  };
}

/** Gives the gateway one more exposure, and waits until the controller has made it so. */
async function assertEditIsPickedUp(name: string): Promise<void> {
  const exposure = { name, port: 9000, target: { service: { name: "web", port: 80 } } };
  const { spec } = await own.gateway();
  const exposures = [...(spec.exposures ?? []).filter((each) => each.port !== 9000), exposure];
  await own.kubectl([
    "patch",
    "ipsecgateway",
    "gw",
    "--type=merge",
    "-p",
    JSON.stringify({ spec: { exposures } }),
  ]);
  await until(`exposure ${name} has an address`, async () => {
    const { status } = await own.gateway();
    return status?.exposures?.some((each) => each.name === name && each.address);
  }, { timeoutMs: 60_000, intervalMs: 250 });
}

Deno.test("the controller killed: the tunnel does not notice, and the next one picks up an edit", async () => {
  const before = await tunnelState();
  const leader = await leaseHolder();
  Deno.kill(await firstProcess(await operatorPod(), "controller"), "SIGKILL");
  await newLeader(leader);
  await assertEditIsPickedUp("killed");
  assert.deepEqual(await tunnelState(), before);
});

Deno.test("the controller's pod deleted: the tunnel does not notice, and the next one picks up an edit", async () => {
  const before = await tunnelState();
  const leader = await leaseHolder();
  const pod = await operatorPod();
  await kubectl(["-n", OPERATOR_NAMESPACE, "delete", "pod", pod.metadata?.name ?? "", "--wait=false"]);
  await until("a new pod leads", async () => {
    const holder = await leaseHolder();
    return holder !== "" && holder !== leader && !holder.startsWith(`${pod.metadata?.name}_`);
  }, { timeoutMs: 60_000, intervalMs: 250 });
  await assertEditIsPickedUp("deleted");
  assert.deepEqual(await tunnelState(), before);
});

/** Follows a pod's log to its end. */
function follow(pod: Pod): { text: () => string; ended: Promise<unknown> } {
  const child = new Deno.Command(`${CACHE}/k8s/bin-one/kubectl`, {
    args: ["-n", OPERATOR_NAMESPACE, "logs", "-f", pod.metadata?.name ?? ""],
    env: { KUBECONFIG },
    stdin: "null",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  let text = "";
  const ended = (async () => {
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) text += chunk;
    await child.status;
  })();
  return { text: () => text, ended };
}

/** Takes the operator away; asserts how it ends, and returns after how many milliseconds. */
async function assertEndsWell(): Promise<number> {
  const pod = await operatorPod();
  const process = await firstProcess(pod, "controller");
  const log = follow(pod);
  const began = () => readLog(log.text()).find(({ msg }) => msg === "Shutting down")?.at;
  await scaleOperator(0);
  const endedAt = await until("the controller has ended", async () => {
    try {
      await Deno.stat(`/proc/${process}`);
      return undefined;
    } catch {
      return Date.now();
    }
  }, { timeoutMs: 30_000, intervalMs: 20 });
  await log.ended;
  const records = readLog(log.text()).map(({ msg }) => msg);
  const beganAt = began();
  assert.ok(beganAt !== undefined, `the log tells of no shutdown: ${records.slice(-5).join("; ")}`);
  assert.ok(!records.includes("Work did not end in time; exiting"), records.slice(-5).join("; "));
  assert.ok(records.includes("Lease released"), records.slice(-5).join("; "));
  assert.equal(await leaseHolder(), "");
  assert.ok(endedAt - beganAt <= SHUTDOWN_MS, `it took ${endedAt - beganAt} ms`);
  return endedAt - beganAt;
}

Deno.test("a controller without work ends on SIGTERM and releases the lease", async () => {
  try {
    report("idle controller from SIGTERM to its end", await assertEndsWell());
  } finally {
    await scaleOperator(1);
  }
});

Deno.test("a controller that waits for OpenStack ends within 10 s of SIGTERM and releases the lease", async () => {
  try {
    await withFault(
      { id: "slow", match: { method: "GET", path: "/network/" }, action: { kind: "delay", ms: 25_000 } },
      async (hits) => {
        await own.kubectl(["annotate", "ipsecgateway", "gw", `look=${crypto.randomUUID()}`]);
        await until("a call to Neutron hangs", async () => await hits() > 0, { timeoutMs: 30_000 });
        report("busy controller from SIGTERM to its end", await assertEndsWell());
      },
    );
  } finally {
    await scaleOperator(1);
  }
  await assertEditIsPickedUp("again");
});

Deno.test("the controller away for a while: the tunnel does not notice", async () => {
  const before = await tunnelState();
  await scaleOperator(0);
  await until("nobody leads", async () => await leaseHolder() === "", { timeoutMs: 30_000 });
  const { stdout } = await tryKubectl([
    "-n",
    own.namespace,
    "get",
    "ipsecgateway",
    "gw",
    "-o",
    "jsonpath={.status.agent.lastHeartbeatTime}",
  ]);
  await until("the agent goes on reporting by itself", async () => {
    const { status } = await own.gateway();
    return Date.parse(status?.agent?.lastHeartbeatTime ?? "") > Date.parse(stdout);
  }, { timeoutMs: 90_000, intervalMs: 500 });
  await scaleOperator(1);
  await assertEditIsPickedUp("back");
  assert.deepEqual(await tunnelState(), before);
});

/** A number that a run should show. */
function report(what: string, ms: number): void {
  // deno-lint-ignore no-console -- the test's own output
  console.log(`${what}: ${Math.round(ms)} ms`);
}

// Faults that a gateway meets on its way: answers of OpenStack, quotas, admission, cordoned nodes, a taken service CIDR.
import assert from "node:assert/strict";
import { until } from "./command.ts";
import { gatewayAt, plainGateway } from "./gateways.ts";
import { apply, getJson, kubectl, type Tenant, tryKubectl } from "./operator.ts";
import { type Rule, rules, setRules } from "./proxy.ts";

/** A fault: how it is made, how we know that the gateway has met it, how it goes. */
export interface Fault {
  make(own: Tenant): Promise<void>;
  /** Throws when the gateway has not met it. */
  met(own: Tenant, message: string): Promise<void> | void;
  lift(own: Tenant): Promise<void>;
}

/** A /24 of the pool that two gateways want. */
export const CONTESTED = "100.64.213.0/24";
/** A spec that no node fits. */
export const NO_NODE = { nodeSelector: { "tests/none": "here" } };

const proxied = new Map<string, Rule>();

/** An answer of OpenStack. */
export function answered(rule: Omit<Rule, "id">): Fault {
  const id = crypto.randomUUID();
  return {
    async make() {
      proxied.set(id, { id, ...rule });
      await setRules([...proxied.values()]);
    },
    async met() {
      const hits = (await rules()).find((one) => one.id === id)?.hits ?? 0;
      assert.ok(hits > 0, `${rule.match.method} ${rule.match.path} was never hit`);
    },
    async lift() {
      proxied.delete(id);
      await setRules([...proxied.values()]);
    },
  };
}

/** An error as Neutron writes it. */
export function neutronError(code: number, type: string, message: string): Rule["action"] {
  return { kind: "status", code, body: JSON.stringify({ NeutronError: { type, message, detail: "" } }) };
}

/** What a load balancer without backends answers. */
export const unavailable: Rule["action"] = { kind: "status", code: 503, body: "<html>no backend</html>" };

/** Sign-ins of a cloud whose domains are named by id: those of a test, not the operator's own. */
export const KEYSTONE: Rule["match"] = {
  method: "POST",
  path: "^/identity/v3/auth/tokens$",
  body: '"id": ?"default"',
};

/** A quota of the namespace, in force when `make` is done. */
export function quota(name: string, hard: (own: Tenant) => Promise<Record<string, string>>): Fault {
  return {
    async make(own) {
      const spec = { hard: await hard(own) };
      const metadata = { name, namespace: own.namespace };
      await apply([{ apiVersion: "v1", kind: "ResourceQuota", metadata, spec }]);
      await until(`quota ${name} is counted`, async () => {
        const { status } = await getJson<{ status?: { used?: Record<string, string> } }>([
          "-n",
          own.namespace,
          "resourcequota",
          name,
        ]);
        return Object.keys(spec.hard).every((key) => status?.used?.[key] !== undefined);
      }, { timeoutMs: 60_000, intervalMs: 250 });
    },
    met: (_own, message) => assert.match(message, new RegExp(`exceeded quota: ${name}`)),
    lift: async (own) => void await own.kubectl(["delete", "resourcequota", name]),
  };
}

/** An admission policy of this namespace that refuses every Deployment. */
export const refusal: Fault = {
  async make({ namespace }) {
    const metadata = { name: namespace };
    const admission = "admissionregistration.k8s.io/v1";
    await apply([{
      apiVersion: admission,
      kind: "ValidatingAdmissionPolicy",
      metadata,
      spec: {
        matchConstraints: {
          namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
          resourceRules: [{
            apiGroups: ["apps"],
            apiVersions: ["v1"],
            resources: ["deployments"],
            operations: ["CREATE", "UPDATE"],
          }],
        },
        validations: [{ expression: "false", message: "no Deployments on Mondays" }],
      },
    }, {
      apiVersion: admission,
      kind: "ValidatingAdmissionPolicyBinding",
      metadata,
      spec: { policyName: namespace, validationActions: ["Deny"] },
    }]);
    await until("the policy is in force", async () => {
      const dry = await tryKubectl([
        "-n",
        namespace,
        "create",
        "deployment",
        "probe",
        "--image=none",
        "--dry-run=server",
      ]);
      return dry.stderr.includes("no Deployments on Mondays");
    }, { timeoutMs: 60_000, intervalMs: 500 });
  },
  met: (own, message) => assert.match(message, new RegExp(`ValidatingAdmissionPolicy '${own.namespace}'`)),
  async lift({ namespace }) {
    await kubectl(["delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", namespace]);
    await until("the policy is gone", async () => {
      const args = ["create", "deployment", "probe", "--image=none", "--dry-run=server"];
      return (await tryKubectl(["-n", namespace, ...args])).code === 0;
    }, { timeoutMs: 60_000, intervalMs: 500 });
  },
};

const NODES = ["node1", "node2"];
/** Every node is cordoned. */
export const cordon: Fault = {
  make: async () => void await kubectl(["cordon", ...NODES]),
  met: (_own, message) => assert.match(message, /of 2 nodes 2 are Ready, and none of those is schedulable/),
  lift: async () => void await kubectl(["uncordon", ...NODES]),
};

/** Another gateway that holds the service CIDR that this one wants. */
export const holder: Fault = {
  async make({ namespace }) {
    const place = { namespace, name: "holder" };
    await apply([plainGateway(place, { ...NO_NODE, serviceCIDR: CONTESTED })]);
    await until(
      "the other gateway has the service CIDR",
      async () => (await gatewayAt(place)).status?.serviceCIDR === CONTESTED,
      { timeoutMs: 120_000 },
    );
  },
  met: (own, message) => assert.ok(message.includes(`held by IPsecGateway ${own.namespace}/holder`), message),
  lift: async (own) =>
    void await own.kubectl(["delete", "ipsecgateway", "holder", "--timeout=100s"], { timeoutMs: 110_000 }),
};

import type { OpenStack } from "../contract.ts";
import { failedTo, isAmbiguous, naming, OpenStackError } from "../errors.ts";
import {
  type CallOptions,
  createRule,
  createSecurityGroup,
  listRules,
  listSecurityGroups,
  remove,
  type SecurityGroup,
} from "../neutron.ts";
import { deleteOwned, findOrCreate, type OwnedKind } from "./owned.ts";
import { markedDescription, type Owner } from "./owner.ts";
import { planRules, type Rule, ruleBody, ruleText } from "./rules.ts";

export type { Rule } from "./rules.ts";

function groups(os: OpenStack, options: CallOptions): OwnedKind<SecurityGroup> {
  return {
    kind: "security-groups",
    called: "security group",
    list: (query) => listSecurityGroups(os, query, options),
  };
}

/**
 * The owner's security group with exactly `rules` and the default egress: found by tag, adopted from an untagged twin,
 * or created. Rules are added and removed one by one, additions first, so that no wanted one is ever missing.
 * @throws OpenStackError that names group, owner and rule
 */
export function ensureSecurityGroup(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { rules: readonly Rule[] },
): Promise<{ id: string }> {
  return naming(
    `make the security group of ${owner.name} ready`,
    () => ensureSecurityGroupNow(os, owner, options),
  );
}

async function ensureSecurityGroupNow(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { rules: readonly Rule[] },
): Promise<{ id: string }> {
  const call = options.signal ? { signal: options.signal } : {};
  const group = await findOrCreate(os, owner, {
    of: groups(os, call),
    create: () => createSecurityGroup(os, { name: owner.name, description: markedDescription(owner) }, call),
    ...call,
  });
  // The second round is for what a lost answer left open, and for duplicates made by two writers at once.
  let lost = await converge(os, owner, { id: group.id, rules: options.rules, ...call });
  if (lost) lost = await converge(os, owner, { id: group.id, rules: options.rules, ...call });
  if (lost) throw lost;
  return { id: group.id };
}

/** Deletes the owner's security groups. One that a port still uses answers 409 `SecurityGroupInUse`. */
export function deleteSecurityGroup(
  os: OpenStack,
  owner: Owner,
  options: CallOptions = {},
): Promise<{ deleted: string[] }> {
  return deleteOwned(os, owner, { of: groups(os, options), ...options });
}

/** One round of changes. Answers the failure of a change whose outcome is not known, if there was one. */
async function converge(
  os: OpenStack,
  owner: Owner,
  options: CallOptions & { id: string; rules: readonly Rule[] },
): Promise<Error | undefined> {
  const { id, rules, ...call } = options;
  const plan = planRules(await listRules(os, id, call), rules);
  let lost: Error | undefined;
  for (const rule of plan.add) {
    try {
      await createRule(os, ruleBody(id, rule), call);
    } catch (error) {
      if (error instanceof OpenStackError && error.type === "SecurityGroupRuleExists") continue;
      const failure = failedTo(
        `add rule "${ruleText(rule)}" to security group ${id} of ${owner.name}`,
        error,
      );
      if (!isAmbiguous(error)) throw failure;
      lost ??= failure;
    }
  }
  for (const rule of plan.remove) {
    try {
      await remove(os, "security-group-rules", { id: rule, ...call });
    } catch (error) {
      const failure = failedTo(`remove rule ${rule} from security group ${id} of ${owner.name}`, error);
      if (!isAmbiguous(error)) throw failure;
      lost ??= failure;
    }
  }
  return lost;
}

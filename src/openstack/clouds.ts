// clouds.yaml: what the OpenStack tools read (https://docs.openstack.org/openstacksdk/latest/user/config/configuration.html).
import { X509Certificate } from "node:crypto";
import { parse, YAMLParseError } from "yaml";
import { z } from "zod";

export interface PasswordAuth {
  kind: "password";
  user: { id: string } | { name: string; domain: Domain };
  password: string;
  project: { id: string } | { name: string; domain: Domain };
}

export interface ApplicationCredentialAuth {
  kind: "applicationCredential";
  credential: { id: string } | { name: string; user: { id: string } | { name: string; domain: Domain } };
  secret: string;
}

export type Domain = { id: string } | { name: string };

/** One cloud of a clouds.yaml, checked. It holds secrets: never log it. */
export interface Cloud {
  name: string;
  /** Ends in `/v3`, without a slash behind. */
  authURL: string;
  auth: PasswordAuth | ApplicationCredentialAuth;
  /** Undefined when the catalog's first endpoint will do. */
  region?: string;
  interface: "public" | "internal" | "admin";
  /** PEM of the CAs to trust beside the system's. */
  caCert?: string;
}

/** A clouds.yaml that can't be used. The message names cloud and field, and never a value that may be secret. */
export class CloudsError extends Error {
  override readonly name = "CloudsError";
}

// The file is read with YAML's failsafe schema, in which every scalar is a string: `password: 0123` keeps its zero.
const scalar = z.string().transform((text) => /^(?:~|null|Null|NULL|)$/.test(text) ? undefined : text)
  .optional();

const authFields = z.object({
  auth_url: scalar,
  username: scalar,
  user_id: scalar,
  password: scalar,
  project_id: scalar,
  project_name: scalar,
  tenant_id: scalar,
  tenant_name: scalar,
  user_domain_id: scalar,
  user_domain_name: scalar,
  project_domain_id: scalar,
  project_domain_name: scalar,
  domain_id: scalar,
  domain_name: scalar,
  default_domain: scalar,
  application_credential_id: scalar,
  application_credential_name: scalar,
  application_credential_secret: scalar,
});

const cloudFields = z.object({
  auth_type: scalar,
  auth: authFields.optional(),
  region_name: scalar,
  interface: scalar,
  endpoint_type: scalar,
  verify: scalar,
  cacert: scalar,
  cert: scalar,
});

type Fields = z.infer<typeof authFields>;

/**
 * The cloud `name` of a clouds.yaml, or its only one when no name is given.
 * @param text of the file
 * @param options.caCert PEM given beside the file; needed when the cloud has `cacert`, since its path means nothing here
 * @throws CloudsError when the text is no clouds.yaml, or a field is missing or unusable
 */
export function parseClouds(text: string, options: { name?: string; caCert?: string } = {}): Cloud {
  const [name, fields] = pick(document(text), options.name);
  const fail = (what: string): never => {
    throw new CloudsError(`Cannot use cloud "${name}" of clouds.yaml: ${what}`);
  };
  const parsed = cloudFields.safeParse(fields);
  if (!parsed.success) {
    const paths = parsed.error.issues.map((issue) => issue.path.join(".") || "the cloud").sort();
    return fail(`${paths.join(", ")} must be ${paths.includes("auth") ? "a mapping" : "plain text"}`);
  }
  const cloud = parsed.data;
  const auth = cloud.auth ?? fail("auth is missing");
  if (cloud.verify !== undefined && /^(?:false|no|off|0)$/i.test(cloud.verify)) {
    return fail("verify is false, which is not supported: give the CA in the Secret's key cacert");
  }
  if (cloud.cert !== undefined) return fail("cert is given, but client certificates are not supported");
  if (cloud.cacert !== undefined && options.caCert === undefined) {
    return fail("cacert names a file: put the file's content into the Secret's key cacert");
  }
  const caCert = options.caCert === undefined ? undefined : checkedCA(options.caCert, fail);
  return {
    name,
    authURL: authURL(auth.auth_url, fail),
    auth: credentials(auth, cloud.auth_type, fail),
    interface: endpointInterface(cloud.endpoint_type ?? cloud.interface, fail),
    ...(cloud.region_name === undefined ? {} : { region: cloud.region_name }),
    ...(caCert === undefined ? {} : { caCert }),
  };
}

/** A key for what is kept per credential: two clouds have the same one only if nothing differs. It tells no secret. */
export async function fingerprint(cloud: Cloud): Promise<string> {
  const bytes = new TextEncoder().encode(JSON.stringify(cloud));
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function document(text: string): Map<string, unknown> {
  let decoded: unknown;
  try {
    // prettyErrors would quote the line, and with it perhaps a password.
    decoded = parse(text, { schema: "failsafe", merge: true, prettyErrors: false, logLevel: "error" });
  } catch (error) {
    const line = error instanceof YAMLParseError ? text.slice(0, error.pos[0]).split("\n").length : 0;
    throw new CloudsError(`Cannot read clouds.yaml: it is not YAML${line ? ` (line ${line})` : ""}`);
  }
  const clouds = z.object({ clouds: z.record(z.string(), z.unknown()) }).safeParse(decoded);
  if (!clouds.success) throw new CloudsError("Cannot read clouds.yaml: it has no mapping named clouds");
  return new Map(Object.entries(clouds.data.clouds));
}

function pick(clouds: Map<string, unknown>, name: string | undefined): [string, unknown] {
  const names = [...clouds.keys()].sort();
  const there = names.length ? `it has ${names.map((one) => `"${one}"`).join(", ")}` : "it has none";
  if (name === undefined) {
    const only = names.length === 1 ? names[0] : undefined;
    if (only === undefined) {
      throw new CloudsError(`Cannot choose a cloud of clouds.yaml without a name: ${there}`);
    }
    return [only, clouds.get(only)];
  }
  if (!clouds.has(name)) throw new CloudsError(`Cannot find cloud "${name}" in clouds.yaml: ${there}`);
  return [name, clouds.get(name)];
}

type Fail = (what: string) => never;

function authURL(text: string | undefined, fail: Fail): string {
  if (text === undefined) return fail("auth.auth_url is missing");
  const url = URL.parse(text);
  if (!url || !["http:", "https:"].includes(url.protocol)) {
    return fail("auth.auth_url is no http or https URL");
  }
  if (url.username || url.password) return fail("auth.auth_url must not carry a user or password");
  if (url.search || url.hash) return fail("auth.auth_url must not carry a query");
  const path = url.pathname.replace(/\/+$/, "");
  if (path.endsWith("/v2.0")) return fail("auth.auth_url ends in /v2.0, but only Keystone v3 is supported");
  return url.origin + (path.endsWith("/v3") ? path : `${path}/v3`);
}

function endpointInterface(text: string | undefined, fail: Fail): Cloud["interface"] {
  switch (text?.replace(/URL$/, "")) {
    case undefined:
    case "public":
      return "public";
    case "internal":
      return "internal";
    case "admin":
      return "admin";
    default:
      return fail(`interface must be public, internal or admin: current value is "${text}"`);
  }
}

function credentials(auth: Fields, type: string | undefined, fail: Fail): Cloud["auth"] {
  const application = auth.application_credential_id ?? auth.application_credential_name ??
    auth.application_credential_secret;
  const kind = type ?? (application === undefined ? "password" : "v3applicationcredential");
  if (kind === "v3applicationcredential" || kind === "applicationcredential") {
    const secret = auth.application_credential_secret ??
      fail("auth.application_credential_secret is missing");
    if (auth.application_credential_id !== undefined) {
      return { kind: "applicationCredential", credential: { id: auth.application_credential_id }, secret };
    }
    const name = auth.application_credential_name ??
      fail("auth.application_credential_id is missing (or application_credential_name with a user)");
    return { kind: "applicationCredential", credential: { name, user: user(auth, fail) }, secret };
  }
  if (kind !== "password" && kind !== "v3password") {
    return fail(`auth_type must be password or v3applicationcredential: current value is "${kind}"`);
  }
  return {
    kind: "password",
    user: user(auth, fail),
    password: auth.password ?? fail("auth.password is missing"),
    project: project(auth, fail),
  };
}

function user(auth: Fields, fail: Fail): PasswordAuth["user"] {
  if (auth.user_id !== undefined) return { id: auth.user_id };
  if (auth.username === undefined) return fail("auth.username is missing (or user_id)");
  const domain =
    oneDomain(auth.user_domain_id ?? auth.domain_id, auth.user_domain_name ?? auth.domain_name) ??
      (auth.default_domain === undefined ? undefined : { id: auth.default_domain });
  return {
    name: auth.username,
    domain: domain ?? fail("auth.user_domain_name is missing (or user_domain_id)"),
  };
}

function project(auth: Fields, fail: Fail): PasswordAuth["project"] {
  const id = auth.project_id ?? auth.tenant_id;
  if (id !== undefined) return { id };
  const name = auth.project_name ?? auth.tenant_name;
  if (name === undefined) return fail("auth.project_name is missing (or project_id)");
  const domain = oneDomain(
    auth.project_domain_id ?? auth.domain_id ?? auth.user_domain_id,
    auth.project_domain_name ?? auth.domain_name ?? auth.user_domain_name,
  ) ?? (auth.default_domain === undefined ? undefined : { id: auth.default_domain });
  return { name, domain: domain ?? fail("auth.project_domain_name is missing (or project_domain_id)") };
}

function oneDomain(id: string | undefined, name: string | undefined): Domain | undefined {
  if (id !== undefined) return { id };
  return name === undefined ? undefined : { name };
}

/** A CA that can't be read must not end in trusting the system's alone without a word. */
function checkedCA(pem: string, fail: Fail): string {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g) ?? [];
  if (blocks.length === 0) return fail("the Secret's key cacert holds no PEM certificate");
  for (const [index, block] of blocks.entries()) {
    try {
      new X509Certificate(block);
    } catch {
      return fail(`certificate ${index + 1} of the Secret's key cacert can't be read`);
    }
  }
  return blocks.join("\n") + "\n";
}

import assert from "node:assert/strict";
import fc from "fast-check";
import { CloudsError, fingerprint, parseClouds } from "./clouds.ts";

const SECRET = "s3same-0pen";

function yaml(auth: string, rest = ""): string {
  return `clouds:\n  c:\n    auth: {${auth}}\n${rest}`;
}

const FULL =
  `auth_url: "https://k.example/v3", username: u, password: ${SECRET}, project_name: p, user_domain_name: D, project_domain_name: D`;

Deno.test("parseClouds() reads a password cloud", () => {
  assert.deepEqual(
    parseClouds(yaml(FULL, "    region_name: One\n    interface: internal\n"), { name: "c" }),
    {
      name: "c",
      authURL: "https://k.example/v3",
      auth: {
        kind: "password",
        user: { name: "u", domain: { name: "D" } },
        password: SECRET,
        project: { name: "p", domain: { name: "D" } },
      },
      interface: "internal",
      region: "One",
    },
  );
});

Deno.test("parseClouds() reads an application credential by id, and by name with its user", () => {
  const byID = parseClouds(
    yaml("auth_url: 'http://k:5000', application_credential_id: i, application_credential_secret: x"),
  );
  assert.deepEqual(byID.auth, { kind: "applicationCredential", credential: { id: "i" }, secret: "x" });
  assert.equal(byID.authURL, "http://k:5000/v3");
  const byName = parseClouds(
    yaml(
      "auth_url: 'http://k/identity/', application_credential_name: n, user_id: u, application_credential_secret: x",
    ),
  );
  assert.deepEqual(byName.auth, {
    kind: "applicationCredential",
    credential: { name: "n", user: { id: "u" } },
    secret: "x",
  });
  assert.equal(byName.authURL, "http://k/identity/v3");
});

Deno.test("parseClouds() keeps a password's digits as written and follows merge keys", () => {
  const text = `
base: &base {auth_url: "http://k", username: u, project_id: p, user_domain_id: default}
clouds:
  c: {auth: {<<: *base, password: 0123}, endpoint_type: publicURL}
`;
  const { auth } = parseClouds(text);
  assert.ok(auth.kind === "password" && auth.password === "0123");
  assert.deepEqual(auth.project, { id: "p" });
});

Deno.test("parseClouds() takes the user's domain for the project when none is given", () => {
  const { auth } = parseClouds(
    yaml("auth_url: 'http://k', username: u, password: x, project_name: p, user_domain_name: D"),
  );
  assert.ok(auth.kind === "password");
  assert.deepEqual(auth.project, { name: "p", domain: { name: "D" } });
});

Deno.test("parseClouds() names what is missing or unusable", () => {
  const cases: [string, RegExp][] = [
    ["", /it has no mapping named clouds/],
    ["clouds: []", /it has no mapping named clouds/],
    ["clouds: {}", /without a name: it has none/],
    ["clouds: {a: {}, b: {}}", /without a name: it has "a", "b"/],
    ["clouds: {c: }", /cloud "c"/],
    ["clouds: {c: {}}", /cloud "c" .*auth is missing/],
    ["clouds: {c: {auth: x}}", /auth must be a mapping/],
    ["clouds: {c: {auth: {password: [1]}}}", /auth\.password must be/],
    ["a: b: c", /is not YAML \(line 1\)/],
    [yaml("username: u"), /auth\.auth_url is missing/],
    [yaml("auth_url: 'ftp://k'"), /auth\.auth_url is no http or https URL/],
    [yaml("auth_url: 'http://u:p@k'"), /must not carry a user or password/],
    [yaml("auth_url: 'http://k/v2.0'"), /only Keystone v3/],
    [yaml("auth_url: 'http://k', password: x"), /auth\.username is missing/],
    [yaml("auth_url: 'http://k', username: u, password: x"), /auth\.user_domain_name is missing/],
    [yaml("auth_url: 'http://k', user_id: u"), /auth\.password is missing/],
    [yaml("auth_url: 'http://k', user_id: u, password: ''"), /auth\.password is missing/],
    [yaml("auth_url: 'http://k', user_id: u, password: x"), /auth\.project_name is missing/],
    [
      yaml("auth_url: 'http://k', user_id: u, password: x, project_name: p"),
      /auth\.project_domain_name is missing/,
    ],
    [yaml("auth_url: 'http://k', application_credential_id: i"), /application_credential_secret is missing/],
    [yaml("auth_url: 'http://k', application_credential_secret: i"), /application_credential_id is missing/],
    [yaml(FULL, "    auth_type: v3oidcpassword\n"), /auth_type must be .*"v3oidcpassword"/],
    [yaml(FULL, "    interface: private\n"), /interface must be public, internal or admin.*"private"/],
    [yaml(FULL, "    verify: false\n"), /verify is false/],
    [yaml(FULL, "    cacert: /etc/ca.pem\n"), /cacert names a file/],
    [yaml(FULL, "    cert: /etc/c.pem\n"), /client certificates/],
  ];
  for (const [text, message] of cases) {
    assert.throws(() => parseClouds(text), (error) => {
      assert.ok(error instanceof CloudsError);
      assert.match(error.message, message);
      assert.ok(!error.message.includes(SECRET));
      return true;
    }, text);
  }
  assert.throws(
    () => parseClouds(yaml(FULL), { name: "d" }),
    /Cannot find cloud "d" in clouds.yaml: it has "c"/,
  );
});

Deno.test("parseClouds() refuses a CA that can't be read instead of trusting the system's alone", () => {
  for (const caCert of ["", "not PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]) {
    assert.throws(() => parseClouds(yaml(FULL), { caCert }), /Secret's key cacert/);
  }
});

Deno.test("parseClouds() shows no secret whatever the text is", () => {
  const junk = fc.constantFrom(
    "{",
    "}",
    ":",
    "\n",
    "\t",
    "- ",
    "'",
    '"',
    "&a ",
    "*a",
    "<<: ",
    "clouds:",
    "c:",
    "auth: ",
  );
  fc.assert(
    fc.property(fc.array(junk, { maxLength: 12 }), fc.array(junk, { maxLength: 12 }), (before, after) => {
      try {
        parseClouds(`${before.join("")}password: ${SECRET}${after.join("")}`);
      } catch (error) {
        assert.ok(error instanceof CloudsError);
        assert.ok(!error.message.includes(SECRET));
      }
    }),
  );
});

Deno.test("fingerprint() changes with the password and tells nothing of it", async () => {
  const one = await fingerprint(parseClouds(yaml(FULL)));
  const two = await fingerprint(parseClouds(yaml(FULL.replace(SECRET, "other"))));
  assert.notEqual(one, two);
  assert.equal(one, await fingerprint(parseClouds(yaml(FULL))));
  assert.match(one, /^[0-9a-f]{64}$/);
});

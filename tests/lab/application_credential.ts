// An application credential of one of the lab's accounts, with a secret of the caller's choice.
import { ACCOUNTS, AUTH_URL } from "./cloud.ts";

/**
 * Makes one; disposing deletes it. Keystone takes secrets of up to 72 bytes.
 * @throws Error with Keystone's answer when it refuses
 */
export async function createApplicationCredential(
  account: keyof typeof ACCOUNTS,
  secret: string,
): Promise<{ id: string } & AsyncDisposable> {
  const { user, password, project } = ACCOUNTS[account];
  const domain = { id: "default" };
  const call = async (method: string, path: string, body?: unknown, token?: string) => {
    const response = await fetch(AUTH_URL + path, {
      method,
      headers: { "content-type": "application/json", ...(token ? { "x-auth-token": token } : {}) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`Cannot ${method} ${path}: ${response.status} ${text.slice(0, 300)}`);
    return { headers: response.headers, body: text ? JSON.parse(text) : undefined };
  };
  const login = await call("POST", "/auth/tokens", {
    auth: {
      identity: { methods: ["password"], password: { user: { name: user, domain, password } } },
      scope: { project: { name: project, domain } },
    },
  });
  const token = login.headers.get("x-subject-token") ?? "";
  const path = `/users/${login.body.token.user.id}/application_credentials`;
  const name = `test-${crypto.randomUUID().slice(0, 8)}`;
  const made = await call("POST", path, { application_credential: { name, secret } }, token);
  const { id } = made.body.application_credential;
  return {
    id,
    [Symbol.asyncDispose]: async () => void await call("DELETE", `${path}/${id}`, undefined, token),
  };
}

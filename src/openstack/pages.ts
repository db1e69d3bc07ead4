import { z } from "zod";
import type { OpenStack, Query, Service } from "./contract.ts";
import { OpenStackError } from "./errors.ts";

/** How often a listing is begun anew because its marker vanished. */
const MAX_RESTARTS = 5;

const links = z.array(z.object({ rel: z.string(), href: z.string() }));

/**
 * Every item of a listing. Follows `<plural>_links` to the last page; begins anew when the page's marker was deleted
 * in between: Neutron then answers with the first page again, Nova with 400. Each id comes once.
 * @throws OpenStackError `UnexpectedAnswer` when the answer is not of `schema`, or the listing never settles
 */
export async function listAll<T extends { id: string }>(
  os: OpenStack,
  listing: {
    service: Service;
    path: string;
    /** The key of the list in the answer. */
    plural: string;
    schema: z.ZodType<T>;
    query?: Query;
    signal?: AbortSignal;
  },
): Promise<T[]> {
  const shape = z.object({
    [listing.plural]: z.array(listing.schema),
    [`${listing.plural}_links`]: links.optional(),
  });
  for (let attempt = 0; attempt < MAX_RESTARTS; attempt++) {
    const all = await pass();
    if (all) return [...all.values()];
  }
  throw unexpected(listing, 0, `its pages changed ${MAX_RESTARTS} times while they were read`);

  async function pass(): Promise<Map<string, T> | undefined> {
    const found = new Map<string, T>();
    let query: Query | undefined = listing.query;
    let next: string | undefined;
    do {
      let response;
      try {
        response = await os.request({
          service: listing.service,
          method: "GET",
          path: listing.path,
          ...(query === undefined ? {} : { query }),
          ...(listing.signal === undefined ? {} : { signal: listing.signal }),
        });
      } catch (error) {
        if (next !== undefined && error instanceof OpenStackError && error.status === 400) return undefined;
        throw error;
      }
      const page = shape.safeParse(response.body);
      if (!page.success) throw unexpected(listing, response.status, issues(page.error));
      for (const item of page.data[listing.plural] as T[]) {
        if (found.has(item.id)) return undefined;
        found.set(item.id, item);
      }
      const more = page.data[`${listing.plural}_links`] as z.infer<typeof links> | undefined;
      next = more?.find((link) => link.rel === "next")?.href;
      // Of the link only the query is taken: behind a proxy its host may be one that can't be reached from here.
      if (next !== undefined) query = queryOf(next);
    } while (next !== undefined);
    return found;
  }
}

/**
 * The value under `key` of an answer, checked.
 * @throws OpenStackError `UnexpectedAnswer`; ambiguous after a write, since something was done
 */
export function parseBody<T>(
  body: unknown,
  expected: {
    key: string;
    schema: z.ZodType<T>;
    service: Service;
    method: "GET" | "POST" | "PUT";
    path: string;
  },
): T {
  const parsed = z.object({ [expected.key]: expected.schema }).safeParse(body);
  if (!parsed.success) throw unexpected(expected, 200, issues(parsed.error));
  return parsed.data[expected.key] as T;
}

function queryOf(href: string): Query {
  const query: Record<string, string[]> = {};
  const at = href.indexOf("?");
  for (const [key, value] of new URLSearchParams(at < 0 ? "" : href.slice(at + 1))) {
    (query[key] ??= []).push(value);
  }
  return query;
}

function issues(error: z.ZodError): string {
  return error.issues.slice(0, 3).map((issue) => `${issue.path.join(".")} ${issue.message}`).join(", ");
}

function unexpected(
  call: { service: Service; method?: "GET" | "POST" | "PUT"; path: string },
  status: number,
  what: string,
): OpenStackError {
  const method = call.method ?? "GET";
  return new OpenStackError(`${method} ${call.service} ${call.path} answered something unexpected: ${what}`, {
    service: call.service,
    method,
    path: call.path,
    status,
    type: "UnexpectedAnswer",
    ambiguous: method !== "GET",
  });
}

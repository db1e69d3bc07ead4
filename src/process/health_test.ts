import assert from "node:assert/strict";
import { parseAddress } from "./address.ts";
import { type HealthOptions, serveHealth } from "./health.ts";
import { createMetrics } from "./metrics.ts";
import { processStats } from "./process_stats.ts";

async function answers(options: Omit<HealthOptions, "address">, paths: string[], init?: RequestInit) {
  await using server = serveHealth({ address: "127.0.0.1:0", ...options });
  const client = Deno.createHttpClient({ poolMaxIdlePerHost: 0 });
  const found: [number, string][] = [];
  for (const path of paths) {
    const answer = await fetch(`http://127.0.0.1:${server.port}${path}`, { ...init, client });
    found.push([answer.status, await answer.text()]);
  }
  client.close();
  return found;
}

Deno.test("serveHealth() answers probes by their checks", async () => {
  let ready: string | undefined = "caches are not filled";
  const options = {
    live: {},
    ready: { cache: () => ready, vici: () => Promise.reject(new Error("no socket")), ok: () => undefined },
  };
  assert.deepEqual(await answers(options, ["/healthz", "/readyz"]), [
    [200, "ok\n"],
    [503, "cache: caches are not filled\nvici: no socket\n"],
  ]);
  ready = undefined;
  assert.deepEqual(await answers({ ready: { cache: () => ready } }, ["/readyz"]), [[200, "ok\n"]]);
});

Deno.test("serveHealth() serves metrics only when there are any, and nothing else", async () => {
  assert.deepEqual(await answers({ metrics: () => "up 1\n" }, ["/metrics", "/", "/metrics/x"]), [
    [200, "up 1\n"],
    [404, "Not found\n"],
    [404, "Not found\n"],
  ]);
  assert.deepEqual(await answers({}, ["/metrics"]), [[404, "Not found\n"]]);
});

Deno.test("serveHealth() reads a body before it refuses, and goes on after a failing page", async () => {
  const body = new Uint8Array(300_000);
  const refused = await answers({}, ["/healthz", "/nowhere"], { method: "POST", body });
  assert.deepEqual(refused.map(([code]) => code), [405, 405]);
  const broken = await answers({ metrics: () => Promise.reject(new Error("broken")) }, [
    "/metrics",
    "/healthz",
  ]);
  assert.deepEqual(broken.map(([code]) => code), [500, 200]);
});

Deno.test("parseAddress() reads ports, hosts and IPv6", () => {
  assert.deepEqual(parseAddress(":8080"), { hostname: "0.0.0.0", port: 8080 });
  assert.deepEqual(parseAddress("127.0.0.1:0"), { hostname: "127.0.0.1", port: 0 });
  assert.deepEqual(parseAddress("[::1]:9"), { hostname: "::1", port: 9 });
  for (const text of ["8080", "x:y", ":99999", "::1:80", "a b:1", ""]) {
    assert.throws(() => parseAddress(text), SyntaxError, text);
  }
});

Deno.test("createMetrics() gives controller-runtime's names, zeros included, and the process's own", async () => {
  const metrics = createMetrics({ version: "1.2.3" });
  const queue = metrics.queue("ipsecgateway");
  queue.added();
  queue.worked(0.2, "error");
  queue.running(() => [1, 3]);
  metrics.kubeAnswer({ method: "GET", code: 0, ms: 5 });
  metrics.openstackAnswer({ service: "network", method: "POST", code: 201, ms: 50 });
  metrics.leader("ipsec-operator", true);
  const text = await metrics.text();
  for (
    const line of [
      'workqueue_adds_total{name="ipsecgateway",controller="ipsecgateway"} 1',
      'workqueue_retries_total{name="ipsecgateway",controller="ipsecgateway"} 0',
      'workqueue_longest_running_processor_seconds{name="ipsecgateway",controller="ipsecgateway"} 3',
      'workqueue_unfinished_work_seconds{name="ipsecgateway",controller="ipsecgateway"} 4',
      'controller_runtime_active_workers{controller="ipsecgateway"} 2',
      'controller_runtime_reconcile_total{controller="ipsecgateway",result="success"} 0',
      'controller_runtime_reconcile_errors_total{controller="ipsecgateway"} 1',
      'rest_client_requests_total{code="<error>",method="GET"} 1',
      'ipsec_operator_openstack_requests_total{service="network",method="POST",code="201"} 1',
      'leader_election_master_status{name="ipsec-operator"} 1',
    ]
  ) assert(text.includes(line + "\n"), `${line} is not in\n${text}`);
  assert.match(text, /^process_resident_memory_bytes [1-9]\d{6,}$/m);
  assert.match(text, /^process_open_fds [1-9]/m);
  assert.match(text, /ipsec_operator_build_info\{version="1\.2\.3",deno="/);
});

Deno.test("processStats() agrees with the clock, also where /proc can't be read", async () => {
  for (const root of ["/proc", "/nowhere"]) {
    const stats = await processStats(root);
    const age = Date.now() / 1000 - (stats.process_start_time_seconds ?? 0);
    assert(age > -2 && age < 3600, `started ${age} s ago by ${root}`);
    assert((stats.process_cpu_seconds_total ?? 0) > 0);
    assert((stats.process_resident_memory_bytes ?? 0) > 1e7);
    assert.equal("process_open_fds" in stats, root === "/proc");
  }
});

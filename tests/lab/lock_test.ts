// The lock of ./run, in a folder of its own.
import assert from "node:assert/strict";
import { attempt, type Ran } from "./command.ts";

const LAB = new URL(".", import.meta.url).pathname;

/** Runs bash with the lock's functions loaded; the lock and the cache are in `folder`. */
function withLock(folder: string, script: string): Promise<Ran> {
  const load = `set -euo pipefail; . ${LAB}env.sh; . ${LAB}process.sh; . ${LAB}lock.sh; LOCK=${folder}/lock`;
  return attempt(["bash", "-c", `${load}\n${script}`], {
    env: { IPSEC_OPERATOR_CACHE: `${folder}/cache`, PATH: Deno.env.get("PATH") ?? "", HOME: folder },
  });
}

async function folder(): Promise<string> {
  return await Deno.makeTempDir({ prefix: "ipo-lock-" });
}

Deno.test("lock_take refuses and names the holder when another process has the lock", async () => {
  const own = await folder();
  const { code, stderr } = await withLock(
    own,
    `lock_take "./run demo"; bash -c '
    . ${LAB}env.sh; . ${LAB}process.sh; . ${LAB}lock.sh; LOCK=${own}/lock; lock_take "./run test"' || exit $?`,
  );
  assert.equal(code, 3);
  assert.match(stderr, /^Cannot use the lab: it is held by process \d+, '\.\/run demo' in \S+ since /);
  await Deno.remove(own, { recursive: true });
});

Deno.test("lock_take takes over when the holder has ended and left no lab", async () => {
  const own = await folder();
  assert.equal((await withLock(own, `lock_take "./run demo"`)).code, 0);
  const second = await withLock(own, `lock_take "./run test"; lock_field command; lock_release; ls $LOCK`);
  assert.equal(second.stdout, "./run test\n", "released at the end, since no lab is up");
  await Deno.remove(own, { recursive: true });
});

Deno.test("lock_take refuses and says how to end it when another checkout left a lab up", async () => {
  const own = await folder();
  const { code, stderr } = await withLock(
    own,
    `mkdir -p $CACHE/k8s/run/pids; daemon $CACHE/k8s/run/pids/etcd.pid /dev/null sleep 60
     trap 'daemon_stop TERM 5 $CACHE/k8s/run/pids/etcd.pid' EXIT
     lock_write "./run lab up"; sed -i 's|^directory=.*|directory=/elsewhere|; s|^pid=.*|pid=0|' $LOCK
     lock_take "./run test"`,
  );
  assert.equal(code, 3);
  assert.match(stderr, /'\.\/run lab up' in \/elsewhere left one up/);
  assert.match(stderr, /cd \/elsewhere && IPSEC_OPERATOR_CACHE=\S+ \.\/run down/);
  await Deno.remove(own, { recursive: true });
});

Deno.test("daemon leaves the caller's open files to the caller", async () => {
  const own = await folder();
  const { stdout } = await withLock(
    own,
    `exec 7> ${own}/held; daemon ${own}/pid ${own}/log sleep 60; pid=$(pid_of ${own}/pid)
     until [ "$(cat /proc/$pid/comm)" = sleep ]; do :; done
     ls /proc/$pid/fd | tr '\\n' ' '; daemon_stop TERM 5 ${own}/pid`,
  );
  assert.equal(stdout.trim(), "0 1 2");
  await Deno.remove(own, { recursive: true });
});

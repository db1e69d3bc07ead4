import assert from "node:assert/strict";
import type { Exec } from "../../src/dataplane/exec.ts";
import { silentLog } from "../../src/process/log.ts";
import { createDataPlane, type DataPlane, insideProblems } from "./data_plane.ts";
import { gatewayConfig } from "./fixture.ts";
import { networkOf } from "./network.ts";

const LINKS = [
  { ifname: "lo", flags: ["UP"], mtu: 65536 },
  { ifname: "net1", flags: ["UP"], mtu: 1450, address: "fa:16:3e:00:00:01" },
];
const ADDRESSES = [
  { ifname: "net1", addr_info: [{ family: "inet", local: "10.0.0.7", prefixlen: 24, scope: "global" }] },
];

/** A pod's world: what was run, what the kernel refuses, and a run directory. */
interface World {
  readonly ran: string[];
  refuse: string;
  links: typeof LINKS;
  readonly runDirectory: string;
  readonly proc: string;
  /** An agent that has just started in this pod. */
  agent(): DataPlane;
  /** The text of a file of the run directory, or undefined. */
  file(name: string): Promise<string | undefined>;
}

async function withWorld(use: (world: World) => Promise<void>): Promise<void> {
  const root = await Deno.makeTempDir();
  const proc = `${root}/proc`, runDirectory = `${root}/run`;
  for (const path of [runDirectory, `${proc}/self/ns`, `${proc}/sys/net/ipv4`]) {
    await Deno.mkdir(path, { recursive: true });
  }
  await Deno.symlink("net:[1]", `${proc}/self/ns/net`);
  await Deno.writeTextFile(`${proc}/sys/net/ipv4/ip_forward`, "1\n");
  const exec: Exec = (argv) => {
    const line = argv.join(" ");
    world.ran.push(line);
    if (world.refuse && line.includes(world.refuse)) {
      return Promise.resolve({ code: 1, stdout: "", stderr: "refused" });
    }
    const stdout = line.includes("-json")
      ? [world.links, ADDRESSES, [], []].map((part) => JSON.stringify(part)).join("\n")
      : "";
    return Promise.resolve({ code: 0, stdout, stderr: "" });
  };
  const world: World = {
    ran: [],
    refuse: "",
    links: LINKS,
    runDirectory,
    proc,
    agent: () => createDataPlane({ runDirectory, exec, log: silentLog, proc }),
    file: (name) => Deno.readTextFile(`${runDirectory}/${name}`).catch(() => undefined),
  };
  try {
    await use(world);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

Deno.test("DataPlane.ensure() lets charon start only when fence, links and routes are in place", () =>
  withWorld(async (world) => {
    const plane = world.agent();
    for (const refused of ["nft -f", "ip -batch"]) {
      world.refuse = refused;
      await assert.rejects(plane.ensure(gatewayConfig()), /refused/);
      assert.equal(await world.file("fenced"), undefined, refused);
      assert.equal(plane.driver, undefined);
    }
    world.refuse = "";
    assert.equal((await plane.ensure(gatewayConfig())).filter(({ fatal }) => fatal).length, 0);
    assert.equal(await world.file("fenced"), "net:[1] xfrm\n");
    assert.match(await world.file("strongswan.conf") ?? "", /routing_table = 0/);
    const order = ["nft -f -", "ip -batch -"].map((line) => world.ran.lastIndexOf(line));
    assert.ok(order[0]! < order[1]!, "the fence comes first");
  }));

Deno.test("DataPlane.ensure() keeps the driver of the charon that runs when the agent starts anew", () =>
  withWorld(async (world) => {
    world.refuse = "type xfrm";
    await world.agent().ensure(gatewayConfig());
    assert.equal(await world.file("fenced"), "net:[1] libipsec\n");
    world.refuse = "";
    const second = world.agent();
    const problems = await second.ensure(gatewayConfig({ dataPlane: "xfrm" }));
    assert.equal(second.driver, "libipsec");
    // The two tunnels of the fixture lead to one subnet.
    assert.deepEqual(problems, [
      { text: "the data plane xfrm is asked for, libipsec runs until the pod is made anew", fatal: false },
      {
        text: "two tunnels have the remote subnet 192.168.77.0/24: only the first of them is used for it",
        fatal: false,
      },
    ]);
  }));

Deno.test("DataPlane.ensure() does not trust a marker of another network namespace", () =>
  withWorld(async (world) => {
    await Deno.writeTextFile(`${world.runDirectory}/fenced`, "net:[2] libipsec\n");
    const plane = world.agent();
    await plane.ensure(gatewayConfig());
    assert.equal(plane.driver, "xfrm");
  }));

Deno.test("DataPlane.ensure() names what is wrong with the pod when only others can mend it", () =>
  withWorld(async (world) => {
    const plane = world.agent();
    await Deno.writeTextFile(`${world.proc}/sys/net/ipv4/ip_forward`, "0\n");
    world.links = LINKS.slice(0, 1);
    const fatal = async () =>
      (await plane.ensure(gatewayConfig())).filter((problem) => problem.fatal).map(({ text }) => text);
    assert.deepEqual(await fatal(), [
      "net.ipv4.ip_forward is 0, so nothing is forwarded: the tuning plugin has not set it",
      "net1 is missing: the port's NIC is not in this pod",
    ]);
    await Deno.writeTextFile(`${world.proc}/sys/net/ipv4/ip_forward`, "1\n");
    world.links = [LINKS[0]!, { ...LINKS[1]!, flags: [], address: "fa:16:3e:00:00:02" }];
    assert.deepEqual(await fatal(), [
      "net1 has the MAC fa:16:3e:00:00:02, the port has fa:16:3e:00:00:01",
      "net1 is down",
    ]);
  }));

Deno.test("insideProblems() names an address of the pod that a tunnel's subnets hold", () => {
  const kernel = (address: string) => ({
    links: [],
    addresses: [`eth0 ${address}/24`],
    rules: [],
    routes: [],
  });
  const network = networkOf(gatewayConfig(), "xfrm");
  assert.deepEqual(insideProblems(network, kernel("192.168.77.9")), [
    "the pod's address 192.168.77.9 lies inside 192.168.77.0/24 of a tunnel: the cluster is cut off",
  ]);
  assert.equal(insideProblems(network, kernel("100.64.0.9")).length, 1);
  assert.deepEqual(insideProblems(network, kernel("10.244.0.9")), []);
});

Deno.test("DataPlane.ensure() puts the fence back when somebody changed it", () =>
  withWorld(async (world) => {
    const listings = ["as applied", "as applied", "changed by hand", "as applied"];
    const applied = () => world.ran.filter((line) => line === "nft -f -").length;
    const exec: Exec = (argv) => {
      world.ran.push(argv.join(" "));
      if (argv.includes("list")) {
        return Promise.resolve({ code: 0, stdout: listings.shift() ?? "", stderr: "" });
      }
      const stdout = argv.includes("-json")
        ? [LINKS, ADDRESSES, [], []].map((part) => JSON.stringify(part)).join("\n")
        : "";
      return Promise.resolve({ code: 0, stdout, stderr: "" });
    };
    const { runDirectory, proc } = world;
    const plane = createDataPlane({ runDirectory, exec, log: silentLog, proc });
    const config = gatewayConfig();
    await plane.ensure(config);
    await plane.ensure(config);
    assert.equal(applied(), 1);
    await plane.ensure(config);
    assert.equal(applied(), 2);
  }));

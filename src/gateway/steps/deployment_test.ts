import assert from "node:assert/strict";
import type { Pod } from "../../kube/kinds.ts";
import { gateway } from "../gateway_builder.ts";
import { podTrouble, podWithoutNic } from "./deployment.ts";

const NOW = new Date("2026-01-02T03:04:05Z");
const ago = (seconds: number) => new Date(NOW.getTime() - seconds * 1000).toISOString();
const POD: Pod = { metadata: { name: "gw-1", uid: "u" }, status: { startTime: ago(300) } };

function reporting(problems: string[], { secondsAgo = 5, podName = "gw-1" } = {}) {
  return gateway({}, { status: { agent: { podName, lastHeartbeatTime: ago(secondsAgo), problems } } });
}

Deno.test("podWithoutNic() names the pod when its agent misses net1", () => {
  assert.equal(podWithoutNic(reporting(["net1 is missing"]), [POD], NOW), POD);
});

Deno.test("podWithoutNic() names none when the report is of another pod, old, or from the pod's start", () => {
  assert.equal(podWithoutNic(reporting(["net1 is missing"], { podName: "gw-0" }), [POD], NOW), undefined);
  assert.equal(podWithoutNic(reporting(["net1 is missing"], { secondsAgo: 180 }), [POD], NOW), undefined);
  const young = { ...POD, status: { startTime: ago(20) } };
  assert.equal(podWithoutNic(reporting(["net1 is missing"]), [young], NOW), undefined);
});

Deno.test("podWithoutNic() names none when something else is wrong, or the pod ends already", () => {
  assert.equal(podWithoutNic(reporting(["net.ipv4.ip_forward is 0"]), [POD], NOW), undefined);
  const ending = { ...POD, metadata: { ...POD.metadata, deletionTimestamp: ago(1) } };
  assert.equal(podWithoutNic(reporting(["net1 is missing"]), [ending], NOW), undefined);
});

Deno.test("podTrouble() says what a container waits for", () => {
  const waiting = { waiting: { reason: "ImagePullBackOff", message: "not found" } };
  const pod: Pod = {
    metadata: { name: "gw-1" },
    status: {
      containerStatuses: [{
        name: "strongswan",
        ready: false,
        restartCount: 0,
        image: "",
        imageID: "",
        state: waiting,
      }],
    },
  };
  assert.equal(podTrouble([pod]), "container strongswan of pod gw-1 waits: ImagePullBackOff (not found)");
});

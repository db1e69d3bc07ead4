// The flags of `status-agent gateway`.
import { defineFlags, type FlagValues, LOG_FLAGS } from "../../src/process/flags.ts";

/** Where the pod's volumes are mounted, and how often to look. */
export const GATEWAY_FLAGS = defineFlags({
  ...LOG_FLAGS,
  "config-directory": {
    type: "string",
    default: "/etc/swanctl-rendered",
    help: "Directory with agent.json and swanctl.conf, as the controller rendered them.",
    value: "DIRECTORY",
  },
  "psk-directory": {
    type: "string",
    default: "/etc/swanctl-psk",
    help: "Directory with the keys: the whole Secret, a file for each of its keys.",
    value: "DIRECTORY",
  },
  "run-directory": {
    type: "string",
    default: "/run/ipsec",
    help:
      "Directory shared with the strongswan container: VICI socket, strongswan.conf, the marker of the fence.",
    value: "DIRECTORY",
  },
  "interval": {
    type: "duration",
    default: 15_000,
    help: "How often charon's state is read when nothing asks for it earlier.",
    check: (ms: number) => ms >= 1_000 && ms <= 600_000 ? undefined : "must be from 1s to 10m",
  },
  "metrics-bind-address": {
    type: "address",
    default: ":9903",
    help: "Address of /metrics, /healthz and /readyz.",
  },
  "report": {
    type: "boolean",
    default: true,
    help:
      "Write status and Events to the API server. Without it, or outside a pod, the agent only runs the tunnels.",
  },
});

/** Their values. */
export type GatewayFlags = FlagValues<typeof GATEWAY_FLAGS>;

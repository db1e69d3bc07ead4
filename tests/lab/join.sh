#!/usr/bin/env bash
# Tells Kubernetes which Nova server each node is (spec.providerID), as a cloud provider would.
set -euo pipefail
. "$(dirname "$0")/env.sh"
for ((i = 1; i <= K8S_NODES; i++)); do
  server=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$OS/data/servers.json" "node-$i")
  [ -n "$(kubectl get node "node$i" -o 'jsonpath={.spec.providerID}')" ] ||
    kubectl patch node "node$i" -p "{\"spec\":{\"providerID\":\"openstack:///$server\"}}" > /dev/null
done

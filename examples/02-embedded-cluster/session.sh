#!/usr/bin/env bash
# A first session with kubectl: an API server, a scheduler, pods that are placed and pods that have to wait.
# Needs pyscheduler and kubectl on the path, and no cluster.
set -euo pipefail
cd "$(dirname "$0")"

work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -r "$work"' EXIT
export KUBECONFIG=$work/kubeconfig

say() { printf '\n$ %s\n' "$*"; "$@"; }

pyscheduler cluster --port 0 --load cluster.yaml --write-kubeconfig "$KUBECONFIG" >"$work/cluster.log" &
until [ -s "$KUBECONFIG" ]; do sleep 0.1; done
pyscheduler run --config ../../configs/default.yaml 2>"$work/run.log" &

say kubectl get nodes
say kubectl apply -f pods.yaml
say kubectl wait --for=condition=PodScheduled pod/fits --timeout=20s
say kubectl get pods -o wide

# Open the gate: the pod is scheduled at once.
say kubectl patch pod gated --type=json --patch='[{"op": "remove", "path": "/spec/schedulingGates"}]'
say kubectl wait --for=condition=PodScheduled pod/gated --timeout=20s

# Take the taint away: that is an event which may help the pod that was too large, so it is tried again.
say kubectl taint nodes gpu-1 nvidia.com/gpu-
say kubectl wait --for=condition=PodScheduled pod/too-large --timeout=20s

# No node is in a zone that the last pod could be spread over. Put one into a zone, and it is.
say kubectl get pod spread -o jsonpath='{.status.conditions[?(@.type=="PodScheduled")].message}{"\n"}'
say kubectl label nodes node-1 topology.kubernetes.io/zone=a
say kubectl wait --for=condition=PodScheduled pod/spread --timeout=20s
say kubectl get pods -o wide
say kubectl get events --sort-by=.metadata.name

printf '\nwhat the scheduler logged:\n'
cat "$work/run.log"

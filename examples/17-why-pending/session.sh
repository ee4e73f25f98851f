#!/usr/bin/env bash
# Thirteen pods that wait for different causes, a Deployment over its quota, and a victim: `explain` names each cause. So
# does the story of the pod, from the leader, and after the leader was killed, `explain --history` from the logs.
# Needs pyscheduler on the path, and no cluster.
set -euo pipefail
cd "$(dirname "$0")"

work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -r "$work"' EXIT
export KUBECONFIG=$work/kubeconfig

# The plugin of this example, which has a mistake. `pip install ./racks` does the same.
plugin=$work/plugins/why_pending_racks-1.0.dist-info
mkdir -p "$plugin"
cp racks/why_pending_racks.py "$work/plugins"
printf 'Metadata-Version: 2.1\nName: why-pending-racks\nVersion: 1.0\n' >"$plugin/METADATA"
printf '[pyscheduler]\nwhy-pending-racks = why_pending_racks\n' >"$plugin/entry_points.txt"
export PYTHONPATH=$work/plugins

crds=(../../configs/crds/*.yaml)
pyscheduler cluster --port 0 --tls --authorization rbac --controllers --no-lifecycle "${crds[@]/#/--load=}" \
  --load manifests/cluster.yaml --load manifests/pods.yaml --write-kubeconfig "$KUBECONFIG" >"$work/cluster.log" 2>&1 &
until [ -s "$KUBECONFIG" ]; do sleep 0.1; done

# Two replicas: one leads, the other one waits for its lease. `explain` would find the leader on its usual port, 10259; here
# that port may belong to another scheduler.
port=$(python -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
export PYSCHEDULER_URL=https://localhost:$port
pyscheduler run --config profile.yaml --health-port 0 --secure-port "$port" --authentication-kubeconfig "$KUBECONFIG" \
  --authorization-kubeconfig "$KUBECONFIG" 2>"$work/replica-1.log" &
leader=$!
until grep -q 'Successfully acquired lease' "$work/replica-1.log"; do sleep 0.1; done
pyscheduler run --config profile.yaml --health-port 0 --secure-port 0 2>"$work/replica-2.log" &

python check.py wait
printf '\n# One look: why does it wait?\n'
python check.py explain
printf '\n# The story, from the leader\n'
python check.py story
printf '\n# Yesterday: the leader is killed, the logs of all replicas remain\n'
kill -9 "$leader"
cat "$work"/replica-*.log >"$work/logs.txt"
python check.py history "$work/logs.txt"

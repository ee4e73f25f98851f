"""`NamespaceUsage` is the sum over all pods of the snapshot, after any changes and in what-ifs."""

from __future__ import annotations

import random
from collections import Counter

from pyscheduler.framework.namespace_usage import NamespaceUsage
from pyscheduler.testing import FakeCluster
from tests.testing.quota_ports import PortBySnapshot


async def test_sums_follow_the_snapshot(cluster: FakeCluster) -> None:
    """Nodes and pods come and go, and pods are evicted in what-ifs; each sum is that of a plain loop."""
    rng = random.Random(7)
    framework = cluster.framework(enable=[PortBySnapshot])
    handle = framework.plugin("PortBySnapshot").handle
    usage = NamespaceUsage(handle)
    nodes: list[str] = []
    pods: list[tuple[str, str]] = []
    evicted = 0
    for step in range(120):
        kind = rng.random()
        if kind < 0.2 or not nodes:
            nodes.append(f"n{step}")
            cluster.add_node(nodes[-1], allocatable={"cpu": "99", "example.com/gpu": "200"})
        elif kind < 0.3:
            cluster.delete_node(nodes.pop(rng.randrange(len(nodes))))
        elif kind < 0.75 or not pods:
            namespace, name = rng.choice("abc"), f"p{step}"
            cluster.add_pod(
                name,
                namespace=namespace,
                node_name=rng.choice(nodes),
                requests={"cpu": f"{rng.randint(1, 900)}m", "example.com/gpu": str(rng.randint(0, 2))},
            )
            pods.append((name, namespace))
        else:
            name, namespace = pods.pop(rng.randrange(len(pods)))
            cluster.delete_pod(name, namespace=namespace)
        framework.nodes()
        check(usage, handle)
        if step % 3 == 0:
            with handle.snapshot.undo_at_end():
                for node in [*handle.snapshot.nodes]:
                    for info in [*node.pods][:2]:
                        handle.snapshot.evict(info, node.name)
                        evicted += 1
                check(usage, handle)
            check(usage, handle)
    assert evicted > 20


def check(usage: NamespaceUsage, handle: object) -> None:
    """Compare all sums with a plain loop."""
    cpu: Counter[str] = Counter()
    gpus: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for node in handle.snapshot.nodes:  # type: ignore[attr-defined]  # a handle
        for info in node.pods:
            cpu[info.pod.namespace] += info.requests.milli_cpu
            gpus[info.pod.namespace] += info.requests.get("example.com/gpu")
            counts[info.pod.namespace] += 1
    found = usage.by_namespace()
    assert set(found) == set(counts)
    for namespace, sums in found.items():
        assert (sums.milli_cpu, sums.get("example.com/gpu")) == (cpu[namespace], gpus[namespace])
        assert sums.allowed_pods == counts[namespace]
    assert usage.of("nowhere").milli_cpu == 0

"""Spreading as users meet it: pods placed by a whole scheduler."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pyscheduler.api import ReplicaSet, Service
from tests.plugins.pod_topology_spread.spreading import ZONE, constraint_of

if TYPE_CHECKING:
    from pyscheduler.testing import FakeCluster

SPREAD = {"topologySpreadConstraints": [constraint_of()]}


def zoned(cluster: FakeCluster, **nodes: str) -> None:
    """Add nodes by name, each in a zone."""
    for name, zone in nodes.items():
        cluster.add_node(name, labels={ZONE: zone}, allocatable={"cpu": "100"})


async def test_pods_are_spread_evenly(cluster: FakeCluster) -> None:
    """Nine pods over three zones of unequal size: three in each."""
    zoned(cluster, a1="a", a2="a", a3="a", b1="b", c1="c")
    framework = cluster.framework()
    results = [await framework.schedule(f"p{number}", labels={"app": "a"}, spec=SPREAD) for number in range(9)]
    assert Counter(result.node[0] for result in results) == {"a": 3, "b": 3, "c": 3}


async def test_a_pod_that_would_unbalance_waits_for_room_elsewhere(cluster: FakeCluster) -> None:
    """It says why; a node that comes to the emptier zone wakes it."""
    zoned(cluster, a1="a")
    cluster.add_node("b1", labels={ZONE: "b"}, unschedulable=True)
    framework = cluster.framework()
    assert (await framework.schedule("p0", labels={"app": "a"}, spec=SPREAD)).node == "a1"
    waiting = await framework.schedule("p1", labels={"app": "a"}, spec=SPREAD)
    assert waiting.state == "pending"
    assert "1 node(s) didn't match pod topology spread constraints" in waiting.message
    zoned(cluster, b2="b")
    await framework.settle()
    await cluster.clock.advance(30)
    assert framework.result("p1").node == "b2"


async def test_pods_of_a_service_are_spread_by_default(cluster: FakeCluster) -> None:
    """Services are read from the API server; the same pods without one may share a node."""
    zoned(cluster, a1="a", b1="b", c1="c", d1="d")
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": "default"},
        "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]},
    }
    cluster.add(body, Service)
    framework = cluster.framework()
    results = [await framework.schedule(f"p{number}", labels={"app": "a"}) for number in range(4)]
    assert {result.node for result in results} == {"a1", "b1", "c1", "d1"}


async def test_what_is_only_read_wakes_nobody(cluster: FakeCluster) -> None:
    """A replica set changes with each of its pods; no pod waits for it, so it is no event."""
    framework = cluster.framework()
    await framework.start()
    seen: list[str] = []
    move_all = framework.scheduler.queue.move_all
    framework.scheduler.queue.move_all = lambda event, *objects: (seen.append(event.label), move_all(event, *objects))
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "r", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template},
    }
    cluster.add(body, ReplicaSet)
    cluster.add_node("n1")
    await framework.settle()
    assert framework.plugin("PodTopologySpread").handle.lister(ReplicaSet).get("r", "default") is not None
    assert seen == ["NodeAdd"]


async def test_without_its_pre_filter_the_filter_says_what_it_misses(cluster: FakeCluster) -> None:
    """In kube-scheduler's words, whoever's pod it is: the profile is to blame."""
    zoned(cluster, a1="a")
    config = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: pyscheduler
    plugins:
      preFilter:
        disabled:
          - name: PodTopologySpread
"""
    result = await cluster.framework(config=config, allow_plugin_errors=True).schedule("p")
    text = 'running "PodTopologySpread" filter plugin: reading "PreFilterPodTopologySpread" from cycleState: not found'
    assert result.message == text

"""EvictSpot: who is evicted, and what protects a pod."""

from pyscheduler.api import PodDisruptionBudget
from pyscheduler.testing import check_plugin
from small_plugins.evict_spot import SPOT, EvictSpot


async def test_a_spot_pod_makes_room(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    for node, labels in (("n1", {}), ("n2", {SPOT: "yes"})):
        cluster.add_node(node, allocatable={"cpu": "2"})
        cluster.add_pod(f"on-{node}", node_name=node, requests={"cpu": "2"}, labels=labels)
    framework = cluster.framework(enable=[EvictSpot], disable=["DefaultPreemption"])

    await framework.schedule("p", requests={"cpu": "2"})
    assert [pod.name for pod in cluster.pods() if pod.is_terminating] == ["on-n2"]
    cluster.delete_pod("on-n2")  # the end of its grace period; there is no kubelet here
    await cluster.clock.advance(10)
    assert framework.result("p").node == "n2"


async def test_a_disruption_budget_protects_a_spot_pod(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    for node, app, priority in (("n1", "web", 1), ("n2", "batch", 2)):
        cluster.add_node(node, allocatable={"cpu": "2"})
        labels = {SPOT: "yes", "app": app}
        cluster.add_pod(app, node_name=node, requests={"cpu": "2"}, labels=labels, priority=priority)
    manifest = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    cluster.add({**manifest, "metadata": {"name": "web", "namespace": "default"}, "spec": spec}, PodDisruptionBudget)
    framework = cluster.framework(enable=[EvictSpot], disable=["DefaultPreemption"])

    await framework.schedule("p", requests={"cpu": "2"})
    # Without the budget, `web` would be the victim: its priority is lower.
    assert [pod.name for pod in cluster.pods() if pod.is_terminating] == ["batch"]


def test_evict_spot_keeps_the_contract():
    check_plugin(EvictSpot, disable=["DefaultPreemption"], histories=4)

"""Many objects and many changes: each costs little, and the loop turns between them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from pyscheduler.api import Node, Pod
from pyscheduler.testing import FakeCluster, pod_manifest
from tests.threats.attack import HOLD_SECONDS, add_nodes, assert_ordinary_pod_is_bound, plant, settled_holds

CONFIGS = Path(__file__).parents[2] / "configs"
SIGS = "scheduling.x-k8s.io"
KOORDINATOR = "scheduling.sigs.k8s.io"

#: Pods, or groups of pods, that wait.
MANY = min(50 * settings.default.max_examples, 1000)

pytestmark = pytest.mark.slow


async def test_a_long_callback_is_measured(cluster: FakeCluster) -> None:
    """A callback with much more CPU time than the limit is found, so the tests of this folder can fail."""

    def work() -> None:
        began = time.thread_time()
        while time.thread_time() - began <= 10 * HOLD_SECONDS:
            pass

    asyncio.get_running_loop().call_soon(work)
    assert (await settled_holds(cluster)).longest > HOLD_SECONDS


async def test_a_pod_that_is_updated_thousands_of_times(cluster: FakeCluster) -> None:
    """Updates of a waiting pod, in its labels and annotations, hold up nobody, and the pod stays in the queue."""
    add_nodes(cluster, 20)
    framework = cluster.framework()
    await framework.schedule("flood", node_selector={"nowhere": "x"})
    for field in ("labels", "annotations"):
        for number in range(2 * MANY):
            cluster.patch(Pod, "flood", {"metadata": {field: {"x": str(number)}}})
        assert (await settled_holds(cluster)).longest < HOLD_SECONDS
        await assert_ordinary_pod_is_bound(framework)
    assert framework.result("flood").state == "pending"
    assert len(framework.scheduler.queue) == 1


async def test_nodes_that_flap(cluster: FakeCluster) -> None:
    """Nodes that are cordoned, released, deleted and made anew, with 100 pods waiting, hold up nobody."""
    add_nodes(cluster, 20)
    framework = cluster.framework()
    await framework.start()
    plant(cluster, (pod_manifest(f"waits-{i}", node_selector={"nowhere": "x"}) for i in range(100)))
    await settled_holds(cluster)
    for number in range(2000):
        cluster.patch(Node, f"n{number % 20}", {"spec": {"unschedulable": number % 40 < 20}})
    assert (await settled_holds(cluster)).longest < HOLD_SECONDS
    for number in range(200):
        cluster.delete_node(f"n{number % 20}")
        add_nodes_again(cluster, number % 20)
    assert (await settled_holds(cluster)).longest < HOLD_SECONDS
    assert framework.scheduler.cache.node_count == 20
    await assert_ordinary_pod_is_bound(framework)


def add_nodes_again(cluster: FakeCluster, number: int) -> None:
    """Make a deleted node anew."""
    cluster.add_node(f"n{number}", allocatable={"cpu": "64", "memory": "64Gi", "pods": "500"})


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"nodeSelector": {"nowhere": "x"}}, id="node selector"),
        pytest.param({"containers": [{"name": "c", "resources": {"requests": {"cpu": "900"}}}]}, id="cpu"),
        pytest.param(
            {
                "affinity": {
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "nobody"}}}
                        ]
                    }
                }
            },
            id="pod affinity",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]}, id="missing volume claim"
        ),
        pytest.param({"resourceClaims": [{"name": "c", "resourceClaimName": "missing"}]}, id="missing resource claim"),
        pytest.param({"schedulingGates": [{"name": "never"}]}, id="scheduling gate"),
    ],
)
async def test_many_pods_that_fit_nowhere(cluster: FakeCluster, spec: dict[str, Any]) -> None:
    """They wait; an event about a node or a pod is compared with all of them in one short turn."""
    add_nodes(cluster, 20)
    framework = cluster.framework()
    await assert_ordinary_pod_is_bound(framework)
    plant(cluster, (pod_manifest(f"waits-{i}", spec=spec) for i in range(MANY)))
    assert (await settled_holds(cluster)).longest < HOLD_SECONDS
    assert len(framework.scheduler.queue) == MANY
    cluster.patch(Node, "n0", {"metadata": {"labels": {"x": "1"}}})
    cluster.patch(Node, "n1", {"status": {"allocatable": {"cpu": "65"}}}, status=True)
    add_nodes_again(cluster, 20)
    assert (await settled_holds(cluster)).longest < MANY * 150e-6  # three events in one turn
    await assert_ordinary_pod_is_bound(framework)


def pod_group(group: str, number: int) -> dict[str, Any]:
    """Return a PodGroup that needs two members."""
    metadata = {"name": f"g{number}", "namespace": "default"}
    return {"apiVersion": f"{group}/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": 2}}


@pytest.mark.parametrize(
    ("config", "scheduler_name", "group", "label"),
    [
        pytest.param("coscheduling", "pyscheduler-coscheduling", SIGS, f"{SIGS}/pod-group", id="Coscheduling"),
        pytest.param("gang", "pyscheduler-gang", KOORDINATOR, f"pod-group.{KOORDINATOR}", id="Gang"),
    ],
)
async def test_many_pod_groups(cluster: FakeCluster, config: str, scheduler_name: str, group: str, label: str) -> None:
    """Groups without pods, and then with one pod each of the two they need, hold up no pod without a group."""
    cluster.server.load((CONFIGS / "crds" / f"podgroups.{group}.yaml").read_text(encoding="utf-8"))
    add_nodes(cluster, 20)
    framework = cluster.framework(config=(CONFIGS / f"{config}.yaml").read_text(encoding="utf-8"))
    await framework.start()
    plant(cluster, (pod_group(group, i) for i in range(MANY)))
    assert (await settled_holds(cluster)).longest < HOLD_SECONDS
    await assert_ordinary_pod_is_bound(framework, scheduler_name=scheduler_name)
    members = (pod_manifest(f"waits-{i}", scheduler_name=scheduler_name, labels={label: f"g{i}"}) for i in range(MANY))
    plant(cluster, members)
    assert (await settled_holds(cluster, seconds=30)).longest < HOLD_SECONDS
    assert not any(pod.node_name for pod in cluster.pods() if pod.name.startswith("waits"))
    await assert_ordinary_pod_is_bound(framework, scheduler_name=scheduler_name)


async def test_a_pod_that_names_a_group_in_every_dialect(cluster: FakeCluster) -> None:
    """A pod cannot complete the group of another dialect with the same name: it belongs to one group."""
    for group in (SIGS, KOORDINATOR):
        cluster.server.load((CONFIGS / "crds" / f"podgroups.{group}.yaml").read_text(encoding="utf-8"))
        plant(cluster, [pod_group(group, 0)])
    add_nodes(cluster, 5)
    framework = cluster.framework(config=(CONFIGS / "coscheduling.yaml").read_text(encoding="utf-8"))
    await framework.start()
    both = {f"{SIGS}/pod-group": "g0", f"pod-group.{KOORDINATOR}": "g0"}
    for name, labels in (("hostile", both), ("member", {f"pod-group.{KOORDINATOR}": "g0"})):
        cluster.add_pod(name, scheduler_name="pyscheduler-coscheduling", labels=labels)
    await settled_holds(cluster, seconds=5)
    assert framework.result("hostile").state != "bound"
    cluster.add_pod("second", scheduler_name="pyscheduler-coscheduling", labels={f"{SIGS}/pod-group": "g0"})
    await settled_holds(cluster, seconds=30)
    states = {name: framework.result(name).state for name in ("hostile", "second", "member")}
    assert states["hostile"] == states["second"] == "bound"
    await assert_ordinary_pod_is_bound(framework, scheduler_name="pyscheduler-coscheduling")

"""What is read when somebody scrapes: what plugins were asked, what runs beside, and what a flush brought back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar

from prometheus_client.parser import text_string_to_metric_families

from pyscheduler import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EventResource,
    FilterPlugin,
    NodeInfo,
    Pod,
    Status,
)
from pyscheduler.api import CSIDriver, PersistentVolume
from tests.scheduler.measured import Measured
from tests.scheduler.plugins import Holder

if TYPE_CHECKING:
    import pytest

    from pyscheduler.testing import FakeCluster


class Deaf(FilterPlugin):
    """Refuses a pod labelled `late` at first, and registers no event that could change its mind."""

    is_early: ClassVar[bool] = True

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.DELETE))]

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return Status.unschedulable("not yet") if "late" in pod.labels and self.is_early else None


async def test_plugin_evaluations_are_counted(cluster: FakeCluster) -> None:
    """Filter counts the nodes that nobody before had refused, Score the feasible ones, and a skip does not count."""
    for number in range(4):
        cluster.add_node(f"n{number}", unschedulable=number == 0, allocatable={"cpu": "1" if number == 1 else "8"})
    measured = Measured(cluster, Holder, Deaf)
    await measured.start()
    cluster.add_pod("p", requests={"cpu": "2"})
    await cluster.clock.advance(0)
    assert cluster.pod("p").node_name in {"n2", "n3"}
    found = measured.scheduler.profiles["pyscheduler"].evaluations()
    assert found["NodeUnschedulable", "Filter"] == 4
    assert found["NodeResourcesFit", "Filter"] == 3
    assert found["NodeResourcesFit", "PreFilter"] == 1
    assert found["NodeResourcesFit", "Score"] == 2
    assert (found["NodePorts", "PreFilter"], found["NodePorts", "Filter"]) == (0, 0)
    shown = measured.values("scheduler_plugin_evaluation_total", by="plugin")
    assert shown["NodeUnschedulable"] == 4
    assert shown["VolumeZone"] == 0
    await measured.stop()


async def test_tasks_beside_the_cycle_are_counted(cluster: FakeCluster) -> None:
    """Bindings under way are counted as kube-scheduler's binding goroutines are; tasks of plugins by their name."""
    cluster.add_node("n1")
    measured = Measured(cluster, Holder, Deaf)
    await measured.start()
    cluster.add_pod("held", labels={"hold": "yes"})
    await cluster.clock.advance(0)
    profile = measured.scheduler.profiles["pyscheduler"]
    task = profile.handle.spawn(asyncio.Event().wait(), name="Evictor default/victim")  # type: ignore[arg-type] - never done
    shown = measured.values("scheduler_goroutines", by="operation")
    assert {name: count for name, count in shown.items() if count} == {"binding": 1, "Evictor": 1}
    assert set(shown) == {
        "binding",
        "Filter",
        "Score",
        "DefaultPreemption",
        "InterPodAffinity",
        "PodTopologySpread",
        "Evictor",
    }
    task.cancel()
    await cluster.clock.advance(0)
    assert "Evictor" not in measured.values("scheduler_goroutines", by="operation")
    assert measured.values("scheduler_unschedulable_pods", by="plugin") == {}
    await measured.stop()


async def test_pods_scheduled_after_a_flush_are_counted(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hint that says too little shows here: the pod is bound, but no event had brought it back."""
    cluster.add_node("n1")
    measured = Measured(cluster, Holder, Deaf)
    await measured.start()
    cluster.add_pod("late", labels={"late": "yes"})
    cluster.add_pod("prompt")
    await cluster.clock.advance(0)
    assert (cluster.pod("late").node_name, cluster.pod("prompt").node_name) == ("", "n1")
    assert measured.values("scheduler_unschedulable_pods", by="plugin") == {"Deaf": 1.0}
    assert measured.values("scheduler_pod_scheduled_after_flush_total", by="none") == {"": 0.0}
    monkeypatch.setattr(Deaf, "is_early", False)
    await cluster.clock.advance(100)
    assert cluster.pod("late").node_name == "n1"
    assert measured.values("scheduler_pod_scheduled_after_flush_total", by="none") == {"": 1.0}
    assert measured.values("scheduler_unschedulable_pods", by="plugin") == {"Deaf": 0.0}
    await measured.stop()


async def test_only_registered_events_are_announced(cluster: FakeCluster) -> None:
    """Of drivers plugins want updates, of volumes no deletions; what nobody registered is not looked at or measured."""
    measured = Measured(cluster, Deaf)
    await measured.start()
    driver: dict[str, Any] = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "d"}}
    cluster.add({**driver, "spec": {"storageCapacity": False}}, CSIDriver)
    cluster.patch(CSIDriver, "d", {"spec": {"storageCapacity": True}}, namespace="")
    cluster.delete(CSIDriver, "d", namespace="")
    cluster.add({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}}, PersistentVolume)
    cluster.delete(PersistentVolume, "v", namespace="")
    await cluster.clock.advance(0)
    shown = measured.values("scheduler_event_handling_duration_seconds_count", by="event")
    assert {name: count for name, count in shown.items() if count} == {
        "NamespaceAdd": len(cluster.server.objects("v1", "Namespace")),  # those that were there; InterPodAffinity
        "storage.k8s.io/CSIDriverUpdate": 1,
        "PersistentVolumeAdd": 1,
    }
    await measured.stop()


async def test_a_gate_is_no_failure_of_pre_enqueue(cluster: FakeCluster) -> None:
    """As with kube-scheduler, runs of PreEnqueue all count as successes; where the pod is says that it is gated."""
    measured = Measured(cluster, Deaf)
    await measured.start()
    cluster.add_pod("gated", scheduling_gates=["later"])
    await cluster.clock.advance(0)
    assert measured.values("scheduler_pending_pods", by="queue")["gated"] == 1
    text = measured.metrics.render()[0].decode()
    shown = {
        (sample.labels["status"], sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "scheduler_framework_extension_point_duration_seconds_count"
        and sample.labels["extension_point"] == "PreEnqueue"
    }
    assert shown == {("Success", 1.0)}
    await measured.stop()

"""What informers' events do to cache and queue, whatever order they come in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kube_testserver.serving.faults import Fault
from pyscheduler import Pod
from pyscheduler.queue.sub_queues import QueuePlace
from pyscheduler.testing import make_pod, pod_manifest
from tests.malformed import bad_pod_manifest
from tests.scheduler.plugins import Holder

if TYPE_CHECKING:
    from pyscheduler.testing import FakeCluster, FakeFramework

_BAD_TERM: dict[str, Any] = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Perhaps"}]}}
        ]
    }
}


def plant(cluster: FakeCluster, name: str, **keywords: Any) -> None:
    """Store a pod that no API server would let in, or put it in the place of one that is there."""
    manifest = bad_pod_manifest(name, keywords.pop("requests", {}), **keywords)
    manifest["metadata"]["uid"] = f"uid-{name}"
    server = cluster.server
    collection = server.registry.collection(server.resource_of(manifest))
    record = collection.get(f"default/{name}")
    if record is None:
        server.plant(manifest)
    else:
        collection.replace(record, manifest)


async def started(cluster: FakeCluster, **keywords: Any) -> FakeFramework:
    """Return a framework that watches."""
    framework = cluster.framework(**keywords)
    await framework.start()
    return framework


async def test_an_unreadable_pod_gets_one_event(cluster: FakeCluster) -> None:
    """It is in no queue, and an event says why. Once it can be read it is scheduled."""
    cluster.add_node("n1")
    framework = await started(cluster)
    plant(cluster, "p", requests={"cpu": "a lot"})
    await framework.settle()
    message = "the pod cannot be read: quantity 'a lot' is malformed; write it like 500m, 2, 1.5Gi or 1e3"
    plant(cluster, "p", requests={"cpu": "a lot"}, labels={"a": "b"})
    await framework.settle()
    assert [event["note"] for event in cluster.events("FailedScheduling")] == [message]
    assert framework.scheduler.queue.place_of("uid-p") is None
    plant(cluster, "p", requests={"cpu": "1"})
    await framework.settle()
    assert framework.result("p").bound
    assert not framework.scheduler.handlers.unreadable_pods


async def test_a_gate_that_goes_while_the_pod_cannot_be_read_opens(cluster: FakeCluster) -> None:
    """The queue is told what changed since the version it has."""
    cluster.add_node("n1")
    framework = await started(cluster)
    plant(cluster, "p", requests={"cpu": "1"}, scheduling_gates=["later"])
    await framework.settle()
    assert framework.result("p").state == "gated"
    for amount in ("a lot", "2"):
        plant(cluster, "p", requests={"cpu": amount})
        await framework.settle()
    assert framework.result("p").bound


async def test_the_readable_part_of_a_pod_on_a_node_counts(cluster: FakeCluster) -> None:
    """Selectors and amounts that do not parse do not make its node look empty: all else is counted."""
    cluster.add_node("n1", allocatable={"cpu": "4"})
    framework = await started(cluster)
    plant(cluster, "a", requests={"cpu": "3"}, node_name="n1", affinity=_BAD_TERM)
    assert not (await framework.schedule("p", requests={"cpu": "2"})).bound
    cluster.delete_pod("a")
    plant(cluster, "b", requests={"cpu": "3", "memory": "a lot"}, node_name="n1", host_ports=[80], affinity=_BAD_TERM)
    await framework.settle()
    known = framework.scheduler.cache.get_pod("uid-b")
    assert known is not None
    assert (known.requests.milli_cpu, known.requests.memory, len(known.host_ports)) == (3000, 0, 1)
    assert not (await framework.schedule("beside", requests={"cpu": "2"})).bound
    plant(cluster, "b", requests={"cpu": "3"}, node_name="n1")
    await framework.settle()
    assert framework.scheduler.cache.get_pod("uid-b") is not None
    plant(cluster, "b", requests={"cpu": "a lot"}, node_name="n1")
    await framework.settle()
    known = framework.scheduler.cache.get_pod("uid-b")
    assert known is not None
    assert known.requests.milli_cpu == 3000
    cluster.delete_pod("b")
    await framework.settle()
    assert framework.scheduler.cache.get_pod("uid-b") is None


async def test_a_pod_may_be_known_before_its_node(cluster: FakeCluster) -> None:
    """What runs on a node that nobody has announced yet is counted when the node comes."""
    framework = await started(cluster)
    cluster.add_pod("early", requests={"cpu": "3"}, node_name="n1")
    await framework.settle()
    cluster.add_node("n1", allocatable={"cpu": "4"})
    assert not (await framework.schedule("p", requests={"cpu": "2"})).bound
    assert (await framework.schedule("q", requests={"cpu": "1"})).bound


async def test_the_same_pod_added_twice_is_one_pod(cluster: FakeCluster) -> None:
    """Handlers may be told again what they know, in each place a pod can be."""
    cluster.add_node("n1")
    framework = await started(cluster, enable=[Holder])
    handlers = framework.scheduler.handlers
    states = {
        "bound": await framework.schedule("bound"),
        "held": await framework.schedule("held", labels={"hold": "yes"}),
        "waits": await framework.schedule("waits", requests={"cpu": "100"}),
    }
    for result in states.values():
        handlers.add_pod(result.pod)
        handlers.update_pod(result.pod, result.pod)
    await framework.settle()
    framework.assert_invariants()
    assert len(framework.scheduler.queue) == 1
    assert framework.scheduler.cache.pod_count == 2


async def test_a_lower_priority_gets_the_room_of_a_nomination_that_ends(cluster: FakeCluster) -> None:
    """Deleting a nominated pod, or nominating it elsewhere, wakes pods that had to leave room, and no others."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    status = {"nominatedNodeName": "n1"}
    plant(cluster, "first", requests={"cpu": "2"}, priority=10, node_selector={"not": "here"}, status=status)
    # Preemption would find that it cannot help the first, and take its nomination back.
    framework = await started(cluster, disable=["DefaultPreemption"])
    low = await framework.schedule("low", requests={"cpu": "2"}, priority=5)
    high = await framework.schedule("high", requests={"cpu": "20"}, priority=50)
    assert (low.state, high.state) == ("pending", "pending")
    cluster.delete_pod("first")
    await framework.settle()
    assert framework.scheduler.queue.place_of(high.pod.uid) is QueuePlace.UNSCHEDULABLE
    await cluster.clock.advance(2)
    assert framework.result("low").bound


async def test_a_pod_that_is_being_deleted_is_not_tried(cluster: FakeCluster) -> None:
    """Its user is told, and it leaves the queue."""
    framework = await started(cluster)
    await framework.schedule("p")
    manifest = pod_manifest("q")
    manifest["metadata"] |= {"uid": "uid-q", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    cluster.server.plant(manifest)
    await framework.settle()
    notes = [event["note"] for event in cluster.events("FailedScheduling") if event["regarding"]["name"] == "q"]
    assert notes == ["skip schedule deleting pod: default/q"]
    assert framework.scheduler.queue.place_of("uid-q") is None


async def test_a_pod_that_changed_at_permit_is_tried_again_when_it_is_rejected(cluster: FakeCluster) -> None:
    """What changed about it may be what the plugin rejected it for, and comes no second time."""
    cluster.add_node("n1")
    framework = await started(cluster, enable=[Holder])
    await framework.schedule("p", labels={"hold": "yes"})
    cluster.patch(Pod, "p", {"metadata": {"labels": {"hold": None}}})
    await framework.settle()
    (waiting,) = framework.profile.handle.waiting_pods()
    waiting.reject("Holder", "not like this")
    await cluster.clock.advance(3)
    assert framework.result("p").bound


async def test_a_pod_that_changes_during_its_binding_is_not_queued(cluster: FakeCluster) -> None:
    """It is assumed, and will not come back."""
    cluster.add_node("n1")
    cluster.server.faults.add(Fault(path=r"/pods/p/binding$", delay_seconds=5, times=1))
    framework = await started(cluster)
    await framework.schedule("p")
    cluster.patch(Pod, "p", {"metadata": {"labels": {"a": "b"}}})
    await framework.settle()
    assert framework.scheduler.queue.place_of(cluster.pod("p").uid) is None
    await cluster.clock.advance(6)
    assert framework.result("p").bound


async def test_a_recreated_pod_is_another_pod(cluster: FakeCluster) -> None:
    """A relist can show a deleted pod and a new pod of its name as one update: the new pod has no past."""
    framework = await started(cluster)
    result = await framework.schedule("p", requests={"cpu": "64"})
    handlers, queue = framework.scheduler.handlers, framework.scheduler.queue
    new = make_pod("p", uid="new", requests={"cpu": "64"}, resource_version="1000")
    handlers.update_pod(result.pod, new)
    assert queue.place_of(result.pod.uid) is None
    queued = queue.get("new")
    assert queued is not None
    assert (queued.pod, queued.attempts) == (new, 0)
    handlers.delete_pod(new)

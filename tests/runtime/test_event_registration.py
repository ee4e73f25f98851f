"""What plugins wait for."""

from __future__ import annotations

from collections.abc import Sequence
from types import new_class
from typing import Any

import pytest

from pyscheduler.api import KubeObject, Pod, kind_of
from pyscheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    NodeInfo,
    QueueingHint,
    ScorePlugin,
    Status,
    event_resource,
)
from pyscheduler.runtime.extension_points.event_registration import (
    EXTENDER,
    registrations_of,
    with_extenders,
)
from pyscheduler.testing import FakeCluster

NODE_ADD = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_TAINT = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
POD_DELETE = ClusterEvent(EventResource.POD, ActionType.DELETE)


def hint(pod: Pod, old: object | None, new: object | None, /) -> QueueingHint:
    """Answer."""
    return QueueingHint.SKIP


class Silent(FilterPlugin):
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None


class Waiting(Silent, EnqueueExtensions):
    events: Sequence[ClusterEventWithHint] = ()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return self.events


class Scorer(ScorePlugin, EnqueueExtensions):
    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 0

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        raise AssertionError("nobody is rejected by a score")


def waiting(*events: ClusterEventWithHint) -> Waiting:
    """Make a plugin that registers these."""
    plugin = Waiting()
    plugin.events = events
    return plugin


def test_a_plugin_that_does_not_say_waits_for_anything() -> None:
    """Every kind that scheduling looks at is registered, with every action and no hint."""
    registered = registrations_of(Silent())
    assert {each.event.resource for each in registered} == {
        "Pod",
        "Node",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "storage.k8s.io/CSINode",
        "storage.k8s.io/CSIDriver",
        "storage.k8s.io/CSIStorageCapacity",
        "storage.k8s.io/StorageClass",
        "resource.k8s.io/ResourceClaim",
        "resource.k8s.io/DeviceClass",
    }
    assert {each.event.action for each in registered} == {ActionType.ALL}
    assert {each.queueing_hint for each in registered} == {None}


def test_with_generic_workload_pod_groups_are_among_anything() -> None:
    """A group that comes may be what a pod lacks; without the gate the API server need not know the kind."""
    more = {each.event.resource for each in registrations_of(Silent(), generic_workload=True)}
    assert more - {each.event.resource for each in registrations_of(Silent())} == {"scheduling.k8s.io/PodGroup"}
    assert {each.event for each in with_extenders({}, generic_workload=True)[EXTENDER]} == {
        each.event for each in registrations_of(Silent(), generic_workload=True)
    }


@pytest.mark.parametrize("gate", ["true", "false"])
async def test_the_gate_is_asked_when_a_profile_is_built(cluster: FakeCluster, gate: str) -> None:
    """What a plugin that does not say waits for is what the scheduler's gates make of it."""
    framework = cluster.framework(enable=[Silent], feature_gates=f"GenericWorkload={gate}")
    waited_for = {event.resource for event in framework.profile.registered_events()["Silent"]}
    assert ("scheduling.k8s.io/PodGroup" in waited_for) is (gate == "true")


def test_the_method_alone_registers() -> None:
    """A plugin that defines `events_to_register` means it, though `EnqueueExtensions` is not among its bases."""

    class Plain(FilterPlugin):
        def events_to_register(self) -> list[ClusterEventWithHint]:
            return [ClusterEventWithHint(POD_DELETE)]

    assert list(registrations_of(Plain())) == [ClusterEventWithHint(POD_DELETE)]


def test_a_plugin_that_rejects_nobody_waits_for_nothing() -> None:
    """Registrations of a plugin that only scores mean nothing, so it is not asked."""
    assert registrations_of(Scorer()) == ()


def test_a_plugin_may_wait_for_nothing() -> None:
    """An empty registration is honoured: only a change of the pod itself helps."""
    assert list(registrations_of(waiting())) == []


def test_waiting_for_nodes_means_waiting_for_their_taints() -> None:
    """A new node is not announced while it is tainted, so a change of taints stands in for it, without a hint."""
    added = ClusterEventWithHint(NODE_ADD, hint)
    assert list(registrations_of(waiting(added))) == [added, ClusterEventWithHint(NODE_TAINT)]


def test_who_waits_for_taints_anyway_keeps_the_own_hint() -> None:
    """Nothing is added where the plugin registered taints itself."""
    both = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT)
    registered = [ClusterEventWithHint(both, hint)]
    assert list(registrations_of(waiting(*registered))) == registered


@pytest.mark.parametrize(
    ("api_version", "kind", "plural", "name"),
    [
        pytest.param("resource.k8s.io/v1", "DeviceClass", "deviceclasses", "resource.k8s.io/DeviceClass", id="DRA"),
        pytest.param("scheduling.k8s.io/v1alpha2", "PodGroup", "podgroups", "scheduling.k8s.io/PodGroup", id="groups"),
        pytest.param("resource.k8s.io/v1", "Other", "others", "others.v1.resource.k8s.io", id="no event of its own"),
        pytest.param("example.com/v1", "Foo", "foos", "foos.v1.example.com", id="custom"),
    ],
)
def test_kinds_are_called_in_events_as_by_kube_scheduler(api_version: str, kind: str, plural: str, name: str) -> None:
    """A plugin that watches a kind of its own making hears of it under kube-scheduler's name, where that has one."""
    cls = new_class(kind, (KubeObject,), {}, lambda body: body.update({"api_version": api_version, "kind": kind}))
    assert event_resource(kind_of(cls, plural)) == name


def test_a_profile_tells_its_hints(kit: Any) -> None:
    """Hints and events of a profile are those of its plugins."""

    class Zoned(Waiting):
        events = (ClusterEventWithHint(POD_DELETE, hint),)

    profile = kit.profile(Zoned)
    assert profile.hints() == {POD_DELETE: [("Zoned", hint)]}
    assert profile.registered_events()["Zoned"] == (POD_DELETE,)

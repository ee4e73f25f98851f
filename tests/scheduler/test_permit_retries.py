"""A pod whose wait at Permit ended: what brings it back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pyscheduler.api import Pod
from pyscheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    PermitPlugin,
    Status,
)
from pyscheduler.testing import FakeCluster


class Patient(PermitPlugin, EnqueueExtensions):
    """Waits two seconds for a permission that never comes; any deletion of a pod helps."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type] # passes on what it got
        self.attempts: list[str] = []

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [ClusterEventWithHint(ClusterEvent(EventResource.POD, ActionType.DELETE))]

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.attempts.append(pod.name)
        return Status.wait("for a permission", timeout=2)


@pytest.mark.parametrize("ends_by", ["timeout", "rejection"])
async def test_a_pod_is_not_woken_by_the_end_of_its_own_nomination(cluster: FakeCluster, ends_by: str) -> None:
    """A pod whose wait at Permit ended waits for a deletion of another pod; its own nomination does not wake it."""
    cluster.add_node("n1")
    cluster.add_pod("other", node_name="n1")
    framework = cluster.framework(enable=[Patient])
    plugin = framework.plugin("Patient")
    assert isinstance(plugin, Patient)
    await framework.schedule("p")
    await cluster.clock.advance(1)
    assert cluster.pod("p").status.nominated_node_name == "n1"
    if ends_by == "rejection":
        assert framework.scheduler.waiting_pods.reject(cluster.pod("p").uid, plugin="Patient", reason="no")
    await cluster.clock.advance(60)
    assert not cluster.pod("p").status.nominated_node_name
    assert plugin.attempts == ["p"]

    cluster.delete_pod("other")
    await cluster.clock.advance(1)
    assert plugin.attempts == ["p", "p"]


class Misnames(PermitPlugin):
    """Lets a pod wait, and calls itself by another name later."""

    name = "PermitPairs"

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return Status.wait(timeout=600)


async def test_a_wrong_name_at_permit_is_refused(cluster: FakeCluster) -> None:
    """`allow` and `reject` with a name that no plugin has raise an error that shows the right one."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Misnames])
    result = await framework.schedule("p")
    handle = framework.profile.handle
    waiting = handle.get_waiting_pod(result.pod.uid)
    assert waiting is not None
    message = r'no plugin is called "PermitPair", did you mean "PermitPairs"\? \(pods wait for PermitPairs\)'
    with pytest.raises(ValueError, match=message):
        waiting.allow("PermitPair")
    with pytest.raises(ValueError, match=message):
        waiting.reject("PermitPair", "no")
    with pytest.raises(ValueError, match=message):
        handle.reject_waiting_pod(result.pod.uid, plugin="PermitPair")
    assert framework.result("p").state == "waiting"
    # A plugin that does not hold the pod has no say, as in kube-scheduler.
    waiting.allow("NodeAffinity")
    assert framework.result("p").state == "waiting"
    waiting.allow("PermitPairs")
    await framework.settle()
    assert framework.result("p").bound

"""SchedulingGates: gates hold a pod back."""

from __future__ import annotations

import pytest

from pyscheduler.api import ObjectMeta, Pod, PodSchedulingGate, PodSpec
from pyscheduler.framework import Code, QueueingHint
from pyscheduler.plugins.scheduling_gates import SchedulingGates


def gated(*gates: str, uid: str = "u") -> Pod:
    """Make a pod with gates."""
    spec = PodSpec(scheduling_gates=tuple(PodSchedulingGate(name=gate) for gate in gates))
    return Pod(metadata=ObjectMeta(name="p", uid=uid), spec=spec)


def test_a_pod_without_gates_enters() -> None:
    """Nothing holds an ordinary pod back."""
    assert SchedulingGates().pre_enqueue(gated()) is None


@pytest.mark.parametrize(
    ("gates", "shown"),
    [pytest.param(["a"], "[a]", id="one"), pytest.param(["b", "a"], "[b a]", id="several, in the pod's order")],
)
def test_gates_hold_a_pod_back(gates: list[str], shown: str) -> None:
    """The message lists the gates as kube-scheduler prints them."""
    status = SchedulingGates().pre_enqueue(gated(*gates))
    assert status is not None
    assert (status.code, status.reasons) == (
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        (f"waiting for scheduling gates: {shown}",),
    )


@pytest.mark.parametrize(
    ("uid", "expected"),
    [
        pytest.param("u", QueueingHint.QUEUE, id="the pod itself"),
        pytest.param("other", QueueingHint.SKIP, id="another pod"),
    ],
)
def test_the_pod_whose_gates_went_is_queued(uid: str, expected: QueueingHint) -> None:
    """The event of another pod's gates does not wake this one."""
    plugin = SchedulingGates()
    (registration,) = plugin.events_to_register()
    assert registration.event.label == "PodUpdatePodSchedulingGatesEliminated"
    assert plugin.after_gates_removed(gated("a"), gated("a", uid=uid), gated(uid=uid)) is expected

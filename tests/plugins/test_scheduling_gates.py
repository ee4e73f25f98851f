"""SchedulingGates: gates hold a pod back."""

from __future__ import annotations

import pytest

from pyscheduler.api import ObjectMeta, Pod, PodSchedulingGate, PodSpec
from pyscheduler.framework import QueueingHint
from pyscheduler.plugins.scheduling_gates import SchedulingGates


def gated(*gates: str, uid: str = "u") -> Pod:
    """Make a pod with gates."""
    spec = PodSpec(scheduling_gates=tuple(PodSchedulingGate(name=gate) for gate in gates))
    return Pod(metadata=ObjectMeta(name="p", uid=uid), spec=spec)


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

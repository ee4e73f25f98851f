"""Signatures of pods."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import Pod
from pyscheduler.framework import CycleState, FilterPlugin, NodeInfo, Plugin, SignFragment, SignPlugin, Status
from pyscheduler.testing.builders import make_pod


def signer(name: str, answer: Any) -> type[Plugin]:
    """Make a Filter plugin that signs; a function answers about the pod."""

    class Made(FilterPlugin, SignPlugin):
        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
            return None

        def sign_pod(self, pod: Pod) -> Any:
            return answer(pod) if callable(answer) else answer

    Made.name = name
    return Made


class Mute(FilterPlugin):
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None


def by_priority(pod: Pod) -> list[SignFragment]:
    """Sign the priority."""
    return [SignFragment("priority", pod.priority)]


def test_pods_that_differ_in_nothing_that_matters_have_one_signature(kit: Any) -> None:
    """Signatures are equal, and hashable, exactly where all fragments are; the profile is one of them."""
    profile = kit.profile(signer("A", by_priority), signer("B", [SignFragment("constant", (1, 2))]))
    one, same, other = (make_pod(name, priority=priority) for name, priority in [("a", 1), ("b", 1), ("c", 2)])
    assert profile.sign_pod(one) == profile.sign_pod(same)
    assert profile.sign_pod(one) != profile.sign_pod(other)
    assert profile.sign_pod(one) != profile.sign_pod(make_pod("d", priority=1, scheduler_name="other"))
    assert len({profile.sign_pod(one), profile.sign_pod(same)}) == 1


def test_one_plugin_that_cannot_sign_spoils_it(kit: Any) -> None:
    """Where a plugin's results depend on what nobody says, no two pods are alike."""
    assert kit.profile(signer("A", by_priority), Mute).sign_pod(make_pod("p")) is None


@pytest.mark.parametrize(
    ("answer", "counted"),
    [
        pytest.param(Status.unschedulable("has volumes"), 0, id="refused for this pod"),
        pytest.param([SignFragment("labels", {"a": "b"})], 1, id="a value that cannot be compared quickly"),
        pytest.param([("labels", 1)], 1, id="no fragment"),
        pytest.param(None, 1, id="nothing"),
        pytest.param(lambda _: 1 // 0, 1, id="an exception"),
    ],
)
def test_a_pod_without_signature_costs_only_speed(kit: Any, answer: Any, counted: int) -> None:
    """A refusal is normal; a mistake of the plugin is counted; neither fails anything."""
    assert kit.profile(signer("A", answer)).sign_pod(make_pod("p")) is None
    assert kit.recorder.warnings["plugin_error"] == counted

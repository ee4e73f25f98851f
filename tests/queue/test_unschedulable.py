"""Unschedulable pods: filed by what can concern them, and timed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyscheduler.framework import QueuedPodInfo
from pyscheduler.queue.hints import UNSCHEDULABLE_TIMEOUT
from pyscheduler.queue.unschedulable import RejectionGroup, UnschedulablePods

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.queue.conftest import Kit


@pytest.fixture
def pool(kit: Kit) -> UnschedulablePods:
    """Make an empty pool that keeps pods for five minutes."""
    return UnschedulablePods(clock=kit.clock, recorder=kit.recorder, max_seconds=300)


@pytest.fixture
def queued(kit: Kit) -> Callable[..., QueuedPodInfo]:
    """Make rejected pods."""

    def make(name: str, *plugins: str, gate: str = "", at: float = 1000.0, **fields: object) -> QueuedPodInfo:
        return QueuedPodInfo(
            pod_info=kit.info(kit.pod(name, **fields)),
            enqueued_at=at,
            unschedulable_plugins={*plugins, gate} - {""},
            gating_plugin=gate,
            gating_plugin_events=(kit.NODE_ADD,) if gate else (),
        )

    return make


def names(infos: list[QueuedPodInfo]) -> list[str]:
    """Name pods."""
    return [info.pod.name for info in infos]


def test_check_invariants_finds_a_pod_in_the_wrong_group(
    pool: UnschedulablePods, queued: Callable[..., QueuedPodInfo]
) -> None:
    """The check names a pod that an event could miss."""
    info = queued("p", "A")
    pool.put(info, "test")
    info.unschedulable_plugins = {"B"}
    with pytest.raises(AssertionError, match="pod default/p is in the wrong group"):
        pool.check_invariants()
    pool.put(info, "test")
    pool.check_invariants()


def test_a_gate_lets_only_its_own_events_through(
    pool: UnschedulablePods, queued: Callable[..., QueuedPodInfo], kit: Kit
) -> None:
    """Pods that are not gated are open to every event."""
    pool.put(queued("free", "A"), "test")
    pool.put(queued("gated", gate="G"), "test")

    def let_through(event: object) -> list[str]:
        return names(pool.select(lambda group: group.lets_through(event)))

    assert let_through(kit.NODE_ADD) == ["free", "gated"]
    assert let_through(kit.PV_ADD) == ["free"]
    assert let_through(UNSCHEDULABLE_TIMEOUT) == ["free"]


def test_overdue_means_longer_than_the_maximum(pool: UnschedulablePods, queued: Callable[..., QueuedPodInfo]) -> None:
    """Exactly the maximum is not too long yet, and a gated pod is never overdue."""
    pool.put(queued("old", "A", at=1000.0), "test")
    pool.put(queued("gated", gate="G", at=1000.0), "test")
    pool.put(queued("young", "A", at=1000.5), "test")
    assert names(pool.overdue(1300.0)) == []
    assert names(pool.overdue(1300.25)) == ["old"]
    assert names(pool.overdue(1301.0)) == ["old", "young"]


def test_the_timer_is_set_for_the_oldest_pod(
    pool: UnschedulablePods, queued: Callable[..., QueuedPodInfo], kit: Kit
) -> None:
    """Half-minutes count from the start; a pool of gated pods alone waits for no time at all."""
    pool.start(lambda _: None)
    pool.put(queued("gated", gate="G", at=1.0), "test")
    assert kit.clock.pending == []
    pool.put(queued("young", "A", at=1050.0), "test")
    assert kit.clock.pending == [1360.0]
    pool.put(queued("old", "A", at=1000.0), "test")
    assert kit.clock.pending == [1330.0]
    pool.stop()
    assert kit.clock.pending == []


def test_an_event_is_checked_once_for_each_group(pool: UnschedulablePods, queued: Callable[..., QueuedPodInfo]) -> None:
    """What an event costs that concerns nobody does not grow with the number of pods."""
    for number in range(1000):
        pool.put(queued(f"p{number}", "A"), "test")
    looked_at: list[RejectionGroup] = []

    def nobody(group: RejectionGroup) -> bool:
        looked_at.append(group)
        return False

    assert pool.select(nobody) == []
    assert len(looked_at) == 1

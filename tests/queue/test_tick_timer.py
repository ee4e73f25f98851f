"""Timers on a grid: the first tick strictly after a moment, and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyscheduler.queue.tick_timer import TickTimer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.queue.conftest import Kit


@pytest.mark.parametrize(
    ("origin", "period", "now", "moment", "tick"),
    [
        pytest.param(0.0, 1.0, 1000.25, 1001.0, 1002.0, id="a moment on a tick waits for the next tick"),
        pytest.param(0.0, 1.0, 1000.25, 1001.5, 1002.0, id="a moment between ticks"),
        pytest.param(0.0, 1.0, 1000.25, 7.0, 1001.0, id="a moment that has passed"),
        pytest.param(0.0, 1.0, 1000.0, 7.0, 1001.0, id="now is a tick, and that one is over"),
        pytest.param(0.0, 1.0, 1000.25, float("-inf"), 1001.0, id="no moment at all"),
        pytest.param(1000.25, 30.0, 1000.25, 1300.25, 1330.25, id="a grid that begins at the start"),
        pytest.param(1000.25, 30.0, 1010.0, 1310.0, 1330.25, id="the same, between ticks"),
        pytest.param(461.7, 1.0, 2343.7, 2343.7, 2344.7, id="rounding does not give the tick that has just been"),
    ],
)
def test_the_first_tick_after_a_moment(
    make_kit: Callable[..., Kit], origin: float, period: float, now: float, moment: float, tick: float
) -> None:
    """Whatever is due is due at a tick, strictly after its moment and after now."""
    clock = make_kit(start_at=now).clock
    ticks: list[float] = []
    timer = TickTimer(clock, period)
    timer.start(ticks.append, origin=origin)
    timer.arm(moment)
    assert clock.pending == pytest.approx([tick])
    clock.advance(1000)
    assert ticks == pytest.approx([tick])


def test_the_earliest_moment_wins(kit: Kit) -> None:
    """Of several moments the earliest sets the timer, in whatever order they are told."""
    timer = TickTimer(kit.clock, 1.0)
    timer.start(lambda _: None, origin=0.0)
    timer.arm(1008.5)
    timer.arm(1003.5)
    timer.arm(1005.5)
    assert kit.clock.pending == [1004.0]


def test_nothing_happens_before_the_start_and_after_the_stop(kit: Kit) -> None:
    """A timer that was not started, or was stopped, is silent."""
    timer = TickTimer(kit.clock, 1.0)
    timer.arm(1001.0)
    assert kit.clock.pending == []
    ticks: list[float] = []
    timer.start(ticks.append, origin=0.0)
    timer.arm(1001.0)
    timer.stop()
    timer.arm(1002.0)
    kit.clock.advance(10)
    assert ticks == []


def test_a_callback_may_arm_the_timer_again(kit: Kit) -> None:
    """Armed from its own callback with something overdue, the timer goes off at the next tick, not at the same one."""
    ticks: list[float] = []
    timer = TickTimer(kit.clock, 1.0)

    def again(now: float) -> None:
        ticks.append(now)
        if len(ticks) < 3:
            timer.arm(0.0)

    timer.start(again, origin=0.0)
    timer.arm(0.0)
    kit.clock.advance(10)
    assert ticks == [1001.0, 1002.0, 1003.0]


def test_the_callback_gets_the_tick_if_the_clock_is_early(kit: Kit) -> None:
    """An event loop may call a little before the time, within its resolution; the callback sees the tick itself."""
    ticks: list[float] = []
    timer = TickTimer(kit.clock, 1.0)
    timer.start(ticks.append, origin=0.0)
    timer.arm(1000.5)
    kit.clock.advance(0.999_999)
    [(_, _, pending)] = kit.clock._timers
    pending.callback()
    timer.arm(1000.5)
    assert ticks == [1001.0]
    assert kit.clock.pending[-1] == 1002.0

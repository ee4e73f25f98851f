"""PostFilter, Reserve, Unreserve, Permit."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

from pyscheduler.api import Pod
from pyscheduler.framework import (
    Code,
    CycleState,
    NodeStatuses,
    NominatingInfo,
    PermitPlugin,
    Plugin,
    PostFilterPlugin,
    PostFilterResult,
    ReservePlugin,
    Status,
)
from pyscheduler.runtime.cooperative_yield import run_now
from pyscheduler.testing.builders import make_pod

NO = Status.unschedulable
NEVER = Status.unresolvable("nothing helps")
CLEAR = PostFilterResult(NominatingInfo(""))
LEAVE = PostFilterResult(NominatingInfo("", override=False))
DONE = Status(Code.SUCCESS)


def saver(name: str, answer: Any) -> type[Plugin]:
    """Make a PostFilter plugin with a fixed answer."""
    return type(name, (PostFilterPlugin,), {"post_filter": lambda *_: answer})


@pytest.mark.parametrize(
    ("answers", "result", "status"),
    [
        pytest.param([(None, NO("a"))], None, Status(Code.UNSCHEDULABLE, "a", plugin="P0"), id="one in vain"),
        pytest.param(
            [(None, NO("a", "b")), (None, NO("c"))],
            None,
            Status(Code.UNSCHEDULABLE, ("a", "b", "c"), plugin="P0"),
            id="all in vain: reasons joined, first rejector named",
        ),
        pytest.param(
            [(None, NO("a")), (PostFilterResult.nominated("n1"), DONE), (None, NEVER)],
            PostFilterResult.nominated("n1"),
            Status(Code.SUCCESS, plugin="P1"),
            id="the first success ends it",
        ),
        pytest.param(
            [(CLEAR, NEVER), (PostFilterResult.nominated("n1"), DONE)],
            CLEAR,
            Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "nothing helps", plugin="P0"),
            id="unresolvable ends it",
        ),
        pytest.param(
            [(CLEAR, NO("a")), (None, NO("b")), (LEAVE, NO("c"))],
            CLEAR,
            Status(Code.UNSCHEDULABLE, ("a", "b", "c"), plugin="P0"),
            id="the last result that means something is kept",
        ),
        pytest.param(
            [(CLEAR, Status.from_error(ValueError("broken"))), (None, NO("a"))],
            None,
            Status(Code.ERROR, "broken", plugin="P0"),
            id="an error ends it",
        ),
        pytest.param(
            [(None, Status.skip())],
            None,
            Status(Code.ERROR, "unexpected status Skip", plugin="P0"),
            id="a code that means nothing here",
        ),
        pytest.param([], None, Status(Code.UNSCHEDULABLE), id="nobody"),
    ],
)
def test_post_filter_answers_are_joined(
    kit: Any, answers: list[Any], result: PostFilterResult | None, status: Status
) -> None:
    """Success, Error and Unresolvable end the phase; rejections add up."""
    profile = kit.profile(*(saver(f"P{number}", answer) for number, answer in enumerate(answers)))
    assert profile.has_post_filter is bool(answers)
    assert run_now(profile.run_post_filter(CycleState(), make_pod("p"), NodeStatuses(0))) == (result, status)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(None, id="nothing"),
        pytest.param(DONE, id="a status alone"),
        pytest.param((DONE, None), id="the wrong way round"),
        pytest.param((None, NO("a"), 3), id="too many"),
    ],
)
def test_post_filter_must_answer_with_a_pair(kit: Any, answer: Any) -> None:
    """Anything else than a result and a status is a mistake of the plugin."""
    profile = kit.profile(saver("P", answer))
    result, status = run_now(profile.run_post_filter(CycleState(), make_pod("p"), NodeStatuses(0)))
    assert result is None
    assert (status.code, status.plugin) == (Code.ERROR, "P")
    assert "expected a pair (PostFilterResult or None, Status)" in status.message


def holder(name: str, log: list[str], answer: Status | None = None) -> type[Plugin]:
    """Make a Reserve plugin that writes down its calls."""

    class Made(ReservePlugin):
        def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
            log.append(f"{name} reserves {node_name}")
            return answer

        def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
            log.append(f"{name} gives back {node_name}")
            if name == "B":
                raise ValueError("lost the book")

    Made.name = name
    return Made


def test_reserve_goes_in_order_and_unreserve_back(kit: Any) -> None:
    """Unreserve runs for all plugins in reverse, and goes on when one of them fails."""
    log: list[str] = []
    profile = kit.profile(*(holder(name, log) for name in "ABC"))
    state, pod = CycleState(), make_pod("p")
    assert profile.run_reserve(state, pod, "n1") is None
    profile.run_unreserve(state, pod, "n1")
    assert log == [
        "A reserves n1",
        "B reserves n1",
        "C reserves n1",
        "C gives back n1",
        "B gives back n1",
        "A gives back n1",
    ]
    assert kit.recorder.warnings == {"plugin_error": 1}


def test_unreserve_has_no_answer(kit: Any) -> None:
    """A plugin that returns something from Unreserve has misunderstood; it is counted and nothing else happens."""
    members = {"reserve": lambda *_: None, "unreserve": lambda *_: True}
    kit.profile(type("A", (ReservePlugin,), members)).run_unreserve(CycleState(), make_pod("p"), "n1")
    assert kit.recorder.warnings == {"plugin_error": 1}


def test_a_rejection_at_reserve_ends_it(kit: Any) -> None:
    """Plugins after the one that refuses are not asked; the caller unreserves."""
    log: list[str] = []
    profile = kit.profile(holder("A", log, NO("taken")), holder("C", log))
    assert profile.run_reserve(CycleState(), make_pod("p"), "n1") == Status(Code.UNSCHEDULABLE, "taken", plugin="A")
    assert log == ["A reserves n1"]


def gate(name: str, answer: Status | None, longest: float = 900.0) -> type[Plugin]:
    """Make a Permit plugin with a fixed answer."""
    return type(name, (PermitPlugin,), {"permit": lambda *_: answer, "max_permit_wait_seconds": longest})


def test_permit_without_objections(kit: Any) -> None:
    """When all approve there is nothing to wait for."""
    profile = kit.profile(gate("A", None), gate("B", DONE))
    assert profile.run_permit(CycleState(), make_pod("p"), "n1") == (None, {})


def test_permit_collects_the_waits(kit: Any) -> None:
    """Every plugin that holds the pod has a timeout; the shortest is when the wait would end."""
    profile = kit.profile(
        gate("A", Status.wait("for a", timeout=10)), gate("B", None), gate("C", Status.wait("for c", timeout=5))
    )
    status, timeouts = profile.run_permit(CycleState(), make_pod("p"), "n1")
    assert timeouts == {"A": 10, "C": 5}
    assert status.is_wait
    assert status.timeout_seconds == 5
    assert status.message == "for a, for c, one or more plugins asked to wait and no plugin rejected pod"


@pytest.mark.parametrize(
    ("longest", "asked", "given"),
    [
        pytest.param(900.0, 3600, 900, id="clamped to a quarter of an hour"),
        pytest.param(7200.0, 3600, 3600, id="unless the class declares more"),
        pytest.param(7200.0, 9000, 7200, id="which is a limit too"),
    ],
)
def test_waits_are_clamped(kit: Any, longest: float, asked: float, given: float) -> None:
    """A plugin cannot hold a pod for longer than its class says."""
    profile = kit.profile(gate("A", Status.wait(timeout=asked), longest))
    assert profile.run_permit(CycleState(), make_pod("p"), "n1")[1] == {"A": given}


@pytest.mark.parametrize("asked", [None, 0, -1.0, math.nan, "5", timedelta(seconds=5)], ids=repr)
def test_a_wait_takes_a_number_of_seconds_above_zero(kit: Any, asked: Any) -> None:
    """Anything else is an error of the plugin that names it, whatever its type."""
    profile = kit.profile(gate("A", Status.wait(timeout=asked)))
    status, timeouts = profile.run_permit(CycleState(), make_pod("p"), "n1")
    assert timeouts == {}
    assert (status.code, status.plugin) == (Code.ERROR, "A")
    assert status.message.startswith(
        'running Permit plugin "A": ValueError: returned WAIT without a timeout in seconds'
    )


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        pytest.param(NO("too early"), Status(Code.UNSCHEDULABLE, "too early", plugin="B"), id="rejection"),
        pytest.param(
            Status.from_error(ValueError("broken")),
            Status(Code.ERROR, 'running Permit plugin "B": broken', plugin="B"),
            id="error",
        ),
    ],
)
def test_a_refusal_outweighs_a_wait(kit: Any, answer: Status, status: Status) -> None:
    """A pod that one plugin holds and the next refuses does not wait."""
    profile = kit.profile(gate("A", Status.wait(timeout=10)), gate("B", answer))
    assert profile.run_permit(CycleState(), make_pod("p"), "n1") == (status, {})

"""PreBindPreFlight, PreBind, Bind, PostBind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kube_testserver.virtual_time import settle
from pyscheduler.api import Pod
from pyscheduler.framework import (
    BindPlugin,
    Code,
    CycleState,
    Plugin,
    PostBindPlugin,
    PreBindPlugin,
    PreBindPreFlightResult,
    Status,
)
from pyscheduler.testing.builders import make_pod

PARALLEL = PreBindPreFlightResult(allow_parallel=True)
ALONE = PreBindPreFlightResult()
SKIP = Status.skip()


class Log:
    """What happened, and events by which tests let a PreBind go on."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}


def preparer(name: str, log: Log, flight: Any = None, answer: Status | None = None) -> type[Plugin]:
    """Make a PreBind plugin that says when it begins and ends, and waits for its gate, if any, in between."""

    class Made(PreBindPlugin):
        def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Any:
            return flight

        async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
            log.lines.append(f"{name} begins")
            try:
                if name in log.gates:
                    await log.gates[name].wait()
            except asyncio.CancelledError:
                log.lines.append(f"{name} is cancelled")
                raise
            log.lines.append(f"{name} ends")
            return answer

    Made.name = name
    return Made


async def prepare(kit: Any, *plugins: type[Plugin]) -> tuple[Status | None, Status | None]:
    """Run the pre-flights and PreBind; return what each said."""
    profile = kit.profile(*plugins)
    state, pod = CycleState(), make_pod("p")
    return profile.run_pre_bind_pre_flights(state, pod, "n1"), await profile.run_pre_bind(state, pod, "n1")


@pytest.mark.parametrize(
    ("flights", "code"),
    [
        pytest.param([], Code.SKIP, id="nobody there"),
        pytest.param([SKIP, SKIP], Code.SKIP, id="nobody has work"),
        pytest.param([SKIP, None], None, id="somebody has"),
        pytest.param([ALONE, SKIP], None, id="somebody has, with a result"),
        pytest.param([SKIP, Status.from_error(ValueError("broken"))], Code.ERROR, id="an error"),
        pytest.param([Status.unschedulable("no")], Code.ERROR, id="a rejection has no place here"),
    ],
)
async def test_pre_flights_tell_whether_there_is_work(kit: Any, flights: list[Any], code: Code | None) -> None:
    """None, Skip and Error mean: some work, none, and none will be done."""
    log = Log()
    flight, _ = await prepare(kit, *(preparer(f"P{number}", log, each) for number, each in enumerate(flights)))
    assert (flight.code if flight is not None else None) == code


async def test_a_rejecting_pre_flight_is_worded_as_in_kube_scheduler(kit: Any) -> None:
    """The message says what is supported."""
    flight, _ = await prepare(kit, preparer("A", Log(), Status.unschedulable("no")))
    assert flight is not None
    assert flight.message == (
        'PreBindPreFlight A returned "Unschedulable", which is unsupported. '
        "It is supposed to return Success, Skip, or Error status"
    )


async def test_plugins_without_work_are_not_called(kit: Any) -> None:
    """After Skip a plugin's PreBind does not run."""
    log = Log()
    await prepare(kit, preparer("A", log, SKIP), preparer("B", log))
    assert log.lines == ["B begins", "B ends"]


async def test_a_plugin_without_pre_flight_always_has_work(kit: Any) -> None:
    """A plugin may leave the pre-flight out."""

    class Plain(PreBindPlugin):
        def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
            return Status.unschedulable("called")

    flight, status = await prepare(kit, Plain)
    assert flight is None
    assert status == Status(Code.UNSCHEDULABLE, "called", plugin="Plain")


async def test_neighbours_that_allow_it_run_at_once(kit: Any) -> None:
    """Two plugins in a row that allow it overlap; one that does not runs alone, and keeps its place."""
    log = Log()
    log.gates = {"A": asyncio.Event(), "B": asyncio.Event()}
    plugins = [
        preparer("A", log, PARALLEL),
        preparer("B", log, PARALLEL),
        preparer("C", log, ALONE),
        preparer("D", log, PARALLEL),
    ]
    running = asyncio.create_task(prepare(kit, *plugins))
    await settle()
    assert log.lines == ["A begins", "B begins"]
    log.gates["B"].set()
    log.gates["A"].set()
    assert (await running)[1] is None
    assert sorted(log.lines[2:4]) == ["A ends", "B ends"]
    assert log.lines[4:] == ["C begins", "C ends", "D begins", "D ends"]


async def test_a_failure_ends_its_neighbours(kit: Any) -> None:
    """When one of several at once refuses, the others are cancelled and over before the caller goes on."""
    log = Log()
    log.gates = {"A": asyncio.Event()}
    plugins = [
        preparer("A", log, PARALLEL),
        preparer("B", log, PARALLEL, Status.unschedulable("no volume")),
        preparer("C", log, ALONE),
    ]
    _, status = await prepare(kit, *plugins)
    assert status == Status(Code.UNSCHEDULABLE, "no volume", plugin="B")
    assert log.lines == ["A begins", "B begins", "B ends", "A is cancelled"]
    assert not kit.recorder.warnings


async def test_cancelling_the_binding_cycle_ends_all(kit: Any) -> None:
    """A stop leaves no PreBind behind."""
    log = Log()
    log.gates = {"A": asyncio.Event(), "B": asyncio.Event()}
    running = asyncio.create_task(prepare(kit, preparer("A", log, PARALLEL), preparer("B", log, PARALLEL)))
    await settle()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sorted(log.lines) == ["A begins", "A is cancelled", "B begins", "B is cancelled"]


async def test_a_plugin_without_work_keeps_its_neighbours_apart(kit: Any) -> None:
    """What stands on both sides of a plugin that wants to be alone never overlaps, even when that one skips."""
    log = Log()
    log.gates = {"A": asyncio.Event()}
    running = asyncio.create_task(
        prepare(kit, preparer("A", log, PARALLEL), preparer("B", log, SKIP), preparer("C", log, PARALLEL))
    )
    await settle()
    assert log.lines == ["A begins"]
    log.gates["A"].set()
    await running
    assert log.lines == ["A begins", "A ends", "C begins", "C ends"]


def binder(name: str, log: list[str], answer: Status | None, *, later: bool) -> type[Plugin]:
    """Make a Bind plugin, plain or `async def`."""

    def bind(self: Plugin, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        log.append(name)
        return answer

    async def bind_later(self: Plugin, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        await asyncio.sleep(0)
        log.append(name)
        return answer

    return type(name, (BindPlugin,), {"bind": bind_later if later else bind})


@pytest.mark.parametrize("later", [True, False])
@pytest.mark.parametrize(
    ("answers", "status", "asked"),
    [
        pytest.param([None, None], None, ["B0"], id="the first binds"),
        pytest.param([SKIP, None], None, ["B0", "B1"], id="the first leaves it to the next"),
        pytest.param([SKIP, SKIP], SKIP, ["B0", "B1"], id="nobody binds"),
        pytest.param(
            [Status.unschedulable("gone"), None], Status(Code.UNSCHEDULABLE, "gone", plugin="B0"), ["B0"], id="refused"
        ),
        pytest.param(
            [Status.from_error(ValueError("409")), None],
            Status(Code.ERROR, 'running Bind plugin "B0": 409', plugin="B0"),
            ["B0"],
            id="an error",
        ),
    ],
)
async def test_the_first_that_does_not_skip_binds(
    kit: Any, answers: list[Status | None], status: Status | None, asked: list[str], later: bool
) -> None:
    """Bind plugins are asked in order until one does not skip; plain functions and coroutines alike."""
    log: list[str] = []
    profile = kit.profile(*(binder(f"B{number}", log, answer, later=later) for number, answer in enumerate(answers)))
    assert await profile.run_bind(CycleState(), make_pod("p"), "n1") == status
    assert log == asked


async def test_everybody_hears_of_the_binding(kit: Any) -> None:
    """PostBind goes on when one plugin fails, and awaits those that are coroutines."""
    log: list[str] = []

    def plain(*_: object) -> None:
        raise ValueError("lost")

    async def later(*_: object) -> None:
        await asyncio.sleep(0)
        log.append("B")

    profile = kit.profile(
        type("A", (PostBindPlugin,), {"post_bind": plain}), type("B", (PostBindPlugin,), {"post_bind": later})
    )
    await profile.run_post_bind(CycleState(), make_pod("p"), "n1")
    assert log == ["B"]
    assert kit.recorder.warnings == {"plugin_error": 1}

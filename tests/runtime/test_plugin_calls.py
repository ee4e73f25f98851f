"""The boundary to plugins: whatever goes wrong beyond it becomes a status."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pyscheduler.api import Pod
from pyscheduler.framework import (
    BindPlugin,
    Code,
    CycleState,
    FilterPlugin,
    NodeInfo,
    Nodes,
    NodeScore,
    NodeStatuses,
    PermitPlugin,
    Plugin,
    PluginError,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
    Status,
)
from pyscheduler.runtime.cooperative_yield import run_now
from pyscheduler.testing.builders import make_pod

Misdeed = Callable[[], Any]


def raises() -> Any:
    """Raise."""
    raise KeyError("zone")


class Everywhere(
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPlugin,
    BindPlugin,
    PostBindPlugin,
):
    """Does the same wrong thing wherever it is asked; `misdeed` is set by each test."""

    name = "Bad"
    misdeed: Misdeed = staticmethod(raises)

    def pre_enqueue(self, pod: Pod) -> Any:
        return self.misdeed()

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
        return self.misdeed()

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Any:
        return self.misdeed()

    def post_filter(self, state: CycleState, pod: Pod, statuses: NodeStatuses) -> Any:
        return self.misdeed()

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
        return self.misdeed()

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> Any:
        return self.misdeed()

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self.misdeed()

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self.misdeed()

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self.misdeed()

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self.misdeed()

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self.misdeed()

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self.misdeed()

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self.misdeed()


class Columns(FilterPlugin, ScorePlugin):
    name = "Bad"
    misdeed: Misdeed = staticmethod(raises)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
        return self.misdeed()

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
        return self.misdeed()


class Normalizer(Columns):
    name = "Bad"

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 1

    score_nodes = ScorePlugin.score_nodes

    def normalize_scores(self, state: CycleState, pod: Pod, scores: list[NodeScore]) -> Any:
        return self.misdeed()


async def ask(kit: Any, plugin: type[Plugin], point: str) -> Status | None:
    """Run one extension point of a profile with that plugin."""
    kit.add_nodes("n1")
    profile = kit.profile(plugin)
    pod, state, nodes = make_pod("p"), CycleState(), kit.snapshot.nodes
    statuses = NodeStatuses(1)
    runs: dict[str, Callable[[], Any]] = {
        "PreEnqueue": lambda: profile.run_pre_enqueue(pod),
        "PreFilter": lambda: profile.run_pre_filter(state, pod, nodes).status,
        "Filter": lambda: profile.find_feasible(state, pod, nodes).status,
        "run_filters": lambda: profile.run_filters(state, pod, nodes).status(0),
        "PostFilter": lambda: run_now(profile.run_post_filter(state, pod, statuses))[1],
        "PreScore": lambda: profile.run_pre_score(state, pod, nodes),
        "Score": lambda: profile.run_score(state, pod, nodes).status,
        "Reserve": lambda: profile.run_reserve(state, pod, "n1"),
        "Unreserve": lambda: profile.run_unreserve(state, pod, "n1"),
        "Permit": lambda: profile.run_permit(state, pod, "n1")[0],
        "PreBindPreFlight": lambda: profile.run_pre_bind_pre_flights(state, pod, "n1"),
        "PreBind": lambda: profile.run_pre_bind(state, pod, "n1"),
        "Bind": lambda: profile.run_bind(state, pod, "n1"),
        "PostBind": lambda: profile.run_post_bind(state, pod, "n1"),
    }
    answer = runs[point]()
    status = await answer if isinstance(answer, Awaitable) else answer
    assert status is None or isinstance(status, Status)
    return status


POINTS = {
    "PreEnqueue": 'running PreEnqueue plugin "Bad"',
    "PreFilter": 'running PreFilter plugin "Bad"',
    "Filter": 'running "Bad" filter plugin',
    "run_filters": 'running "Bad" filter plugin',
    "PostFilter": 'running PostFilter plugin "Bad"',
    "PreScore": 'running PreScore plugin "Bad"',
    "Score": 'running Score plugins: plugin "Bad" failed with',
    "Reserve": 'running Reserve plugin "Bad"',
    "Permit": 'running Permit plugin "Bad"',
    "PreBindPreFlight": 'running PreBindPreFlight "Bad"',
    "PreBind": 'running PreBind plugin "Bad"',
    "Bind": 'running Bind plugin "Bad"',
}
CASES = [
    *(pytest.param(Everywhere, point, running, id=point) for point, running in POINTS.items()),
    pytest.param(Columns, "Filter", POINTS["Filter"], id="columnar Filter"),
    pytest.param(Columns, "Score", POINTS["Score"], id="columnar Score"),
    pytest.param(
        Normalizer, "Score", 'running Normalize on Score plugins: plugin "Bad" failed with', id="normalisation"
    ),
]


@pytest.fixture(autouse=True)
def misdeed(monkeypatch: pytest.MonkeyPatch) -> Callable[[Misdeed], None]:
    """Give the way to say what the plugins do."""

    def become(what: Misdeed) -> None:
        for plugin in (Everywhere, Columns):
            monkeypatch.setattr(plugin, "misdeed", staticmethod(what))

    return become


@pytest.mark.parametrize(("plugin", "point", "running"), CASES)
async def test_an_exception_becomes_an_error_that_names_the_plugin(
    kit: Any, plugin: type[Plugin], point: str, running: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The attempt fails, the exception is kept, counted, and logged with its traceback."""
    with caplog.at_level(logging.DEBUG, logger="pyscheduler"):
        status = await ask(kit, plugin, point)
    assert status is not None
    assert (status.code, status.plugin, status.message) == (Code.ERROR, "Bad", f"{running}: KeyError: 'zone'")
    assert isinstance(status.error, KeyError)
    assert kit.recorder.warnings == {"plugin_error": 1}
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    assert "plugin=Bad" in errors[0].getMessage()
    assert "pod=default/p" in errors[0].getMessage()
    assert 'place="test_plugin_calls.py:' in errors[0].getMessage()
    assert errors[0].exc_info is not None
    assert errors[0].exc_info[1] is status.error


@pytest.mark.parametrize("error", [asyncio.CancelledError("its future was"), SystemExit(3)], ids=repr)
@pytest.mark.parametrize(("plugin", "point", "running"), CASES)
async def test_neither_a_cancellation_of_something_else_nor_an_exit_gets_past_the_boundary(
    kit: Any, plugin: type[Plugin], point: str, running: str, misdeed: Callable[[Misdeed], None], error: BaseException
) -> None:
    """Let through, the one would end a watch or the scheduling loop without a word, and the other the program."""

    def raise_it() -> Any:
        raise error

    misdeed(raise_it)
    status = await ask(kit, plugin, point)
    assert status is not None
    assert (status.code, status.plugin) == (Code.ERROR, "Bad")
    assert status.message == f"{running}: {type(error).__name__}: {error}"
    assert kit.recorder.warnings == {"plugin_error": 1}


@pytest.mark.parametrize(("plugin", "point", "running"), CASES)
async def test_an_answer_of_the_wrong_type_becomes_an_error(
    kit: Any, plugin: type[Plugin], point: str, running: str, misdeed: Callable[[Misdeed], None]
) -> None:
    """What no extension point returns is an error that names plugin and extension point."""
    misdeed(lambda: {"fine": True})
    status = await ask(kit, plugin, point)
    assert status is not None
    assert (status.code, status.plugin) == (Code.ERROR, "Bad")
    assert status.message.startswith(f"{running}: TypeError: ")
    assert "returned dict; expected " in status.message
    assert kit.recorder.warnings == {"plugin_error": 1}


@pytest.mark.parametrize(
    ("plugin", "point", "running"), [case for case in CASES if case.values[1] not in {"PostFilter", "PreBind", "Bind"}]
)
async def test_a_coroutine_where_none_may_be_is_closed_and_an_error(
    kit: Any, plugin: type[Plugin], point: str, running: str, misdeed: Callable[[Misdeed], None]
) -> None:
    """`async def` at a plain extension point is told apart from other mistakes, and leaves nothing unawaited."""

    async def later() -> None:
        raise AssertionError("nobody waits for this")

    misdeed(later)
    status = await ask(kit, plugin, point)
    assert status is not None
    assert status.message.startswith(running)
    assert "a coroutine (only PostFilter, PreBind, Bind and PostBind may be async)" in status.message


@pytest.mark.parametrize(
    ("point", "misdeeds"),
    [
        pytest.param("Unreserve", 1, id="Unreserve"),
        pytest.param("PostBind", 1, id="PostBind"),
    ],
)
async def test_where_nobody_asks_a_failure_is_only_counted(kit: Any, point: str, misdeeds: int) -> None:
    """Unreserve and PostBind have no answer; what goes wrong there is logged and counted."""
    assert await ask(kit, Everywhere, point) is None
    assert kit.recorder.warnings == {"plugin_error": misdeeds}


async def test_an_error_returned_as_a_value_is_worded_like_one_raised(
    kit: Any, misdeed: Callable[[Misdeed], None]
) -> None:
    """`Status.from_error` is as good as raising, but for the log and the count."""
    error = PluginError("no answer from the quota service", plugin="Bad")
    misdeed(lambda: Status.from_error(error))
    status = await ask(kit, Everywhere, "Reserve")
    assert status is not None
    assert status.message == 'running Reserve plugin "Bad": no answer from the quota service'
    assert status.error is error
    assert not kit.recorder.warnings


@pytest.mark.parametrize("point", ["Reserve", "PreFilter", "PreScore", "Filter"])
async def test_a_code_that_means_nothing_there_is_an_error(
    kit: Any, point: str, misdeed: Callable[[Misdeed], None]
) -> None:
    """A plugin that asks to wait where nobody waits is not taken for one that passes."""
    misdeed(lambda: Status.wait(timeout=1.0))
    status = await ask(kit, Everywhere, point)
    assert status is not None
    assert (status.code, status.plugin) == (Code.ERROR, "Bad")
    assert status.message == f"{POINTS[point]}: unexpected status Wait"


async def test_an_awaitable_is_awaited_at_bind(kit: Any, misdeed: Callable[[Misdeed], None]) -> None:
    """PreBind and Bind take what can be awaited, and judge what comes of it."""

    async def later() -> object:
        await asyncio.sleep(0)
        return 3

    misdeed(later)
    status = await ask(kit, Everywhere, "Bind")
    assert status is not None
    assert "Bind returned int; expected Status or None" in status.message


async def test_cancellation_passes_through(kit: Any, misdeed: Callable[[Misdeed], None]) -> None:
    """A cancelled binding cycle ends; it is no failure of the plugin."""
    begun = asyncio.Event()

    async def for_ever() -> None:
        begun.set()
        await asyncio.Event().wait()

    misdeed(for_ever)
    task = asyncio.create_task(ask(kit, Everywhere, "PreBind"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not kit.recorder.warnings


async def test_a_cancelled_inner_task_does_not_lose_the_pod(kit: Any, misdeed: Callable[[Misdeed], None]) -> None:
    """When something that a plugin awaits is cancelled, the binding cycle is not: the plugin has failed."""

    async def waits_for_a_cancelled_task() -> None:
        inner = asyncio.create_task(asyncio.Event().wait())
        inner.cancel()
        await inner

    misdeed(waits_for_a_cancelled_task)
    status = await ask(kit, Everywhere, "Bind")
    assert status is not None
    assert status.message == 'running Bind plugin "Bad": CancelledError'

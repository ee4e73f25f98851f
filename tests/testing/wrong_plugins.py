"""Wrong plugins, one mistake each, and the message that an author gets.

`test_wrong_plugins.py` runs each row and looks for its message. `docs/how-to/when-a-plugin-misbehaves.md` is made from
these rows: `python -m tests.testing.wrong_plugins` writes the page. To add a row, write the class and append a `Row`;
the order of `ROWS` is the order of the page. In `message`, `...` stands for any text.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np

from pyscheduler import (
    ClusterEvent,
    ConfigError,
    CycleState,
    EnqueueExtensions,
    FilterPlugin,
    Handle,
    NodeStatuses,
    PermitPlugin,
    Plugin,
    Pod,
    PostBindPlugin,
    ReservePlugin,
    ScorePlugin,
    Status,
)
from pyscheduler.framework import ActionType, ClusterEventWithHint, EventResource, NodeInfo, Nodes
from pyscheduler.testing import FakeCluster

__all__ = ["PAGE", "ROWS", "Row", "rendered"]

PAGE: Final = Path(__file__).parents[2] / "docs/how-to/when-a-plugin-misbehaves.md"

NO_ROOM: Final = Status.unschedulable("no room")

# Exceptions


class Raises(FilterPlugin):
    """Raises: a node without the label `zone` was not expected."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None if node.node.labels["zone"] else NO_ROOM


class RaisesAfterBinding(PostBindPlugin):
    """Raises where no pod fails because of it: the pod is bound already."""

    async def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        raise RuntimeError(f"cannot tell the ledger about {pod.name}")


class RaisesWhenMade(ScorePlugin):
    """Raises in its constructor."""

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.prices = dict(args)["prices"]  # type: ignore[call-overload] # the mistake: args may be None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 0


class DyingRun(PostBindPlugin):
    """Its `run()` ends with an exception."""

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass

    async def run(self) -> None:
        await self.handle.clock.sleep(1)
        raise ConnectionError("the price list is not reachable")


class BadHint(FilterPlugin, EnqueueExtensions):
    """Its hint raises: `old` is None when an object is created."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return NO_ROOM

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        added = ClusterEvent(EventResource.NODE, ActionType.ADD)
        return [ClusterEventWithHint(added, lambda pod, old, new: old.labels["zone"])]  # type: ignore[attr-defined,union-attr]


class BadHandler(PermitPlugin):
    """A handler of events raises."""

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        handle.lister(Pod).add_event_handler(on_add=self.on_pod)

    def on_pod(self, pod: Pod) -> None:
        raise LookupError(f"no ledger for {pod.name}")

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None


# Wrong answers


class WrongShape(FilterPlugin):
    """Answers for all nodes but the last."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        return NodeStatuses.failing(nodes.pod_counts()[:-1] >= 0, NO_ROOM)


class RowNumbers(FilterPlugin):
    """Gives row numbers where a mask of bools is needed."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        full = np.flatnonzero(nodes.pod_counts() >= nodes.allowed_pods() - 200)
        return NodeStatuses.failing(full, NO_ROOM)  # type: ignore[arg-type] # the mistake


class WrongDtype(ScorePlugin):
    """Divides, and so returns floats."""

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
        return nodes.pod_counts() / nodes.allowed_pods() * 100


class OutOfRange(ScorePlugin):
    """Scores beyond 100 and does not normalize."""

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
        return nodes.allocatable("cpu") - nodes.requested("cpu")


class ReturnsScores(ScorePlugin):
    """`normalize_scores` returns a new array, where it has to change the one that it is given."""

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
        return nodes.pod_counts() + 1

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Any) -> Any:
        return scores * 100 // scores.max()


class ReturnsBool(FilterPlugin):
    """Returns True for a node that fits, where None is needed."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Any:
        return len(node.pods) < 10


class WritesSnapshot(FilterPlugin):
    """Writes into an array of the snapshot."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        free = nodes.allocatable("cpu")
        free -= nodes.requested("cpu")
        return NodeStatuses.failing(free <= 0, NO_ROOM)


# async and await


class AsyncFilter(FilterPlugin):
    """`async def` where the scheduler does not await."""

    async def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:  # type: ignore[override]
        await asyncio.sleep(0)
        return None


class PlainRun(PostBindPlugin):
    """`run()` without `async`."""

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass

    def run(self) -> None:
        self.prices = {"n1": 1}


class NeverAwaits(PostBindPlugin):
    """Calls a coroutine function and does not await it: nothing is written."""

    async def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.handle.client.patch(Pod, pod.name, pod.namespace, patch={"metadata": {"labels": {"seen": "yes"}}})  # type: ignore[unused-coroutine]


# The class


class Misspelled(FilterPlugin):
    """`filter_node` for `filter_nodes`."""

    def filter_node(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        return None


class NoUnreserve(ReservePlugin):
    """Reserves, and never gives back."""

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None


class BareEvents(FilterPlugin, EnqueueExtensions):
    """Registers events without `ClusterEventWithHint`."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None

    def events_to_register(self) -> Any:
        return [ClusterEvent(EventResource.NODE, ActionType.ADD)]


class WaitsForever(PermitPlugin):
    """Makes a pod wait and never allows it."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return Status.wait("waits for a licence", timeout=1e9)


class WaitsWithoutEnd(PermitPlugin):
    """Makes a pod wait and says no timeout."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return Status.wait("waits for a licence", timeout=None)  # type: ignore[arg-type] # the mistake


# Args and names


@attrs.frozen
class PriceArgs:
    """The args of `Priced`."""

    percent: int = 50


class Priced(ScorePlugin):
    """Has args, of which the configuration has one wrong."""

    args_type = PriceArgs

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 0


# How rows are run


async def schedule(cluster: FakeCluster, row: Row) -> str:
    """Schedule a pod; return what the plugin did wrong and what the pod says."""
    for name in ("n1", "n2"):
        cluster.add_node(name)
    framework = cluster.framework(enable=[row.plugin], args=row.args, allow_plugin_errors=True)
    result = await framework.schedule("p")
    return "\n".join([*map(str, framework.plugin_errors), result.message])


async def wait(cluster: FakeCluster, row: Row) -> str:
    """Schedule a pod and let an hour pass; return the same."""
    for name in ("n1", "n2"):
        cluster.add_node(name)
    framework = cluster.framework(enable=[row.plugin], args=row.args, allow_plugin_errors=True)
    await framework.schedule("p")
    await cluster.clock.advance(3600)
    return "\n".join([*map(str, framework.plugin_errors), *(each["note"] for each in cluster.events())])


async def add_node(cluster: FakeCluster, row: Row) -> str:
    """Schedule a pod that is rejected, and add a node; return the same."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[row.plugin], args=row.args, allow_plugin_errors=True)
    await framework.schedule("p")
    cluster.add_node("n2")
    await framework.settle()
    return "\n".join(map(str, framework.plugin_errors))


async def build(cluster: FakeCluster, row: Row) -> str:
    """Make the framework; return the error."""
    try:
        cluster.framework(enable=[row.plugin], args=row.args)
    except ConfigError as error:
        return str(error)
    return ""


async def fixture(cluster: FakeCluster, row: Row) -> str:
    """Schedule a pod as in a test of the author; return why the fixture fails the test."""
    from pyscheduler.testing.plugin_errors import unawaited_coroutines

    cluster.add_node("n1")
    with unawaited_coroutines() as unawaited:
        await cluster.framework(enable=[row.plugin], args=row.args).schedule("p")
    try:
        cluster.raise_plugin_errors(unawaited)
    except Exception as error:  # noqa: BLE001 - whatever a plugin raised
        return str(error)
    return ""


@attrs.frozen(kw_only=True)
class Row:
    """One wrong plugin.

    `symptom` is a heading of the page. `run` returns the text in which `message` must be; None for what only
    `check_plugin` finds, whose message is then `message`. `where` says where the author reads it.
    """

    symptom: str
    plugin: type[Plugin]
    run: Callable[[FakeCluster, Row], Awaitable[str]] | None
    message: str
    remedy: str
    args: Mapping[str, Mapping[str, object]] = attrs.Factory(dict)

    @property
    def name(self) -> str:
        """Return the name of the plugin, which is the id of the test."""
        return self.plugin.name


ROWS: Final[Sequence[Row]] = (
    Row(
        symptom="An exception at an extension point",
        plugin=Raises,
        run=schedule,
        message="plugin \"Raises\" failed at Filter (pod=default/p): KeyError: 'zone', wrong_plugins.py:... in "
        "Raises.filter",
        remedy="Read the traceback in the log, or run `pyscheduler explain --traceback`. The scheduler retries the pod "
        "after its backoff. Handle the case (`labels.get`), or return a `Status`.",
    ),
    Row(
        symptom="An exception after the pod is bound",
        plugin=RaisesAfterBinding,
        run=schedule,
        message='plugin "RaisesAfterBinding" failed at PostBind (pod=default/p): RuntimeError: cannot tell the ledger '
        "about p, wrong_plugins.py:... in RaisesAfterBinding.post_bind",
        remedy="No pod fails because of it, so only the log and the metric "
        "`pyscheduler_plugin_failures_total` show it. In tests, the fixture fails at teardown.",
    ),
    Row(
        symptom="An exception in the constructor",
        plugin=RaisesWhenMade,
        run=build,
        message='initializing plugin "RaisesWhenMade": TypeError: ..., wrong_plugins.py:... in RaisesWhenMade.__init__',
        remedy="Declare an attrs class as `args_type`: then the scheduler checks the args, and the plugin gets an "
        "object with defaults.",
    ),
    Row(
        symptom="`run()` ends with an exception",
        plugin=DyingRun,
        run=wait,
        message='plugin "DyingRun" failed at run: ConnectionError: the price list is not reachable, '
        "wrong_plugins.py:... in DyingRun.run",
        remedy="The scheduler starts `run()` again after 1 s, 2 s, 4 s and so on, at most 60 s; `/readyz?verbose` and "
        "the metric `pyscheduler_plugin_run_restarts_total` show it. Catch what you expect inside the loop of `run()`.",
    ),
    Row(
        symptom="An exception in a queueing hint",
        plugin=BadHint,
        run=add_node,
        message='plugin "BadHint" failed at QueueingHint (event=NodeAdd pod=default/p): AttributeError: ..., '
        "wrong_plugins.py:... in BadHint.events_to_register.<lambda>",
        remedy="`old` is None when an object was created, `new` when it was deleted. The pod is queued, as if the hint "
        "had returned QUEUE.",
    ),
    Row(
        symptom="An exception in an event handler",
        plugin=BadHandler,
        run=schedule,
        message='plugin "BadHandler" failed at EventHandler (resource=pods object=default/p): LookupError: ..., '
        "wrong_plugins.py:... in BadHandler.on_pod",
        remedy="The watch and the other handlers continue. Handle the case, since nobody calls the handler again for "
        "this change.",
    ),
    Row(
        symptom="An array of the wrong length",
        plugin=WrongShape,
        run=schedule,
        message='plugin "WrongShape" failed at Filter (pod=default/p): TypeError: Filter returned NodeStatuses; '
        "expected one status for each of 2 nodes, not 1, wrong_plugins.py:... in WrongShape.filter_nodes",
        remedy="Each array has one value for each row of `nodes`. If you know the rows, set them in "
        "`np.zeros(len(nodes), dtype=np.bool_)`.",
    ),
    Row(
        symptom="Row numbers in place of a mask",
        plugin=RowNumbers,
        run=schedule,
        message='plugin "RowNumbers" failed at Filter (pod=default/p): TypeError: `failed` must be a numpy array with '
        "one bool per node, not int64; ... in RowNumbers.filter_nodes",
        remedy="`mask = np.zeros(len(nodes), dtype=np.bool_); mask[rows] = True`.",
    ),
    Row(
        symptom="An array of the wrong dtype",
        plugin=WrongDtype,
        run=schedule,
        message='plugin "WrongDtype" failed at Score (pod=default/p): TypeError: Score returned ndarray; '
        "expected int64[2], not float64[2]...wrong_plugins.py:... in WrongDtype.score_nodes",
        remedy="Divide with `//`, or end with `.astype(np.int64)`: scores are whole numbers.",
    ),
    Row(
        symptom="A score that is not within 0 and 100",
        plugin=OutOfRange,
        run=schedule,
        message='plugin "OutOfRange" returns an invalid score 4000, it should in the range of [0, 100] after '
        "normalizing",
        remedy="Define `normalize_scores`; `default_normalize` of `pyscheduler.framework.scoring` does it.",
    ),
    Row(
        symptom="`normalize_scores` returns an array",
        plugin=ReturnsScores,
        run=schedule,
        message='plugin "ReturnsScores" failed at ScoreExtensionNormalize (pod=default/p): TypeError: '
        "ScoreExtensionNormalize returned ndarray; expected Status or None...in ReturnsScores.normalize_scores",
        remedy="Change the array in place: `scores[:] = scores * 100 // scores.max()`.",
    ),
    Row(
        symptom="An answer of the wrong type",
        plugin=ReturnsBool,
        run=schedule,
        message='plugin "ReturnsBool" failed at Filter (pod=default/p): TypeError: Filter returned bool; '
        "expected Status or None, wrong_plugins.py:... in ReturnsBool.filter",
        remedy="Return None for a node that fits, and `Status.unschedulable(reason)` for one that does not.",
    ),
    Row(
        symptom="A write into the snapshot",
        plugin=WritesSnapshot,
        run=schedule,
        message='plugin "WritesSnapshot" failed at Filter (pod=default/p): ValueError: output array is read-only, '
        "wrong_plugins.py:... in WritesSnapshot.filter_nodes",
        remedy="The arrays belong to the snapshot. Make a new one: `free = nodes.allocatable(name) - "
        "nodes.requested(name)`.",
    ),
    Row(
        symptom="`async def` where the scheduler does not await",
        plugin=AsyncFilter,
        run=schedule,
        message='plugin "AsyncFilter" failed at Filter (pod=default/p): TypeError: Filter returned a coroutine (only '
        "PostFilter, PreBind, Bind and PostBind may be async)...in AsyncFilter.filter",
        remedy="Write a plain `def`. Fetch what the filter needs in `run()`, and read it from the plugin object.",
    ),
    Row(
        symptom="`run()` without `async`",
        plugin=PlainRun,
        run=build,
        message='plugin "PlainRun" defines a run() that is not async',
        remedy="Write `async def run(self) -> None`.",
    ),
    Row(
        symptom="A coroutine that nobody awaits",
        plugin=NeverAwaits,
        run=fixture,
        message="plugin \"NeverAwaits\": coroutine '...' was never awaited, made at wrong_plugins.py:... in post_bind",
        remedy="Write `await` before the call. In a method that cannot be `async def`, write "
        "`self.handle.spawn(self.handle.client.patch(...))`.",
    ),
    Row(
        symptom="A method that is misspelled",
        plugin=Misspelled,
        run=build,
        message='plugin "Misspelled" takes part in filter but does not define filter or filter_nodes',
        remedy="Define one of the methods. A class that inherits an interface takes part in its extension point.",
    ),
    Row(
        symptom="`reserve` without `unreserve`",
        plugin=NoUnreserve,
        run=build,
        message='plugin "NoUnreserve" takes part in reserve but does not define unreserve',
        remedy="Define `unreserve`, which gives back what `reserve` took, also when called twice.",
    ),
    Row(
        symptom="Events without `ClusterEventWithHint`",
        plugin=BareEvents,
        run=build,
        message='plugin "BareEvents" cannot register its events: TypeError: EventsToRegister returned a ClusterEvent; '
        "expected ClusterEventWithHint",
        remedy="Write `ClusterEventWithHint(event)`, or `ClusterEventWithHint(event, hint)`.",
    ),
    Row(
        symptom="A pod that waits at Permit and is never allowed",
        plugin=WaitsForever,
        run=wait,
        message="due to timeout after waiting 15m0s at plugin WaitsForever",
        remedy="A wait ends after `max_permit_wait_seconds` of the plugin, 900 by default, and the pod is retried. "
        "Call `handle.get_waiting_pod(uid).allow(self.name)` when the pod may go on.",
    ),
    Row(
        symptom="A wait without a timeout",
        plugin=WaitsWithoutEnd,
        run=schedule,
        message='plugin "WaitsWithoutEnd" failed at Permit (pod=default/p): ValueError: returned WAIT without a '
        "timeout in seconds; use Status.wait(timeout=...), wrong_plugins.py:... in WaitsWithoutEnd.permit",
        remedy="Give the timeout in seconds.",
    ),
    Row(
        symptom="Unknown args",
        plugin=Priced,
        run=build,
        args={"Priced": {"percentage": 20}},
        message='unknown field "percentage", did you mean "percent"?',
        remedy="`pyscheduler plugins` lists the args of each plugin, and `pyscheduler config` shows them with their "
        "defaults.",
    ),
)

_HEAD: Final = """\
# When a plugin misbehaves

Each section shows a plugin with one mistake, the message, and the remedy. In the messages, `...` stands for any text.
This page is made from [the list of wrong plugins](../../tests/testing/wrong_plugins.py), which the test suite runs.
`python -m tests.testing.wrong_plugins` writes the page.

## Where the messages appear

- In the log of the scheduler. The first failure of a kind has its traceback. The scheduler counts the failures
  after the first, and logs the 10th, the 100th and so on. Two failures are of one kind if plugin, extension point, type
  of the exception and line are the same.
- In the pod's event and condition, if the failure ended an attempt.
- In `pyscheduler explain --traceback`, which asks the plugins about one pod.
- In your tests: the fixture `pyscheduler_cluster` fails the test at teardown with the exception of the plugin, and
  `pytest --pdb` stops in the plugin. A test that is about a failure passes `allow_plugin_errors=True` to
  `cluster.framework(...)` and reads `framework.plugin_errors`.
- In the metric `pyscheduler_plugin_failures_total`, with the labels `plugin` and `extension_point`.
"""


def rendered() -> str:
    """Return the page."""
    parts = [_HEAD]
    for row in ROWS:
        code = inspect.getsource(row.plugin).rstrip("\n")
        args = f"\nwith the args `{dict(row.args)[row.name]}`:\n" if row.args else ""
        parts.append(
            f"## {row.symptom}\n\n```python\n{code}\n```\n{args}\n```text\n{row.message}\n```\n\n{row.remedy}\n"
        )
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(rendered(), encoding="utf-8")

"""Wrong plugins, one mistake each; `wrong_plugin_rows.py` has the message that an author gets for each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

import attrs
import numpy as np

from pyscheduler import (
    BindPlugin,
    ClusterEvent,
    Code,
    CycleState,
    EnqueueExtensions,
    FilterPlugin,
    Handle,
    NodeStatuses,
    PermitPlugin,
    Pod,
    PostBindPlugin,
    PostFilterPlugin,
    PreFilterPlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
    SignFragment,
    SignPlugin,
    Status,
)
from pyscheduler.api import ConfigMap, kind_of
from pyscheduler.framework import (
    ActionType,
    ClusterEventWithHint,
    EventResource,
    NodeInfo,
    Nodes,
    PluginRegistry,
    QueuedPodInfo,
)
from pyscheduler.framework.plugin_args import Duration

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


class HandleOnly(ScorePlugin):
    """Takes the handle only."""

    def __init__(self, handle: Handle) -> None:
        super().__init__(None, handle)

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 0


class NoSuper(FilterPlugin):
    """Does not call the constructor of its base class."""

    def __init__(self, args: object, handle: Handle) -> None:
        self.limit = 3

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        busy = self.handle.nominator.pods_on(node.name)
        return NO_ROOM if len(busy) > self.limit else None


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


class BoolHint(FilterPlugin, EnqueueExtensions):
    """Its hint returns a bool."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return NO_ROOM

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD), self.is_worth_it)]  # type: ignore[arg-type]

    def is_worth_it(self, pod: Pod, old: object | None, new: object | None) -> bool:
        return False


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


class WaitsAtPreFilter(PreFilterPlugin):
    """Returns a code that the extension point does not have."""

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        return Status.wait("waits for a licence", timeout=5)


class SuccessWithReason(ReservePlugin):
    """Gives a reason with a success, where a rejection was meant."""

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return Status(Code.SUCCESS, "no licence is left")

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass


class SignsWithText(FilterPlugin, SignPlugin):
    """Its signature is a text."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        return None

    def sign_pod(self, pod: Pod) -> Any:
        return pod.labels.get("tier", "")


class SignsWithDict(FilterPlugin, SignPlugin):
    """The value of its fragment cannot be compared by hash."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        return None

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return [SignFragment("example.com/labels", pod.labels)]


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


class TextRetry(FilterPlugin):
    """Gives the time of a retry as a text."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return Status.unschedulable("closed", retry_after="5m")  # type: ignore[arg-type] # the mistake


class NominatesByName(FilterPlugin, PostFilterPlugin):
    """Returns the name of a node in place of a `PostFilterResult`."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return NO_ROOM

    def post_filter(self, state: CycleState, pod: Pod, statuses: NodeStatuses) -> Any:
        return "n1", Status(Code.SUCCESS)


class WritesSnapshot(FilterPlugin):
    """Writes into an array of the snapshot."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        free = nodes.allocatable("cpu")
        free -= nodes.requested("cpu")
        return NodeStatuses.failing(free <= 0, NO_ROOM)


class ChangesLabels(PreFilterPlugin):
    """Changes the pod, which all plugins and the cache share."""

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> None:
        pod.labels["seen"] = "yes"


# async and await


class AsyncFilter(FilterPlugin):
    """`async def` where the scheduler does not await."""

    async def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:  # type: ignore[override]
        await asyncio.sleep(0)
        return None


class TextReuse(ScorePlugin):
    """`reuse` is a text."""

    reuse = "while node stays"  # type: ignore[assignment] # the mistake

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 0


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


class SpawnsFunction(PostBindPlugin):
    """Forgets the parentheses of a coroutine."""

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.handle.spawn(self.report)  # type: ignore[arg-type] # the mistake

    async def report(self) -> None:
        """Tell somebody."""


class Blocks(PreFilterPlugin):
    """Waits for something else, and the whole scheduler waits with it."""

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> None:
        time.sleep(0.3)


# The class


class BlocksInHandler(PostBindPlugin):
    """Waits for something else in an event handler."""

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        handle.lister(Pod).add_event_handler(on_add=self.pod_added)

    def pod_added(self, pod: Pod) -> None:
        time.sleep(0.3)

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass


class AsyncHandler(PostBindPlugin):
    """Gives a coroutine function as an event handler: nobody awaits it."""

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        handle.lister(Pod).add_event_handler(on_add=self.pod_added)  # type: ignore[arg-type] # the mistake

    async def pod_added(self, pod: Pod) -> None:
        await self.handle.clock.sleep(1)

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass


class Misspelled(FilterPlugin):
    """`filter_node` for `filter_nodes`."""

    def filter_node(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        return None


class OldName(ScorePlugin):
    """`normalize_score`, as in Go, for `normalize_scores`."""

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
        return nodes.pod_counts()

    def normalize_score(self, state: CycleState, pod: Pod, scores: Any) -> None:
        scores[:] = 100 - scores


class TooFewParameters(FilterPlugin):
    """Has no parameter for the state."""

    def filter(self, pod: Pod, node: NodeInfo) -> Status | None:  # type: ignore[override] # the mistake
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


class UnknownResource(FilterPlugin):
    """Registers the events of a resource that does not exist."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return NO_ROOM

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [ClusterEventWithHint(ClusterEvent("pods", ActionType.DELETE))]


class UnknownAction(FilterPlugin):
    """Registers an action that does not exist."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return NO_ROOM

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        changed = ActionType.UPDATE_NODE_LABELS  # type: ignore[attr-defined] # the mistake
        return [ClusterEventWithHint(ClusterEvent(EventResource.NODE, changed))]


class WaitsForever(PermitPlugin):
    """Makes a pod wait and never allows it."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return Status.wait("waits for a licence", timeout=1e9)


class AllowsAnother(PermitPlugin):
    """Allows the pods that wait in the name of a plugin that does not exist."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        for waiting in self.handle.waiting_pods():
            waiting.allow("AllowAnother")
        return Status.wait("for another pod", timeout=60)


class BindsNothing(BindPlugin):
    """Forgets the request to the API server."""

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None


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


class Outside(StrEnum):
    """What happens to a pod outside of its hours."""

    ALLOW = "allow"
    REJECT = "reject"


@attrs.frozen
class ScheduledArgs:
    """The args of `Scheduled`."""

    outside: Outside = Outside.REJECT


class Scheduled(ScorePlugin):
    """Has an enum among its args."""

    args_type = ScheduledArgs

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 0


@attrs.frozen
class PatientArgs:
    """The args of `Patient`."""

    patience_seconds: Duration = "30s"  # type: ignore[assignment] # the mistake


class Patient(ScorePlugin):
    """Has args `patience_seconds: Duration = "30s"`."""

    args_type = PatientArgs

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 0


@attrs.frozen
class GracefulArgs:
    """The args of `Graceful`."""

    grace: timedelta = timedelta(seconds=30)


class Graceful(ScorePlugin):
    """Has args `grace: timedelta`."""

    args_type = GracefulArgs

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 0


class Unread(ScorePlugin):
    """Reads a kind that it did not declare."""

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.prices = handle.lister(ConfigMap)

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 0


class UnreadByName(ScorePlugin):
    """Names a kind by a text."""

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.prices = handle.lister("configmaps")  # type: ignore[arg-type] # the mistake

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 0


class WatchesClass(ScorePlugin):
    """Declares a class where a `ResourceKind` is needed."""

    watches = (ConfigMap,)  # type: ignore[assignment] # the mistake

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 0


class WatchesWithoutTuple(ScorePlugin):
    """Forgets the comma of a tuple."""

    watches = kind_of(ConfigMap, "configmaps")  # type: ignore[assignment] # the mistake

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 0


class WatchesSingular(ScorePlugin):
    """Names a kind in the singular."""

    watches = (kind_of(ConfigMap, "configmap"),)

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 0


class RbacByName(PostBindPlugin):
    """Names its permissions by texts."""

    rbac = ("pods/patch",)  # type: ignore[assignment] # the mistake

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass


class ByName(QueueSortPlugin):
    """Sorts the queue, which the default plugin PrioritySort does, too."""

    def sort_key(self, info: QueuedPodInfo) -> tuple[object, ...]:
        return (info.pod.name,)


class NodeAffinity(ScorePlugin):
    """Has the name of another plugin."""

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 0


def pyscheduler_register(registry: PluginRegistry) -> None:
    """Name a module that cannot be imported."""
    registry.add("Rack", "acme_plugins.rack:Rack")

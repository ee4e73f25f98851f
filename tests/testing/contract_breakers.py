"""Plugins that break the contract, each in one way; almost each fails one check of `check_plugin`."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Pod, pod_requests
from pyscheduler.framework import (
    CPU,
    ActionType,
    BindPlugin,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    NodeInfo,
    Nodes,
    NodeStatuses,
    PermitPlugin,
    PostBindPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    QueueingHint,
    ReservePlugin,
    Reuse,
    ScorePlugin,
    SignFragment,
    SignPlugin,
    Status,
)

NO_ROOM = Status.unschedulable("node(s) had no headroom")


class BindsNothing(BindPlugin):
    """Returns success and sends no binding."""

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None


class RaisesWithoutLabel(FilterPlugin):
    """Raises for a pod without the label that it reads."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return NO_ROOM if pod.labels["tier"] == "c" else None


class RaisesInHint(FilterPlugin, EnqueueExtensions):
    """Raises in a queueing hint."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return NO_ROOM if len(node.pods) >= 1 else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        gone = ClusterEvent(EventResource.POD, ActionType.DELETE)
        return [ClusterEventWithHint(gone, self.after_deletion)]

    def after_deletion(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        return new.labels["tier"]  # type: ignore[union-attr]


class RejectsWithoutReason(FilterPlugin):
    """Rejects nodes, and tells nobody why."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return Status.unschedulable() if node.node.spec.unschedulable else None  # type: ignore[union-attr]


class ReturnsBool(FilterPlugin):
    """Returns True for a node that fits."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return True  # type: ignore[return-value]


class ScoresWithoutNormalizing(ScorePlugin):
    """Returns amounts as scores."""

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        return nodes.allocatable(CPU) - nodes.requested(CPU)


class TwoForms(FilterPlugin):
    """Compares with <= in one form, and with < in the other."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return NO_ROOM if len(node.pods) >= 1 else None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        return NodeStatuses.failing(nodes.pod_counts() > 1, NO_ROOM)


class ChangesNodes(PreFilterPlugin):
    """Counts the pod in on the nodes of the snapshot."""

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> None:
        for node in nodes:
            node.requested.milli_cpu += 1


class WritesArrays(FilterPlugin):
    """Subtracts in place from an array of the snapshot."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        free = nodes.allocatable(CPU)
        free -= nodes.requested(CPU)
        return NodeStatuses.failing(free < 0, NO_ROOM)


class PrefersRows(FilterPlugin):
    """Rejects the last row."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        return NodeStatuses.failing((np.arange(len(nodes)) == len(nodes) - 1) & (len(nodes) > 1), NO_ROOM)


class ComparesNodes(FilterPlugin):
    """Rejects nodes with more pods than the average of the nodes that it was given."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        return NodeStatuses.failing(nodes.pod_counts() > nodes.pod_counts().mean(), NO_ROOM)


class SignsNothing(FilterPlugin, SignPlugin):
    """Depends on a label, and does not sign it."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        return NodeStatuses.failing((nodes.pod_counts() > 0) & ("tier" in pod.labels), NO_ROOM)

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return []


class ReusesTooLong(FilterPlugin, SignPlugin):
    """Depends on the pods of a node, and says that it depends on the node only."""

    reuse = Reuse.WHILE_NODE_STAYS

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        return NodeStatuses.failing(nodes.pod_counts() > 1, NO_ROOM)

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return []


class ReusesLabels(ScorePlugin, SignPlugin):
    """Depends on a label of the pod, which no reused answer may."""

    reuse = Reuse.WHILE_AMOUNTS_STAY

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        return nodes.pod_counts() * (1 if pod.labels.get("tier") == "a" else 2)

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return [SignFragment("tier", pod.labels.get("tier"))]


class ForgetsUnreserve(ReservePlugin):
    """Has ten licenses, and never takes one back."""

    def __init__(self, args: object = None, handle: object = None) -> None:
        super().__init__(args, handle)  # type: ignore[arg-type]
        self.used: set[str] = set()

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if len(self.used) >= 10:
            return Status.unschedulable("no license is left")
        self.used.add(pod.uid)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        return


class UnreservesTwice(ReservePlugin, FilterPlugin):
    """Counts down at each unreserve, though nothing was reserved."""

    def __init__(self, args: object = None, handle: object = None) -> None:
        super().__init__(args, handle)  # type: ignore[arg-type]
        self.held = 0

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return NO_ROOM if self.held < 0 else None

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.held += 1
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.held -= 1


class MissesDeletions(FilterPlugin, EnqueueExtensions):
    """Takes one pod for each node, and does not register the deletion of pods."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        return NodeStatuses.failing(nodes.pod_counts() >= 1, NO_ROOM)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD))]


class SkipsDeletions(MissesDeletions):
    """Registers the deletion of pods, with a hint that only looks at pods with a label."""

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        gone = ClusterEvent(EventResource.POD, ActionType.DELETE)
        return [*super().events_to_register(), ClusterEventWithHint(gone, self.after_deletion)]

    def after_deletion(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        wanted = isinstance(old, Pod) and old.labels.get("tier") == "a"
        return QueueingHint.QUEUE if wanted else QueueingHint.SKIP


class MissesNodes(FilterPlugin, EnqueueExtensions):
    """Waits for nothing, although a new node may have a better disk."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        disks = nodes.labels("disk")
        return NodeStatuses.failing(disks.ids == disks.id_of("hdd"), NO_ROOM)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ()


class KeepsGate(PreEnqueuePlugin, EnqueueExtensions):
    """Gates pods with a label, and registers no change of it."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return Status.unresolvable("tier a is closed") if pod.labels.get("tier") == "a" else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.DELETE))]


class CountsAttempts(PreFilterPlugin):
    """Rejects everything after some calls."""

    def __init__(self, args: object = None, handle: object = None) -> None:
        super().__init__(args, handle)  # type: ignore[arg-type]
        self.calls = 0

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        self.calls += 1
        return NO_ROOM if self.calls > 12 else None


class RemembersDeletedPods(ReservePlugin, FilterPlugin):
    """Books what pods request, and never forgets a pod that was deleted."""

    def __init__(self, args: object = None, handle: object = None) -> None:
        super().__init__(args, handle)  # type: ignore[arg-type]
        self.booked: dict[str, tuple[str, int]] = {}

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        used = sum(amount for name, amount in self.booked.values() if name == node.name)
        return NO_ROOM if used + pod_requests(pod).get(CPU, 0) > node.allocatable.milli_cpu else None

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.booked[pod.uid] = (node_name, pod_requests(pod).get(CPU, 0))
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.booked.pop(pod.uid, None)


class HashesNames(ScorePlugin):
    """Spreads pods by the hash of a text."""

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return hash((pod.name, node.name)) % 100


class CountsInClass(ScorePlugin, ReservePlugin):
    """Keeps a counter in the class, which outlives the plugin object."""

    placed: ClassVar[Counter[str]] = Counter()

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        return np.array([100 - self.placed[node.name] % 100 for node in nodes], dtype=np.int64)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.placed[node_name] += 1

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.placed[node_name] -= 1


class ReadsWallClock(FilterPlugin):
    """Decides by the clock of the machine."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return NO_ROOM if time.time_ns() % 2 else None


class DrawsNumbers(FilterPlugin):
    """Decides by random numbers."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return random.choice((NO_ROOM, None))


class Sleeps(FilterPlugin):
    """Waits for an answer from elsewhere."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        time.sleep(0.0)
        return None


class SleepsInPreBind(PreBindPlugin):
    """Waits in a coroutine without awaiting."""

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        await self.handle.clock.sleep(1)
        time.sleep(0.0)  # noqa: ASYNC251 - the mistake
        return None


class Computes(PreFilterPlugin):
    """Computes far too long for one pod."""

    rounds: ClassVar[int] = 200_000

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> None:
        sum(number * number for number in range(self.rounds))


class Headroom(FilterPlugin, EnqueueExtensions, SignPlugin):
    """Breaks nothing: keeps a tenth of the CPU of each node free."""

    reuse = Reuse.WHILE_AMOUNTS_STAY

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        wanted = nodes.requested(CPU) + pod_requests(pod).get(CPU, 0)
        return NodeStatuses.failing(wanted > nodes.allocatable(CPU) * 9 // 10, NO_ROOM)

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return [SignFragment("cpu", pod_requests(pod).get(CPU, 0))]

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        grown = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE)
        gone = ClusterEvent(EventResource.POD, ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN)
        return [ClusterEventWithHint(grown), ClusterEventWithHint(gone)]


class WaitsByLabel(PermitPlugin, EnqueueExtensions):
    """Breaks nothing: lets pods with a label wait for ten seconds; only another label helps them."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return Status.wait("waits for another label", timeout=10) if pod.labels.get("tier") == "a" else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [ClusterEventWithHint(ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_LABEL))]


class WaitsAndMissesLabels(WaitsByLabel):
    """Does not register the change of the label that it waits for."""

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD))]


class WaitsAtPreBind(PreBindPlugin):
    """Asks to wait where nobody waits."""

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return Status.wait("waits", timeout=5)


class SkipsScores(ScorePlugin):
    """Skips where a score is needed."""

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> Any:
        return Status.skip()


class RejectsAfterBinding(PostBindPlugin):
    """Rejects a pod that is bound already."""

    async def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return Status.unschedulable("too late")

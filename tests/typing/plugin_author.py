"""Code as a plugin author writes it. It is never run: `make lint` checks that it passes mypy --strict as it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never, assert_type

import attrs
import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Node, Pod
from pyscheduler.framework import (
    ActionType,
    BindPlugin,
    ClusterEvent,
    ClusterEventWithHint,
    Code,
    CycleState,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    NodeInfo,
    Nodes,
    NodeStatuses,
    PermitPlugin,
    PluginRegistry,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreBindPreFlightResult,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    QueuedPodInfo,
    QueueingHint,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
    StateKey,
    Status,
    hookimpl,
)


@attrs.frozen(kw_only=True)
class SpreadArgs:
    """The args of the plugin below, as `pluginConfig` gives them."""

    weight: int = 1


@attrs.frozen
class Wanted:
    """What PreFilter works out once for Filter and Score."""

    zone: str


WANTED: Final = StateKey[Wanted]("Spread/wanted")
NO_ROOM: Final = Status.unschedulable("node(s) had no room")


class Spread(PreEnqueuePlugin, PreFilterPlugin, FilterPlugin, ScorePlugin, EnqueueExtensions):
    """A columnar plugin with a hint."""

    args_type = SpreadArgs

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return None if pod.metadata.name else Status.unresolvable("pod has no name")

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD), self.is_worth_it)]

    def is_worth_it(self, pod: Pod, old: object | None, new: object | None, /) -> QueueingHint:
        if old is None and isinstance(new, Node) and new.metadata.name != pod.metadata.name:
            return QueueingHint.QUEUE
        return QueueingHint.SKIP

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        if not len(nodes):
            return Status.skip()
        state.write(WANTED, Wanted(zone=pod.metadata.name))
        return PreFilterResult(frozenset({nodes.name(0)}))

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        wanted = assert_type(state.read(WANTED), Wanted)
        zones = nodes.labels("topology.kubernetes.io/zone")
        return NodeStatuses.failing(zones.ids != zones.id_of(wanted.zone), NO_ROOM)

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        free = assert_type(nodes.allocatable("cpu"), NDArray[np.int64]) - nodes.requested("cpu")
        return free // 1000


class Slow(FilterPlugin, ScorePlugin, PostFilterPlugin, QueueSortPlugin):
    """A plugin that looks at one node at a time."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return NO_ROOM if node.requested.milli_cpu >= node.allocatable.milli_cpu else None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return len(node.pods)

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        return PostFilterResult.nominated("n1"), Status(Code.SUCCESS)

    def sort_key(self, info: QueuedPodInfo) -> tuple[float, int]:
        return (info.enqueued_at, info.attempts)


class Late(ReservePlugin, PermitPlugin, PreBindPlugin, BindPlugin):
    """A plugin of the binding cycle: plain up to Permit, `async` from there."""

    max_permit_wait_seconds = 3600.0

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        return

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        for waiting in self.handle.waiting_pods():
            waiting.allow(self.name)
        return Status.wait(timeout=30.0)

    def pre_bind_pre_flight(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> PreBindPreFlightResult | Status | None:
        return PreBindPreFlightResult(allow_parallel=True)

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        await self.handle.client.patch_pod_status(pod, {"nominatedNodeName": node_name})
        await self.handle.client.evict(pod, grace_seconds=30)
        return None

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        await self.handle.client.bind(pod, node_name)
        return None

    async def run(self) -> None:
        """Work on its own initiative."""
        self.handle.activate([])


def describe(code: Code) -> str:
    """Show that a match over all codes is seen as complete."""
    match code:
        case Code.SUCCESS | Code.WAIT | Code.SKIP:
            return "went on"
        case Code.ERROR:
            return "failed"
        case Code.UNSCHEDULABLE | Code.UNSCHEDULABLE_AND_UNRESOLVABLE | Code.PENDING:
            return "rejected"
        case _:
            assert_never(code)


@hookimpl
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Hand the plugins over, by name and as a class."""
    registry.add("Spread", "my_package.plugin:Spread")
    registry.add("Slow", Slow)


def misspelt_imports() -> None:
    """Import names that no package exports: errors of the type checker, although packages load names lazily."""
    from pyscheduler import FilterPlugn  # type: ignore[attr-defined] # noqa: F401
    from pyscheduler.framework import ScorePlugn  # type: ignore[attr-defined] # noqa: F401
    from pyscheduler.podgroup import PodGrups  # type: ignore[attr-defined] # noqa: F401
    from pyscheduler.testing import chek_plugin  # type: ignore[attr-defined] # noqa: F401
    from pyscheduler_batch.contract import PolicyBase  # type: ignore[attr-defined] # noqa: F401

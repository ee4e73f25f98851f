"""Ports of CapacityScheduling: namespace `b` is guaranteed 8 cpu, and preemptors of `a` take back what it borrows.

Each keeps its books in another way. Those with `may_evict` evict below the minimum, because all pods are judged while
the first is still there; `PortInTurn` is the right one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from pyscheduler.api import Pod, pod_requests
from pyscheduler.framework import (
    CPU,
    CycleState,
    Handle,
    NodeInfo,
    Nodes,
    NodeStatuses,
    PodInfo,
    PostFilterPlugin,
    PostFilterResult,
    PreemptionRules,
    PreFilterPlugin,
    StateKey,
    Status,
)
from pyscheduler.framework.namespace_usage import NamespaceUsage

__all__ = ["PortByEvents", "PortBySnapshot", "PortByState", "PortInTurn"]

MINIMUM: Final = 8000


class Used(Counter[str]):
    """Milli-CPU by namespace, as an attempt sees it."""

    def clone(self) -> Used:
        """Return a copy: what-ifs change it."""
        return Used(self)


USED: Final[StateKey[Used]] = StateKey("QuotaPort/used")


class _Port(PostFilterPlugin):
    """Preempts by the rules of the subclass."""

    rules: type[PreemptionRules]

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        rules = self.rules()
        rules.port = self  # type: ignore[attr-defined]  # each rule knows its port
        self.preemptor = handle.preemptor(self.name, rules)

    async def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        return await self.preemptor.preempt(state, pod, statuses)


class EventRules(PreemptionRules):
    port: PortByEvents

    def may_evict(self, victim: PodInfo, preemptor: Pod) -> bool:
        return preemptor.namespace == "a" and victim.pod.namespace == "b" and self.port.used["b"] > MINIMUM


class PortByEvents(_Port):
    """Counts pods by their events."""

    rules = EventRules

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.used: Counter[str] = Counter()
        handle.lister(Pod).add_event_handler(
            on_add=lambda pod: self.count(pod, 1),
            on_update=lambda old, new: (self.count(old, -1), self.count(new, 1)),  # type: ignore[arg-type, return-value]
            on_delete=lambda pod: self.count(pod, -1),
        )

    def count(self, pod: Pod, sign: int) -> None:
        """Count a pod that has a node."""
        if pod.node_name:
            self.used[pod.namespace] += sign * pod_requests(pod).get(CPU, 0)


class SnapshotRules(PreemptionRules):
    port: PortBySnapshot

    def may_evict(self, victim: PodInfo, preemptor: Pod) -> bool:
        used = self.port.usage.of("b").milli_cpu
        return preemptor.namespace == "a" and victim.pod.namespace == "b" and used > MINIMUM


class PortBySnapshot(_Port):
    """Sums over the snapshot."""

    rules = SnapshotRules
    counts_across_nodes = True

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.usage = NamespaceUsage(handle)


class StateRules(PreemptionRules):
    port: PortByState

    def may_evict(self, victim: PodInfo, preemptor: Pod) -> bool:
        used = self.port.state.read(USED)
        return preemptor.namespace == "a" and victim.pod.namespace == "b" and used["b"] > MINIMUM


class PortByState(_Port, PreFilterPlugin):
    """Keeps the sums in the state, as upstream does."""

    rules: type[PreemptionRules] = StateRules
    state: CycleState

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> None:
        self.state = state
        used = Used()
        for node in self.handle.snapshot.nodes:
            for info in node.pods:
                used[info.pod.namespace] += info.requests.milli_cpu
        state.write(USED, used)

    def add_pod(self, state: CycleState, pod: Pod, to_add: PodInfo, node: NodeInfo) -> None:
        state.read(USED)[to_add.pod.namespace] += to_add.requests.milli_cpu

    def remove_pod(self, state: CycleState, pod: Pod, to_remove: PodInfo, node: NodeInfo) -> None:
        state.read(USED)[to_remove.pod.namespace] -= to_remove.requests.milli_cpu


class TurnRules(PreemptionRules):
    def potential_victims(self, node: NodeInfo, preemptor: Pod, state: CycleState) -> Iterable[PodInfo]:
        for info in sorted(node.pods, key=lambda each: each.pod.priority):
            borrows = state.read(USED)["b"] - info.requests.milli_cpu >= MINIMUM
            if preemptor.namespace == "a" and info.pod.namespace == "b" and borrows:
                yield info


class PortInTurn(PortByState):
    """The same, and names victims until the namespace is back at its minimum."""

    rules = TurnRules

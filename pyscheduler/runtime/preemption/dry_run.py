"""Find the victims on a node: the pods that must be evicted so that a pod (the preemptor) fits there.

First, all pods that may be victims are removed from the node in the snapshot. If the preemptor does not fit then, the
node is of no use. If it fits, the pods are put back one by one, first those that disruption budgets protect.
If the preemptor no longer fits after a pod was put back, this pod is a victim.

Source: kube-scheduler 1.36, `SelectVictimsOnNode`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import numpy as np

from pyscheduler.framework.preemption import Candidate, names_in_turn
from pyscheduler.framework.status import Code, Status
from pyscheduler.runtime.preemption.victim_order import by_importance, evictable
from pyscheduler.runtime.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.handle import Handle
    from pyscheduler.framework.node_statuses import NodeStatuses
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.framework.preemption import PreemptionRules
    from pyscheduler.runtime.extension_points.reserving import Release
    from pyscheduler.runtime.preemption.disruption_budgets import Budgets

__all__ = ["NO_VICTIMS", "DryRun", "Outcome"]

#: The outcome of a node: its victims, or why it is of no use.
Outcome: TypeAlias = "Candidate | Status"

NO_VICTIMS: Final = Status.unresolvable("No preemption victims found for incoming pod")
"""The outcome of a node without possible victims."""

_SUCCESS: Final = int(Code.SUCCESS)


class _FailedError(Exception):
    """A plugin failed in `add_pod` or `remove_pod`, so that nothing is known of the node."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


@attrs.define
class _Node:
    """The state of the search on one node."""

    name: str
    #: The pods that may be victims; from `_put_back` on in the order in which they are put back.
    pods: list[PodInfo]
    #: How many of these, the first ones, disruption budgets protect.
    num_protected: int = 0
    victims: list[PodInfo] = attrs.Factory(list)
    num_violations: int = 0
    #: Set if the pod does not fit even without them.
    status: Status | None = None


@attrs.frozen(kw_only=True)
class DryRun:
    """The search for victims on behalf of one pod in one cycle. `now` in seconds since the epoch.

    `counts_across_nodes`: pods on one node may change another, or the rules name victims in turn; then `look` takes one
    node at a time.
    """

    handle: Handle
    rules: PreemptionRules
    budgets: Budgets
    state: CycleState
    pod: Pod
    now: float
    counts_across_nodes: bool
    #: Frees what victims hold in plugins' books; None if no plugin that has a say in this cycle can tell.
    release: Release | None = None
    #: As `Profile.is_needed_by_others`.
    is_needed_by_others: Callable[[Pod], bool | None]

    def look(self, names: Sequence[str]) -> list[Outcome]:
        """Return the outcome of each of these nodes; the snapshot is the same afterwards."""
        try:
            with Statement(self.handle.snapshot, release=self.release) as statement:
                return self._look(names, self.state.clone(), statement)
        except _FailedError as failure:
            assert len(names) == 1, "several nodes were searched together though a plugin counts pods across nodes"
            return [failure.status]

    def _look(self, names: Sequence[str], state: CycleState, statement: Statement) -> list[Outcome]:
        found = {name: self._empty(name, state, statement) for name in names}
        nodes = [node for node in found.values() if node is not None]
        if nodes:
            statuses = self._filter(nodes, state)
            for row, node in enumerate(nodes):
                node.status = statuses.status(row)
            self._put_back([node for node in nodes if node.status is None], state, statement)
        return [self._outcome(name, node) for name, node in found.items()]

    def _empty(self, name: str, state: CycleState, statement: Statement) -> _Node | None:
        """Evict all pods of the node that may be victims; None if there are none."""
        info = self.handle.snapshot.get(name)
        assert info is not None, f"node {name} is not in the snapshot"
        potential = evictable(info, self.rules, self.pod, state)
        victims = (each for each in potential if self.is_needed_by_others(each.pod) is None)
        if not self.counts_across_nodes:
            pods = list(victims)
            statement.evict_all(pods, name, free_ports=True)
        else:
            pods = []
            for each in victims if names_in_turn(self.rules) else list(victims):
                self._take_off(each, name, state, statement)
                pods.append(each)
        return _Node(name, pods) if pods else None

    def _put_back(self, nodes: list[_Node], state: CycleState, statement: Statement) -> None:
        """Put pods back as long as the pod in question still fits, one per node and round."""
        for node in nodes:
            protected, others = self.budgets.split(by_importance(node.pods, self.rules, self.now))
            node.pods = [*protected, *others]
            node.num_protected = len(protected)
        turn = 0
        while nodes := [node for node in nodes if turn < len(node.pods)]:
            for node in nodes:
                self._put_on(node.pods[turn], node.name, state, statement)
            fits = self._filter(nodes, state).codes == _SUCCESS
            for row in np.flatnonzero(~fits).tolist():
                node = nodes[row]
                self._take_off(node.pods[turn], node.name, state, statement)
                node.victims.append(node.pods[turn])
                node.num_violations += turn < node.num_protected
            turn += 1

    def _outcome(self, name: str, node: _Node | None) -> Outcome:
        if node is None:
            return NO_VICTIMS
        if node.status is not None:
            return node.status
        if not node.victims:
            return Status.from_error(RuntimeError(f'expected at least one victim pod on node "{name}"'))
        if 0 < node.num_protected < len(node.pods):
            node.victims = by_importance(node.victims, self.rules, self.now)
        return Candidate(node_name=name, victims=tuple(node.victims), pdb_violations=node.num_violations)

    def _filter(self, nodes: Sequence[_Node], state: CycleState) -> NodeStatuses:
        view = self.handle.snapshot.nodes
        rows = np.array([view.index(node.name) for node in nodes], dtype=np.int64)
        return self.handle.run_filters(state, self.pod, view.take(rows))

    def _take_off(self, info: PodInfo, name: str, state: CycleState, statement: Statement) -> None:
        # As in kube-scheduler, an evicted pod frees its host ports even if another pod uses them, too.
        statement.evict_all((info,), name, free_ports=True)
        if self.counts_across_nodes:
            node = self.handle.snapshot.get(name)
            assert node is not None, f"node {name} vanished within a statement"
            status = self.handle.run_remove_pod(state, self.pod, info, node)
            if status is not None:
                raise _FailedError(status)

    def _put_on(self, info: PodInfo, name: str, state: CycleState, statement: Statement) -> None:
        statement.place(info, name)
        if self.counts_across_nodes:
            node = self.handle.snapshot.get(name)
            assert node is not None, f"node {name} vanished within a statement"
            status = self.handle.run_add_pod(state, self.pod, info, node)
            if status is not None:
                raise _FailedError(status)

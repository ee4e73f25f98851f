"""Preemption for plugins: the rules that a plugin can change, and the results of a search for victims.

A plugin gets a `Preemptor` with `handle.preemptor(name, rules)`. To change rules, it passes a subclass of
`PreemptionRules`.

Source: kube-scheduler 1.36, `framework/preemption` and `plugins/defaultpreemption`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import attrs

from kube_objects.times import seconds_of
from pyscheduler.framework.cycle_state import StateKey
from pyscheduler.framework.departures import is_preempted, is_stuck
from pyscheduler.framework.status import Code
from pyscheduler.framework.trial import PREEMPTION_INQUIRY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection, Hashable, Iterable, Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.interfaces import PostFilterResult
    from pyscheduler.framework.node_info import NodeInfo
    from pyscheduler.framework.node_statuses import NodeStatuses
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.framework.snapshot import Snapshot
    from pyscheduler.framework.status import Status

__all__ = [
    "PREEMPTION_FINDINGS",
    "Candidate",
    "PreemptionExtender",
    "PreemptionFindings",
    "PreemptionRules",
    "Preemptor",
    "names_in_turn",
    "preemption_findings",
    "start_time",
]


@attrs.frozen(kw_only=True)
class Candidate:
    """A node that could take the pod, and the pods that would have to go, the most important first.

    `pdb_violations`: how many of them their disruption budgets protect.
    """

    node_name: str
    victims: tuple[PodInfo, ...]
    pdb_violations: int = 0


@attrs.define(kw_only=True)
class PreemptionFindings:
    """The findings of a search for victims.

    `refusal`: why the pod may not preempt at all, or "". `candidates` and `statuses` have an entry for each node that
    was looked at: whom it would cost, or why it would be in vain. `best` are the candidates that are left when all
    rules are applied; the scheduler takes any of them, `chosen`. `plugin` is the one that would preempt. `violated` are
    the keys of the disruption budgets that evicting the victims of `chosen` violates.
    """

    refusal: str = ""
    candidates: Mapping[str, Candidate] = attrs.Factory(dict)
    statuses: Mapping[str, Status] = attrs.Factory(dict)
    best: Sequence[Candidate] = ()
    chosen: Candidate | None = None
    plugin: str = ""
    violated: Sequence[str] = ()


#: Where a preemptor leaves what it found if `state.trial` is set: it evicts nobody then, and the pod need not exist.
PREEMPTION_FINDINGS: Final[StateKey[PreemptionFindings]] = StateKey("pyscheduler/preemption-findings")


def preemption_findings(state: CycleState) -> PreemptionFindings | None:
    """Return what preemption found in a trial; None if it did not run."""
    inquiry = state.get(PREEMPTION_INQUIRY)  # a plugin that was written before `state.trial` leaves them there
    found = inquiry.findings if inquiry is not None else None
    return state.get(PREEMPTION_FINDINGS) or (found if isinstance(found, PreemptionFindings) else None)


class PreemptionRules:
    """The rules of preemption: pods that may preempt, possible victims, and the number of nodes to look at.

    `keeps_bookings_of` names plugins in whose books a victim keeps what it holds while the search tries to do without
    it. kube-scheduler finds neither the device nor the volume of a victim, and so do these rules. A plugin that wants
    them found sets an empty collection.
    """

    keeps_bookings_of: Collection[str] = ("DynamicResources", "VolumeBinding")

    def refusal(self, pod: Pod, nominated: NodeInfo | None, nominated_status: Status | None) -> str:
        """Return why `pod` may not preempt now, or "".

        `nominated` is the node in its status, where there is one, and `nominated_status` what filters said of it: while
        victims of an earlier preemption end there, there is nothing to do but wait.
        """
        if pod.spec.preemption_policy == "Never":
            return "not eligible due to preemptionPolicy=Never."
        if nominated is None or (
            nominated_status is not None and nominated_status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        ):
            return ""
        # A victim that has given its share back may be no potential victim any more; what it frees counts all the same.
        any_counts = names_in_turn(self)
        if any(is_preempted(info.pod) and (any_counts or self.may_evict(info, pod)) for info in nominated.pods):
            return "not eligible due to a terminating pod on the nominated node."
        return ""

    def may_evict(self, victim: PodInfo, preemptor: Pod) -> bool:
        """Return True if `victim` may be evicted for `preemptor`, whichever other pods are evicted.

        Called for all pods of a node before the first of them is taken off. If the answer depends on what other pods
        hold, as that of a quota does, define `potential_victims` in its place.
        """
        return victim.pod.priority < preemptor.priority

    def potential_victims(self, node: NodeInfo, preemptor: Pod, state: CycleState) -> Iterable[PodInfo]:
        """Return or yield the pods of `node` that may be evicted for `preemptor`; by default those that `may_evict`.

        Where it is defined as a generator, each pod that it yields is taken off before it goes on: off the snapshot,
        and off `state` by `remove_pod` of all plugins. So a quota yields pods while its sum in `state` is above its
        minimum. Pods that the preemptor does not need are put back later, with `add_pod`, the most important first.
        `node` keeps its pods in the meantime; `handle.snapshot.get(node.name)` lacks those taken off. `state` is a copy
        of the state of the preemptor's cycle, one for each node.
        """
        return [info for info in node.pods if self.may_evict(info, preemptor)]

    def is_stuck(self, node: NodeInfo, preemptor: Pod, now: float) -> bool:
        """Return True if pods of lower priority may never leave a node: `preemptor` looks for other victims then.

        That is so if the node is not ready, or if such a pod outlives its grace period. `now` in seconds since the
        epoch.

        Differs from kube-scheduler, where a preemptor waits until the node is tainted.
        """
        return is_stuck(node, preemptor, now)

    def group_budget(self, victim: Pod) -> tuple[Hashable, int] | None:
        """Return what else protects the victim, as a budget: whose it is, and how many of its pods may go now.

        It counts like a disruption budget. None where there is nothing.
        """
        return None

    def enough_candidates(self, num_nodes: int) -> int:
        """Return after how many candidates the search among `num_nodes` nodes may end.

        As in kube-scheduler, a tenth of the nodes, and at least 100. To look at all nodes costs a dry run on each.
        """
        return min(max(num_nodes // 10, 100), num_nodes)

    def importance(self, victim: PodInfo, now: float) -> tuple[float, ...]:
        """Return a sort key: who comes first is spared first. `now` in seconds since the epoch.

        Among equals decides where they stand on the node, as kube-scheduler's sort leaves them. A key that grows with
        `now` is looked at later the second time: each of two such pods comes before the other.
        """
        return (-victim.pod.priority, start_time(victim.pod, now))


def names_in_turn(rules: PreemptionRules) -> bool:
    """Return True if the rules name a victim only after the one before it was taken off."""
    return type(rules).potential_victims is not PreemptionRules.potential_victims


def start_time(pod: Pod, now: float) -> float:
    """Return when the pod was started, in seconds since the epoch; one that was not yet starts `now`."""
    return seconds_of(pod.status.start_time, now)


class PreemptionExtender(Protocol):
    """A process beside the scheduler, as far as preemption asks it."""

    @property
    def name(self) -> str:
        """Return what it is called in logs."""
        ...

    @property
    def ignorable(self) -> bool:
        """Return whether the search goes on without it where it fails."""
        ...

    def supports_preemption(self) -> bool:
        """Return whether it wants to be asked about victims at all."""
        ...

    def is_interested(self, pod: Pod) -> bool:
        """Return whether it takes part in the choice of a node for `pod`."""
        ...

    def process_preemption(
        self, pod: Pod, candidates: Mapping[str, Candidate], snapshot: Snapshot
    ) -> Mapping[str, Candidate] | Awaitable[Mapping[str, Candidate]]:
        """Return the nodes, by name, on which the preemption may go on, with their victims; any exception is a failure.

        It may drop nodes and choose other victims.
        """
        ...


class Preemptor(Protocol):
    """Makes room for pods in the name of one plugin."""

    def refusal(self, pod: Pod, statuses: NodeStatuses) -> str:
        """Return why the pod may not preempt now, or ""."""
        ...

    async def preempt(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        """Find victims, choose the node, and have them evicted; `statuses` are the filters'.

        SUCCESS nominates the pod. Victims go in the background with the gate SchedulerAsyncPreemption on, else before
        this returns. Lets the loop turn.
        """
        ...

    def is_preempting(self, uid: str) -> bool:
        """Return whether victims of the pod with that uid are still being evicted: it should not be tried yet."""
        ...

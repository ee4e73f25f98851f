"""Preemption for groups whose members are scheduled one by one, and wait for each other at Permit.

The scheduler evicts victims only if enough members of the group then fit.

Differs from kube-scheduler, in which each member preempts for itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler.framework.errors import PLUGIN_FAILURES
from pyscheduler.framework.group_cycle import GroupOutcome
from pyscheduler.framework.interfaces import NominatingInfo
from pyscheduler.framework.plugin_failures import GROUP_CYCLE
from pyscheduler.framework.preemption import PREEMPTION_FINDINGS, PreemptionFindings
from pyscheduler.framework.status import Code, Status
from pyscheduler.framework.trial import Trial, TrialKind
from pyscheduler.runtime.cooperative_yield import CooperativeYield
from pyscheduler.scheduler.awaited_room import awaited_room
from pyscheduler.scheduler.failure import CLEAR_NOMINATION
from pyscheduler.scheduler.group_cycle import GroupCycles, Groups, order_of_attempts
from pyscheduler.scheduler.scheduling_cycle import Failure

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyscheduler.api import Pod
    from pyscheduler.framework.diagnosis import FitError
    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.attempt import Attempt
    from pyscheduler.scheduler.group_commit import Decision

__all__ = ["GangPreemption"]


_IN_VAIN = "preemption: not eligible because the other pods of its group would not fit"


@attrs.frozen
class GangPreemption:
    """Evicts victims for whole groups."""

    cycles: GroupCycles

    async def make_room(self, attempt: Attempt, error: FitError) -> Failure | None:
        """Make room for the group of a pod that fits nowhere; return None if the pod may preempt for itself."""
        profile, scheduling = attempt.profile, self.cycles.scheduling
        gang = self._gang(profile, attempt.queued.pod) if profile.preemptors else None
        if gang is None:
            return None
        # Most groups that do not fit have no possible victims, and may have thousands of members.
        are_promised = bool(scheduling.queue.nominator.nodes)
        if not are_promised and not await self._can_preempt(attempt, error):
            return None
        others = self._others(attempt.queued, gang)
        nominating = self._nomination(attempt.queued)
        quiet = Failure(Status(Code.UNSCHEDULABLE, error=error), nominating)
        if any(self._is_awaiting(profile, info) for info in (attempt.queued, *others)):
            return quiet
        if nominating is not None and gang.source.name in error.diagnosis.unschedulable_plugins:
            # Its plugin refuses the group for a while. The room that was made for it is still its own.
            await scheduling.ask_post_filters(attempt, error, runs=_others_than(profile))
            return quiet
        turns = CooperativeYield(scheduling.clock)
        if are_promised and not await self._can_preempt(attempt, error):
            if not any(map(self._nomination, others)):
                return None
            decision = await self.cycles.rehearse(gang, profile, others, turns)
            return quiet if decision.has_enough else None
        infos = [attempt.queued, *others]
        decision = await self.cycles.rehearse(gang, profile, infos, turns)
        own = next(each for each in decision.members if each.uid == attempt.queued.pod.uid)
        if own.is_placed and decision.verdict.outcome is GroupOutcome.WAITING_ON_PREEMPTION:
            return await self._preempt(decision, attempt, error)
        await scheduling.ask_post_filters(attempt, error, runs=_others_than(profile), reason=_IN_VAIN)
        return Failure(Status(Code.UNSCHEDULABLE, error=error))

    def nomination_after(self, attempt: Attempt) -> NominatingInfo:
        """Return the nomination of a pod that loses its node: the same node, if its group waits for victims to end."""
        profile, nominator = attempt.profile, self.cycles.scheduling.queue.nominator
        gang = self._gang(profile, attempt.queued.pod) if profile.preemptors and nominator.nodes else None
        if gang is None or not any(self._is_awaiting(profile, info) for info in self._others(attempt.queued, gang)):
            return CLEAR_NOMINATION
        return NominatingInfo(attempt.node_name)

    def _gang(self, profile: Profile, pod: Pod) -> Groups | None:
        for source in profile.group_cycle_plugins:
            try:
                members = source.groups_to_preempt(pod)
            except PLUGIN_FAILURES as error:
                failures, call = self.cycles.scheduling.plugin_failures, source.groups_to_preempt
                failures.report(error, plugin=source.name, point=GROUP_CYCLE, about=f"pod={pod.key}", call=call)
                continue
            if members is not None:
                return Groups(source, members)
        return None

    def _others(self, first: QueuedPodInfo, gang: Groups) -> list[QueuedPodInfo]:
        """Return the other members that wait in the queue, in the order in which they would be tried."""
        queue = self.cycles.scheduling.queue
        found = [info for pod in gang.others_than(first.pod) if (info := queue.get(pod.uid)) is not None]
        return sorted(found, key=order_of_attempts)

    def _is_awaiting(self, profile: Profile, info: QueuedPodInfo) -> bool:
        """Return True if victims of a member are being evicted, or are leaving the node that it is nominated to."""
        if any(preemptor.is_preempting(info.pod.uid) for preemptor in profile.preemptors.values()):
            return True
        scheduling = self.cycles.scheduling
        return awaited_room(scheduling, profile, info.pod_info, joint=scheduling.group_of(info.pod)) is not None

    def _nomination(self, info: QueuedPodInfo) -> NominatingInfo | None:
        """Return the nomination of a pod, as it is; None if it has none."""
        node_name = self.cycles.scheduling.queue.nominator.node_of(info.pod.uid)
        return NominatingInfo(node_name) if node_name else None

    async def _can_preempt(self, attempt: Attempt, error: FitError) -> bool:
        """Return True if victims can make room for the pod; that is less work than a trial of the whole group."""
        profile, state = attempt.profile, attempt.state.clone()
        state.begin_trial(Trial(TrialKind.QUESTION))
        result, _ = await profile.run_post_filter(
            state, attempt.queued.pod, error.diagnosis.node_statuses, runs=profile.preemptors.keys()
        )
        nominating = result.nominating_info if result is not None else None
        return nominating is not None and bool(nominating.node_name)

    async def _preempt(self, decision: Decision, attempt: Attempt, error: FitError) -> Failure:
        """Evict the victims of all members, and nominate these."""
        scheduling, own = self.cycles.scheduling, CLEAR_NOMINATION
        for member in decision.members:
            if not member.is_placed:
                continue
            info, node_name = member.attempt.queued, member.attempt.node_name
            if member.candidate is not None:
                preemption = attempt.profile.preemptors[member.preemptor]
                failure = await preemption.evict(member.candidate, info.pod)
                if failure is not None:
                    return Failure(failure)
            if member.uid == attempt.queued.pod.uid:
                own = NominatingInfo(node_name)
                findings = PreemptionFindings(chosen=member.candidate, plugin=member.preemptor)
                attempt.state.write(PREEMPTION_FINDINGS, findings)
            else:
                scheduling.queue.nominator.add(info.pod_info, NominatingInfo(node_name))
        return Failure(Status(Code.UNSCHEDULABLE, error=error), own)


def _others_than(profile: Profile) -> Collection[str]:
    """Return the plugins that do not preempt."""
    return profile.plugins.keys() - profile.preemptors.keys()

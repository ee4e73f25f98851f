"""Place all pending members of a gang in one attempt (`strategy: groupCycle`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.framework import Status
from pyscheduler_gang import messages

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from pyscheduler.api import Pod
    from pyscheduler.framework import Trial
    from pyscheduler_gang.gangs import Gangs
    from pyscheduler_gang.record import GangRecord

__all__ = ["groups_to_schedule", "permit"]


def groups_to_schedule(gangs: Gangs, pod: Pod) -> Mapping[Hashable, Iterable[Pod]] | None:
    """Return the gangs of the pod's gang group with their members of the same profile; None to schedule it alone."""
    record = gangs.of(pod)
    if record is None or not record.state.group.is_declared:
        return None
    if gangs.is_satisfied_for_good(record) and not gangs.gathers(record):
        return None
    if gangs.not_ready(record, pod) is not None:
        return None  # PreFilter refuses it, and the others sleep on
    found: dict[Hashable, Iterable[Pod]] = {}
    for each in gangs.group(record):
        members = {
            uid: other
            for uid, other in each.state.pending.items()
            if other.scheduler_name == pod.scheduler_name and uid not in each.timed_out
        }
        if each is record:
            members[pod.uid] = pod
        found[each.id] = members.values()
    return found


def permit(gangs: Gangs, record: GangRecord, trial: Trial) -> Status | None:
    """Return None if every gang of the gang group has its quorum, counting members with a node in this cycle."""
    if gangs.has_quorum(record, trial):
        return None
    # The timeout has no effect: no member waits in a group cycle.
    return Status.wait(messages.not_enough_placed(record.id), timeout=gangs.wait_seconds(record))

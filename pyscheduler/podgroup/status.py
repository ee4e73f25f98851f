"""What belongs into the status of a group, computed from its members. Nothing here writes it.

Every count is taken from the members anew, never added up, so that nothing drifts over restarts and deletions
(Koordinator #2030). A step moves a phase by one; whoever writes it runs again with the result, as a controller does.
Sources: the PodGroup controllers of scheduler-plugins and Koordinator; Kubernetes 1.36, `PodGroupScheduled`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import attrs
import msgspec

from pyscheduler.api import DecodeError, PodCondition, format_time, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.podgroup.wire import GroupStatus

__all__ = [
    "LONGEST_WAIT_SECONDS",
    "POD_GROUP_SCHEDULED",
    "TERMINAL_GROUP_PHASES",
    "MemberFacts",
    "Phase",
    "StatusStyle",
    "is_overdue",
    "is_unschedulable",
    "next_status",
    "occupied_by",
    "scheduled_condition",
    "status_patch",
]


class StatusStyle(StrEnum):
    """What the status of a dialect's object holds, and by which rules."""

    #: Phases of scheduler-plugins, with counts.
    COSCHEDULING = "coscheduling"
    #: The same with the phase `Scheduled` and its count.
    COSCHEDULING_SCHEDULED = "coscheduling with Scheduled"
    #: Koordinator's phases, with counts.
    GANG = "gang"
    #: kube-batch's counts: `admitted`, `running`, `succeeded`, `failed`; no phase.
    KUBE_BATCH = "kube-batch"
    #: `running`, `succeeded` and `failed` alone; the phase is somebody else's.
    COUNTS = "counts"
    #: The condition `PodGroupScheduled`.
    CONDITION = "condition"


class Phase(StrEnum):
    """Where a group stands."""

    PENDING = "Pending"
    PRE_SCHEDULING = "PreScheduling"
    SCHEDULING = "Scheduling"
    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    FINISHED = "Finished"
    FAILED = "Failed"


TERMINAL_GROUP_PHASES: Final = frozenset({Phase.FINISHED, Phase.FAILED})
"""Groups in these phases are left alone."""

LONGEST_WAIT_SECONDS: Final = 48 * 3600.0
"""A group that was not scheduled in this time is warned about, and not looked at again."""

POD_GROUP_SCHEDULED: Final = "PodGroupScheduled"
"""The condition of Kubernetes' own PodGroup."""


@attrs.frozen(kw_only=True)
class MemberFacts:
    """How many members there are of each sort. `members` are all of them, those that have ended included."""

    min: int
    members: int = 0
    #: Living ones that have a node in the API.
    bound: int = 0
    #: Those that hold a node in memory.
    waiting: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    occupied_by: str = ""

    @property
    def placed(self) -> int:
        """Return how many have a node, or had one until they ended."""
        return self.bound + self.succeeded + self.failed


def next_status(style: StatusStyle, status: GroupStatus, facts: MemberFacts, *, now: float) -> GroupStatus:
    """Return the status one step on; `now` is wall time. The same object where nothing changes."""
    if status.phase in TERMINAL_GROUP_PHASES:
        return status
    changes: dict[str, object] = {"running": facts.running, "succeeded": facts.succeeded, "failed": facts.failed}
    if style is StatusStyle.KUBE_BATCH:
        changes["admitted"] = facts.waiting + facts.bound
    elif style in _PHASES:
        if style is not StatusStyle.COSCHEDULING:
            changes["scheduled"] = facts.bound
        phase = _PHASES[style](status.phase, facts)
        changes["phase"] = str(phase)
        if phase in {Phase.SCHEDULING, Phase.PRE_SCHEDULING} and facts.occupied_by:
            changes["occupied_by"] = facts.occupied_by
        # A step may come late, when all are bound already.
        if phase in {Phase.SCHEDULING, Phase.SCHEDULED} and status.schedule_start_time is None:
            changes["schedule_start_time"] = format_time(now)
    elif style is StatusStyle.CONDITION:
        return status
    changed = {name: value for name, value in changes.items() if getattr(status, name) != value}
    return msgspec.structs.replace(status, **changed) if changed else status


def _coscheduling(phase: str, facts: MemberFacts) -> Phase:
    if phase == "":
        return Phase.PENDING
    if phase == Phase.PENDING:
        return Phase.SCHEDULING if facts.members >= facts.min else Phase.PENDING
    if facts.members < facts.min:
        return Phase.PENDING
    started = facts.succeeded + facts.running
    return _ended(facts) or (Phase.RUNNING if started >= facts.min else Phase.SCHEDULING)


def _coscheduling_scheduled(phase: str, facts: MemberFacts) -> Phase:
    following = _coscheduling(phase, facts)
    if following is Phase.SCHEDULING and phase not in {"", Phase.PENDING} and facts.placed >= max(facts.min, 1):
        return Phase.SCHEDULED
    return following


def _gang(phase: str, facts: MemberFacts) -> Phase:
    if phase == "":
        return Phase.PENDING
    if phase == Phase.PENDING:
        if facts.members >= facts.min > 0:
            return Phase.PRE_SCHEDULING
        # What the plugin's PostBind writes goes before what the controller waits for.
        return Phase.SCHEDULING if facts.bound else Phase.PENDING
    if facts.members == 0:
        return Phase.PENDING
    if ended := _ended(facts):
        return ended
    if facts.placed < facts.min:
        return Phase.SCHEDULING
    was_scheduled = phase in {Phase.SCHEDULED, Phase.RUNNING}
    started = facts.running + facts.succeeded
    return Phase.RUNNING if was_scheduled and started >= max(facts.min, 1) else Phase.SCHEDULED


def _ended(facts: MemberFacts) -> Phase | None:
    # A minimum of 0 would call every group finished before it began.
    least = max(facts.min, 1)
    if facts.succeeded >= least:
        return Phase.FINISHED
    if facts.failed and facts.failed + facts.running + facts.succeeded >= least:
        return Phase.FAILED
    return None


_PHASES: Final = {
    StatusStyle.COSCHEDULING: _coscheduling,
    StatusStyle.COSCHEDULING_SCHEDULED: _coscheduling_scheduled,
    StatusStyle.GANG: _gang,
}


def is_overdue(status: GroupStatus, *, created: float) -> bool:
    """Tell whether the group began too late to be waited for; the warning is `Timeout`."""
    if status.phase not in {Phase.PENDING, Phase.SCHEDULING, Phase.PRE_SCHEDULING} or status.running:
        return False
    try:
        return parse_time(status.schedule_start_time or "") - created > LONGEST_WAIT_SECONDS
    except DecodeError:
        return False


def is_unschedulable(facts: MemberFacts) -> bool:
    """Tell whether a group of kube-batch runs that could not be started again: too few are left that have not failed.

    The warning is `Unschedulable`, on the group; what follows from it is the business of the group's owner.
    """
    return facts.running > 0 and facts.members - facts.failed < facts.min


def occupied_by(pods: Iterable[Pod]) -> str:
    """Return the owners of the pods as `namespace/name`, sorted, each once, joined by commas."""
    owners = {f"{pod.namespace}/{owner.name}" for pod in pods for owner in pod.metadata.owner_references}
    return ",".join(sorted(owners))


def status_patch(old: GroupStatus, new: GroupStatus) -> Mapping[str, object]:
    """Return the merge patch of an object that makes `new` of `old`; empty where nothing changed."""
    before, after = msgspec.to_builtins(old), msgspec.to_builtins(new)
    # A default is left out when encoded; on the wire it has to be said to replace what was there.
    names = zip(new.__struct_fields__, new.__struct_encode_fields__, strict=True)
    changed = {name: getattr(new, field) for field, name in names if before.get(name) != after.get(name)}
    return {"status": changed} if changed else {}


def scheduled_condition(
    conditions: Sequence[PodCondition], *, status: str, reason: str, message: str, now: float
) -> PodCondition | None:
    """Return the condition `PodGroupScheduled` to be written; None where it stands as it is.

    `status` and `reason` are `True`/`Scheduled`, `False`/`Unschedulable` or `False`/`SchedulerError`. A group that was
    scheduled stays so, whatever happens to pods that come later.
    """
    known = next((each for each in conditions if each.type == POD_GROUP_SCHEDULED), None)
    if known is not None:
        same = (known.status, known.reason, known.message) == (status, reason, message)
        if same or (known.status == "True" and status != "True"):
            return None
    moved = known is None or known.status != status
    since = format_time(now) if moved or known is None else known.last_transition_time
    return PodCondition(
        type=POD_GROUP_SCHEDULED, status=status, reason=reason, message=message, last_transition_time=since
    )

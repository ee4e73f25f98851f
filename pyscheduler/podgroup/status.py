"""Compute the status of a group from its members; `controller` writes the status to the API server.

Sources: the PodGroup controllers of scheduler-plugins and Koordinator; Kubernetes 1.36, `PodGroupScheduled`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs
import msgspec

from pyscheduler.api import DecodeError, PodCondition, format_time, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.podgroup.wire import GroupStatus

__all__ = [
    "POD_GROUP_SCHEDULED",
    "WARNED_ONCE",
    "ConditionStatus",
    "CountsStatus",
    "DialectStatus",
    "KubeBatchStatus",
    "MemberFacts",
    "Phase",
    "PhaseStatus",
    "coscheduling_phase",
    "is_overdue",
    "is_unschedulable",
    "koordinator_phase",
    "ming_phase",
    "occupied_by",
    "scheduled_condition",
    "status_patch",
]


class Phase(StrEnum):
    """The phase of a group, as its status says it."""

    PENDING = "Pending"
    PRE_SCHEDULING = "PreScheduling"
    SCHEDULING = "Scheduling"
    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    FINISHED = "Finished"
    FAILED = "Failed"


#: The status of groups in these phases does not change any more.
_TERMINAL: Final = frozenset({Phase.FINISHED, Phase.FAILED})
#: Phases in which the status names the owners of the members.
_OCCUPIED: Final = frozenset({Phase.SCHEDULING, Phase.PRE_SCHEDULING})

#: A group that was not scheduled in this time gets a warning, and its status does not change any more.
_LONGEST_WAIT_SECONDS: Final = 48 * 3600.0

#: Reasons of warnings that are recorded once for an object, even if they become true again.
WARNED_ONCE: Final = frozenset({"Timeout"})

POD_GROUP_SCHEDULED: Final = "PodGroupScheduled"
"""The condition of Kubernetes' own PodGroup."""


@attrs.frozen(kw_only=True)
class MemberFacts:
    """The numbers of members of a group by state. `members` are all of them, ended ones included."""

    min: int
    members: int = 0
    #: Living members that have a node in the API.
    bound: int = 0
    #: Members that hold a node in memory.
    waiting: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    occupied_by: str = ""
    #: When the group was created, in seconds since 1970; None if unknown.
    created: float | None = None

    @property
    def placed(self) -> int:
        """Return how many members have a node, or had one until they ended."""
        return self.bound + self.succeeded + self.failed


class DialectStatus:
    """The status of a dialect's objects. This base is for a status that other programs write: it is only read.

    A dialect whose status the scheduler writes has an object of a subclass. `status` is what the field `status` of the
    dialect's kinds decodes to; for a `GroupObject` that is a `GroupStatus`.
    """

    #: Whether the status controller writes this status.
    is_written: ClassVar[bool] = False

    def phase(self, status: Any) -> str:
        """Return the phase that a status says; "" if it says none."""
        return getattr(status, "phase", "")

    def next(self, status: Any, facts: MemberFacts, *, now: float) -> Any:  # noqa: ARG002 - see above
        """Return the status one step on; the same object if nothing changes. `now` is wall time."""
        return status

    def wants_owners(self, old: Any, new: Any) -> bool:  # noqa: ARG002 - see above
        """Return True if the step from `old` to `new` must be repeated with `MemberFacts.occupied_by`."""
        return False

    def warnings(self, status: Any, facts: MemberFacts) -> Mapping[str, str]:  # noqa: ARG002 - see above
        """Return the warnings that are true now: notes by reason.

        Each is recorded once, until it is no longer true; one of `WARNED_ONCE` is recorded once for an object.
        """
        return {}


class CountsStatus(DialectStatus):
    """`running`, `succeeded` and `failed`; another program writes the phase."""

    is_written = True

    def next(self, status: GroupStatus, facts: MemberFacts, *, now: float) -> GroupStatus:
        """Return the status one step on."""
        if status.phase in _TERMINAL:
            return status
        changes = self.changes(status, facts, now).items()
        changed = {name: value for name, value in changes if getattr(status, name) != value}
        return msgspec.structs.replace(status, **changed) if changed else status

    def changes(self, status: GroupStatus, facts: MemberFacts, now: float) -> dict[str, object]:  # noqa: ARG002
        """Return the fields of the next status that this class decides."""
        return {"running": facts.running, "succeeded": facts.succeeded, "failed": facts.failed}


class KubeBatchStatus(CountsStatus):
    """kube-batch's counts, `admitted` among them; no phase."""

    def changes(self, status: GroupStatus, facts: MemberFacts, now: float) -> dict[str, object]:
        """Return the fields that this class decides."""
        return {**super().changes(status, facts, now), "admitted": facts.waiting + facts.bound}

    def warnings(self, status: GroupStatus, facts: MemberFacts) -> Mapping[str, str]:
        """Return the warnings that are true now."""
        if status.phase in _TERMINAL or not is_unschedulable(facts):
            return {}
        left = facts.members - facts.failed
        counts = f"{facts.running} running, {facts.succeeded} succeeded, {facts.failed} failed"
        return {"Unschedulable": f"{left} of at least {facts.min} pods are left: {counts}"}


@attrs.frozen
class PhaseStatus(CountsStatus):
    """Counts, the phase, the start of scheduling, and the owners of the members."""

    #: Returns the phase one step on.
    next_phase: Callable[[str, MemberFacts], Phase]
    #: Whether the status has a field `scheduled`, the number of bound members.
    has_scheduled: bool = True

    def next(self, status: GroupStatus, facts: MemberFacts, *, now: float) -> GroupStatus:
        """Return the status one step on."""
        return status if _began_too_late(status, facts) else super().next(status, facts, now=now)

    def changes(self, status: GroupStatus, facts: MemberFacts, now: float) -> dict[str, object]:
        """Return the fields that this class decides."""
        phase = self.next_phase(status.phase, facts)
        changes = {**super().changes(status, facts, now), "phase": str(phase)}
        if self.has_scheduled:
            changes["scheduled"] = facts.bound
        if phase in _OCCUPIED and facts.occupied_by:
            changes["occupied_by"] = facts.occupied_by
        # A step may come late, when all members are bound already.
        if phase in {Phase.SCHEDULING, Phase.SCHEDULED} and status.schedule_start_time is None:
            changes["schedule_start_time"] = format_time(now)
        return changes

    def wants_owners(self, old: GroupStatus, new: GroupStatus) -> bool:
        """Return True if members may have owners that the status does not name yet."""
        return new.phase in _OCCUPIED and (new.phase != old.phase or not old.occupied_by)

    def warnings(self, status: GroupStatus, facts: MemberFacts) -> Mapping[str, str]:
        """Return the warnings that are true now."""
        return {"Timeout": "schedule time longer than 48 hours"} if _began_too_late(status, facts) else {}


class ConditionStatus(DialectStatus):
    """The condition `PodGroupScheduled`, which `GangScheduling` writes."""

    def phase(self, status: Any) -> str:
        """Return Scheduled or Pending, as the condition says; "" without it."""
        for condition in status.conditions:
            if condition.type == POD_GROUP_SCHEDULED:
                return str(Phase.SCHEDULED if condition.status == "True" else Phase.PENDING)
        return ""


def coscheduling_phase(phase: str, facts: MemberFacts) -> Phase:
    """Return the phase one step on, as the controller of scheduler-plugins."""
    if phase == "":
        return Phase.PENDING
    if phase == Phase.PENDING:
        return Phase.SCHEDULING if facts.members >= facts.min else Phase.PENDING
    if facts.members < facts.min:
        return Phase.PENDING
    started = facts.succeeded + facts.running
    return _ended(facts) or (Phase.RUNNING if started >= facts.min else Phase.SCHEDULING)


def ming_phase(phase: str, facts: MemberFacts) -> Phase:
    """Return the phase one step on, as podgroup-scheduler-framework: with Scheduled."""
    following = coscheduling_phase(phase, facts)
    if following is Phase.SCHEDULING and phase not in {"", Phase.PENDING} and facts.placed >= max(facts.min, 1):
        return Phase.SCHEDULED
    return following


def koordinator_phase(phase: str, facts: MemberFacts) -> Phase:
    """Return the phase one step on, as Koordinator's controller."""
    if phase in _TERMINAL:
        return Phase(phase)
    if phase == "":
        return Phase.PENDING
    if phase == Phase.PENDING:
        if facts.members >= facts.min > 0:
            return Phase.PRE_SCHEDULING
        # Koordinator's PostBind writes Scheduling, which its controller then finds.
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
    # With a minimum of 0, every group would be finished before it began.
    least = max(facts.min, 1)
    if facts.succeeded >= least:
        return Phase.FINISHED
    if facts.failed and facts.failed + facts.running + facts.succeeded >= least:
        return Phase.FAILED
    return None


def _began_too_late(status: GroupStatus, facts: MemberFacts) -> bool:
    return facts.created is not None and is_overdue(status, created=facts.created)


def is_overdue(status: GroupStatus, *, created: float) -> bool:
    """Return True if scheduling of the group began too late after its creation; the warning is `Timeout`."""
    if status.phase not in {Phase.PENDING, Phase.SCHEDULING, Phase.PRE_SCHEDULING} or status.running:
        return False
    try:
        return parse_time(status.schedule_start_time or "") - created > _LONGEST_WAIT_SECONDS
    except DecodeError:
        return False


def is_unschedulable(facts: MemberFacts) -> bool:
    """Return True if members of a kube-batch group run, and fewer than the minimum have not failed.

    The warning is `Unschedulable`, on the group; its owner decides what to do.
    """
    return facts.running > 0 and facts.members - facts.failed < facts.min


def occupied_by(pods: Iterable[Pod]) -> str:
    """Return the owners of the pods as `namespace/name`, sorted, each once, joined by commas."""
    owners = {f"{pod.namespace}/{owner.name}" for pod in pods for owner in pod.metadata.owner_references}
    return ",".join(sorted(owners))


def status_patch(old: msgspec.Struct, new: msgspec.Struct) -> Mapping[str, object]:
    """Return the merge patch that changes the status `old` of an object to `new`; empty if nothing changed."""
    before, after = msgspec.to_builtins(old), msgspec.to_builtins(new)
    # The encoder omits defaults; the patch must name them to replace the old values.
    names = zip(new.__struct_fields__, new.__struct_encode_fields__, strict=True)
    changed = {name: getattr(new, field) for field, name in names if before.get(name) != after.get(name)}
    return {"status": changed} if changed else {}


def scheduled_condition(
    conditions: Sequence[PodCondition], *, status: str, reason: str, message: str, now: float
) -> PodCondition | None:
    """Return the condition `PodGroupScheduled` to write; None if the object has it already.

    `status` and `reason` are `True`/`Scheduled`, `False`/`Unschedulable` or `False`/`SchedulerError`. The condition of
    a group that was scheduled stays True, whatever happens to later pods.
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

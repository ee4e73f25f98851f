"""`GroupReport`: the status of one pod group after a scheduling round, and the events to record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import attrs

if TYPE_CHECKING:
    from pyscheduler.podgroup import GroupObject
    from pyscheduler_batch.model.job_spec import JobSpec
    from pyscheduler_batch.status.writer import Patch

__all__ = ["COMPLETED", "GroupReport", "Note", "SilentReport", "merged_conditions", "raw_conditions"]


#: The phase of a group whose members have ended.
COMPLETED: Final = "Completed"


@attrs.frozen
class Note:
    """An event; it is recorded when its text is not the one that was recorded last for its reason."""

    reason: str
    text: str
    is_warning: bool = False
    #: Whether it is recorded only if the status changes, too.
    only_with_change: bool = False


class GroupReport(Protocol):
    """The report of a pass about one group."""

    @property
    def notes(self) -> Sequence[Note]:
        """Return the events that are true now."""
        ...

    def patches(self, group: GroupObject) -> Sequence[Patch]:
        """Return what the group's object lacks."""
        ...

    def remembered(self, spec: JobSpec) -> JobSpec:
        """Return a description of the group with what the pass decided since the object was written last."""
        ...


@attrs.frozen
class SilentReport:
    """An empty report."""

    notes: Sequence[Note] = ()

    def patches(self, group: GroupObject) -> Sequence[Patch]:
        """Return no patch."""
        return ()

    def remembered(self, spec: JobSpec) -> JobSpec:
        """Return the description as it is."""
        return spec


def raw_conditions(value: object) -> list[Mapping[str, object]]:
    """Return the conditions of a status as they were written; values of other types are left out."""
    if not isinstance(value, (list, tuple)):
        return []
    return [each for each in value if isinstance(each, Mapping)]


_WHEN = ("transitionID", "lastTransitionTime")


def merged_conditions(
    conditions: Sequence[Mapping[str, object]], new: Mapping[str, object]
) -> list[Mapping[str, object]] | None:
    """Return the conditions with `new` in the place of the one of its type; None if nothing but the time differs."""
    for index, old in enumerate(conditions):
        if old.get("type") != new["type"]:
            continue
        same = all(old.get(name, "") == new.get(name, "") for name in (old.keys() | new.keys()) - {*_WHEN})
        return None if same else [*conditions[:index], new, *conditions[index + 1 :]]
    return [*conditions, new]

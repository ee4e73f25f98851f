"""A group as the plugins see it, whatever dialect it is written in, and how it comes from what its places say.

The rule of precedence: what a member says goes before what the object says; among members, the one that was created
first, then the name, decides, and only with a usable value. Where nobody says anything, the plugin's args do.

Koordinator itself lets the object win, although its design says what is said here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.podgroup.fields import NOTHING_SAID, GroupFields, MatchPolicy, Mode, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.api import RawQuantity
    from pyscheduler.podgroup.identity import GroupId

__all__ = ["Group", "Origin", "merge"]


class Origin(StrEnum):
    """Who declared a group."""

    OBJECT = "object"
    PODS = "pods"
    #: Nobody yet: pods name it, and that is all.
    NOBODY = "nobody"


@attrs.frozen(kw_only=True)
class Group:
    """What a group is; a new one whenever that changes. What its members are up to stands in `GroupState`."""

    id: GroupId
    #: The dialect it is declared in; of one that nobody declared, the dialect in which its pods name it.
    dialect: str
    origin: Origin
    #: How many members it takes to start; 0 is no constraint.
    min: int = 0
    #: How many members there will be, at least `min`.
    total: int = 0
    min_resources: Mapping[str, RawQuantity] = attrs.field(factory=dict)
    #: How long members wait for each other, in seconds; None: as long as the plugin's args say.
    wait_seconds: float | None = None
    mode: Mode = Mode.STRICT
    #: None: what the plugin's args say.
    policy: MatchPolicy | None = None
    #: All groups that must be satisfied together, this one among them, sorted, as `namespace/name`.
    gang_group: tuple[str, ...]
    is_gang: bool = True
    #: When the object was created, or else the earliest member seen; seconds since 1970.
    created: float = 0.0
    #: Whether the minimum is known, so that its pods can be scheduled.
    is_declared: bool = False
    #: What was said and cannot be used.
    problems: tuple[Problem, ...] = ()
    #: What members say differently.
    disagreements: tuple[str, ...] = ()

    @property
    def gang_group_id(self) -> str:
        """Return the gang group as one text."""
        return ",".join(self.gang_group)


_MERGED: Final = ("min", "total", "min_resources", "wait_seconds", "mode", "policy", "gang_group", "is_gang")


def merge(
    id: GroupId, dialect: str, *, members: Sequence[GroupFields], object: GroupFields | None, created: float
) -> Group:
    """Return the group that these places describe; `members` in their order of precedence, without repetitions."""
    places = [*members, object if object is not None else NOTHING_SAID]
    said = {name: next((v for each in places if (v := getattr(each, name)) is not None), None) for name in _MERGED}
    minimum, total = said["min"], said["total"]
    problems = [problem for each in places for problem in each.problems]
    listed = said["gang_group"] or ()
    if listed and id.key not in listed:
        problems.append(Problem("groups", ",".join(listed), f"does not name {id} itself; it is added"))
    nobody_or_pods = Origin.NOBODY if minimum is None else Origin.PODS
    return Group(
        id=id,
        dialect=dialect,
        origin=nobody_or_pods if object is None else Origin.OBJECT,
        min=minimum or 0,
        total=max(minimum or 0, total or 0),
        min_resources=said["min_resources"] or {},
        wait_seconds=said["wait_seconds"],
        mode=said["mode"] or Mode.STRICT,
        policy=said["policy"],
        gang_group=tuple(sorted({*listed, id.key})),
        is_gang=said["is_gang"] is not False,
        created=created,
        is_declared=minimum is not None,
        problems=tuple(dict.fromkeys(problems)),
        disagreements=_disagreements(members),
    )


def _disagreements(members: Sequence[GroupFields]) -> tuple[str, ...]:
    if len(members) < 2:
        return ()
    texts = []
    for name in _MERGED:
        values = dict.fromkeys(str(v) for each in members if (v := getattr(each, name)) is not None)
        if len(values) > 1:
            first, *others = values
            texts.append(f"members disagree on {name}: {first} counts, not {', '.join(others)}")
    return tuple(texts)

"""`Group`: the settings of a pod group, merged from the labels and annotations of its members and from its object.

A member's value of a setting has precedence over the object's value.
Differs from Koordinator's code, in which the object has precedence.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.podgroup.fields import NOTHING_SAID, GroupFields, MatchPolicy, Mode, Problem
from pyscheduler.podgroup.sub_group_fields import NO_SUB_GROUPS
from pyscheduler.podgroup.sub_groups import SubGroups, least

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.api import RawQuantity
    from pyscheduler.podgroup.fields import GatherRule
    from pyscheduler.podgroup.identity import GroupId
    from pyscheduler.podgroup.sub_groups import SubGroupTree

__all__ = ["Group", "Origin", "merge"]


class Origin(StrEnum):
    """The origin of a group's declaration."""

    OBJECT = "object"
    PODS = "pods"
    #: Nobody yet: pods only name it.
    NOBODY = "nobody"


@attrs.frozen(kw_only=True)
class Group:
    """A group with its settings. A change makes a new object; `GroupState` has the members."""

    id: GroupId
    #: The dialect that declares it; if nobody declares it, the dialect in which its pods name it.
    dialect: str
    origin: Origin
    #: How many members must be able to start together; 0 is no constraint. In KAI, sub-groups decide it.
    min: int = 0
    #: How many members there will be, at least `min`.
    total: int = 0
    min_resources: Mapping[str, RawQuantity] = attrs.field(factory=dict)
    #: How long members wait for each other, in seconds; None for the plugin's default.
    wait_seconds: float | None = None
    mode: Mode = Mode.STRICT
    #: None for the plugin's default.
    policy: MatchPolicy | None = None
    #: All groups that must be satisfied together, including this one, as `namespace/name`, sorted.
    gang_group: tuple[str, ...]
    #: Koordinator: the layers of the network in which the members are gathered; none for any nodes.
    gather: tuple[GatherRule, ...] = ()
    is_gang: bool = True
    #: When the object, or else the earliest member, was created, in seconds since 1970.
    created: float = 0.0
    #: Whether the minimum is known, so that its pods can be scheduled.
    is_declared: bool = False
    #: Parts with minimums of their own, which must be satisfied as well; most groups have none.
    sub_groups: tuple[SubGroupTree, ...] = ()
    #: Values that cannot be used.
    problems: tuple[Problem, ...] = ()
    #: Fields on which members disagree, as texts.
    disagreements: tuple[str, ...] = ()

    @property
    def gang_group_id(self) -> str:
        """Return the gang group as one text."""
        return ",".join(self.gang_group)


_MERGED: Final = ("min", "total", "min_resources", "wait_seconds", "mode", "policy", "gang_group", "gather", "is_gang")


def merge(
    id: GroupId,
    dialect: str,
    *,
    members: Sequence[GroupFields],
    object: GroupFields | None,
    created: float,
    sub_groups: SubGroups = NO_SUB_GROUPS,
) -> Group:
    """Return the group that these sources describe; `members` in their order of precedence, each saying once."""
    sources = [*members, object if object is not None else NOTHING_SAID]
    said = {name: next((v for each in sources if (v := getattr(each, name)) is not None), None) for name in _MERGED}
    minimum, total = said["min"], said["total"]
    if not sub_groups.is_usable:
        minimum = None
    elif sub_groups.replaces_minimum:
        minimum = least(sub_groups.trees[0].root)
    problems = [*(problem for each in sources for problem in each.problems), *sub_groups.problems]
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
        gather=said["gather"] or (),
        is_gang=said["is_gang"] is not False,
        created=created,
        is_declared=minimum is not None,
        sub_groups=sub_groups.trees,
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

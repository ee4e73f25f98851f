"""The grouping rule for the kind Rendering: one mixer and a number of painters start together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from pyscheduler.api import Pod
from pyscheduler_podgrouper.contract import Grouper, GroupPlan, Lookup, Owner, SubGroupPlan
from pyscheduler_podgrouper.fields import GroupingError, integer
from pyscheduler_podgrouper.generic import generic

__all__ = ["ROW"]

_ROLE: Final = "acme.example/role"


def rendering(top: Owner, _chain: Sequence[Owner], pod: Pod, lookup: Lookup) -> GroupPlan:
    """Return the group of a Rendering; name, queue and priority are those of the generic rule."""
    painters = integer(top.body, "spec", "painters")
    if painters is None or painters < 1:
        raise GroupingError(f"spec.painters of Rendering {top.namespace}/{top.name} is not a positive number")
    role = pod.labels.get(_ROLE)
    sub_groups = [
        SubGroupPlan(name=name, min_member=count, pods=(pod.name,) if role == name else ())
        for name, count in (("mixer", 1), ("painter", painters))
    ]
    return attrs.evolve(generic(top, (), pod, lookup), min_member=1 + painters, sub_groups=sub_groups)


ROW: Final = Grouper(
    group="acme.example",
    kind="Rendering",
    plural="renderings",
    versions=("v1",),
    rule=rendering,
    reads=("spec",),
)

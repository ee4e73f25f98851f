"""What one place says about a group: a pod's annotations, or the group's object. Each field is absent until said.

What is malformed is left out and kept as a `Problem`, so that the next place decides and whoever wrote it can be told.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.api import RawQuantity

__all__ = ["NOTHING_SAID", "GroupFields", "MatchPolicy", "Mode", "Problem"]


class Mode(StrEnum):
    """What a failure of one member means to the members that hold a node already."""

    #: All of them give back what they hold.
    STRICT = "Strict"
    #: They keep it, and wait for the others.
    NON_STRICT = "NonStrict"


class MatchPolicy(StrEnum):
    """Which members count towards the minimum."""

    #: Those that wait and those that are bound; once the minimum was reached, it is never asked for again.
    ONCE_SATISFIED = "once-satisfied"
    #: Those that wait.
    ONLY_WAITING = "only-waiting"
    #: Those that wait and those that are bound.
    WAITING_AND_RUNNING = "waiting-and-running"


@attrs.frozen
class Problem:
    """A value that cannot be used: where it stands, what it is, and what is done instead."""

    where: str
    value: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.where}: {self.value!r} {self.remedy}"


@attrs.frozen(kw_only=True)
class GroupFields:
    """Parts of a group; None where nothing usable is said."""

    #: How many members it takes to start; 0 is no constraint.
    min: int | None = None
    #: How many members there will be.
    total: int | None = None
    #: What all members together need at least, by resource.
    min_resources: Mapping[str, RawQuantity] | None = attrs.field(default=None, hash=False)
    #: How long members wait for each other, in seconds; above 0.
    wait_seconds: float | None = None
    mode: Mode | None = None
    policy: MatchPolicy | None = None
    #: The groups that must be satisfied together, as `namespace/name`; empty: this one alone.
    gang_group: tuple[str, ...] | None = None
    #: Whether the members are a gang at all; False for a group that is one in name only.
    is_gang: bool | None = None
    problems: tuple[Problem, ...] = ()


NOTHING_SAID: Final = GroupFields()
"""What most pods say about their group."""

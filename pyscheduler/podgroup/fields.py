"""The settings of a group, read from the labels and annotations of one pod or from the group's object."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.api import RawQuantity

__all__ = ["NOTHING_SAID", "GatherRule", "GroupFields", "MatchPolicy", "Mode", "Problem"]


class Mode(StrEnum):
    """The behaviour of members that hold a node when another member fails."""

    #: They give back their nodes.
    STRICT = "Strict"
    #: They keep their nodes and wait for the others.
    NON_STRICT = "NonStrict"


class MatchPolicy(StrEnum):
    """Which members count towards the minimum."""

    #: Waiting and bound ones, until the minimum was reached once; after that no minimum counts.
    ONCE_SATISFIED = "once-satisfied"
    #: Waiting ones.
    ONLY_WAITING = "only-waiting"
    #: Waiting and bound ones.
    WAITING_AND_RUNNING = "waiting-and-running"


@attrs.frozen
class GatherRule:
    """All members run in one part of a layer of the network: they must, or they do if there is room."""

    layer: str
    is_required: bool


@attrs.frozen
class Problem:
    """A value that cannot be used: its field, the value, and what counts instead."""

    where: str
    value: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.where}: {self.value!r} {self.remedy}"


@attrs.frozen(kw_only=True)
class GroupFields:
    """The fields of a source; None for a field that is missing, or not in a usable form."""

    #: How many members must be able to start together; 0 is no constraint.
    min: int | None = None
    #: How many members there will be.
    total: int | None = None
    #: What all members together need at least, by resource.
    min_resources: Mapping[str, RawQuantity] | None = attrs.field(default=None, hash=False)
    #: How long members wait for each other, in seconds, above 0.
    wait_seconds: float | None = None
    mode: Mode | None = None
    policy: MatchPolicy | None = None
    #: The groups that must be satisfied together, as `namespace/name`; empty for this group alone.
    gang_group: tuple[str, ...] | None = None
    #: Koordinator: the layers of the network in which the members are gathered.
    gather: tuple[GatherRule, ...] | None = None
    #: Whether the members are scheduled together; False if they are scheduled one by one.
    is_gang: bool | None = None
    problems: tuple[Problem, ...] = ()


NOTHING_SAID: Final = GroupFields()
"""The fields of most pods, which say nothing about their group."""

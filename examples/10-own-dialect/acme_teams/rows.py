"""The row: how pods name a Team, and what a Team says."""

from __future__ import annotations

from typing import ClassVar

from pyscheduler.api import KubeObject, kind_of
from pyscheduler.podgroup import Dialect, GroupFields, Key, KeyPlace


class Team(KubeObject):
    """An object of Acme's that describes a group."""

    api_version: ClassVar[str] = "acme.example/v1"
    kind: ClassVar[str] = "Team"

    size: int = 0


def read_team(team: Team) -> GroupFields:
    """Translate what a Team says."""
    return GroupFields(min=team.size)


ROW = Dialect(
    name="acme",
    system="Acme",
    keys=(Key(KeyPlace.ANNOTATION, "acme.example/team"),),
    claimed_by="Coscheduling",
    kinds=(kind_of(Team, "teams"),),
    object_fields=read_team,
)

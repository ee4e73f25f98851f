"""A row of the table of group formats: how pods name a Team, how a Team is read, and which status is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pyscheduler.api import KubeObject, Wire, kind_of
from pyscheduler.podgroup import Dialect, DialectStatus, GroupFields, Key, KeyPlace, MemberFacts


class TeamStatus(Wire):
    """The status of a Team, which the scheduler writes."""

    state: str = ""
    ready: int = 0


class Team(KubeObject):
    """An object of Acme's that describes a group."""

    api_version: ClassVar[str] = "acme.example/v1"
    kind: ClassVar[str] = "Team"

    size: int = 0
    status: TeamStatus = TeamStatus()


class TeamStatusRules(DialectStatus):
    """A Team is Complete once as many members are bound as its size; `ready` counts the running ones."""

    is_written = True

    def phase(self, status: TeamStatus) -> str:
        """Return the state."""
        return status.state

    def next(self, status: TeamStatus, facts: MemberFacts, *, now: float) -> TeamStatus:
        """Return the status that the members call for."""
        state = "Complete" if facts.placed >= facts.min else "Waiting"
        wanted = TeamStatus(state=state, ready=facts.running)
        return status if wanted == status else wanted


def read_team(team: Team) -> GroupFields:
    """Return what a Team says, as every group plugin reads it."""
    return GroupFields(min=team.size)


def write_team(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the body of a Team that says these values; simulations create Teams with it."""
    return {"size": said["min"]}


ROW = Dialect(
    name="acme",
    system="Acme",
    keys=(Key(KeyPlace.ANNOTATION, "acme.example/team"),),
    claimed_by="Coscheduling",
    kinds=(kind_of(Team, "teams"),),
    object_fields=read_team,
    object_body=write_team,
    status=TeamStatusRules(),
)

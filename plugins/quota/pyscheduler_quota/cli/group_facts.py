"""The column `Reserved` of `pyscheduler podgroup`: how much quota each pod group has reserved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyscheduler.api import ResourceQuota
from pyscheduler.cli.podgroup.group_facts import GroupFact
from pyscheduler.cli.podgroup.reader import list_within
from pyscheduler_quota.claims import amount_text, reserved_by, shortfall_text
from pyscheduler_quota.quotas import RESOURCE_QUOTAS
from pyscheduler_quota.reservations import Reservations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyscheduler.podgroup import GroupDirectory, GroupState
    from pyscheduler.scheduler.ports import ClusterClient

__all__ = ["ReservedQuota"]


class ReservedQuota:
    """Reads the reservations of groups: from their annotations, and from quotas once `read` has read these."""

    def __init__(self) -> None:
        self._reservations: Reservations | None = None

    async def read(
        self, client: ClusterClient, directory: GroupDirectory, namespace: str, warn: Callable[[str], None]
    ) -> None:
        """List the quotas of a namespace; make no request if no group declares resources."""
        if not any(state.object is not None and state.group.min_resources for state in directory):
            return
        made = Reservations(directory, lambda state: directory.dialect_of(state).declares_resources)
        for item in await list_within(client, RESOURCE_QUOTAS, namespace, warn) or ():
            if isinstance(item, ResourceQuota):
                made.put_quota(item)
        self._reservations = made

    def fact(self, state: GroupState) -> GroupFact:
        """Return the reservation of a group; or `Ended`, or why the group waits for quota."""
        granted = None if state.object is None else reserved_by(state.object)
        claim = None if self._reservations is None else self._reservations.of(state.id)
        if granted:
            outstanding = claim.outstanding() if claim is not None and claim.is_counted else {}
            left = {name: amount_text(name, outstanding[name]) for name in granted if name in outstanding}
            text = f" (for pods that do not exist yet: {_amounts(left)})" if left else ""
            data = _data("Reserved", granted, left)
            return GroupFact(cell=_amounts(granted, ","), line=f"{_amounts(granted)}{text}", data=data)
        if granted is not None:
            return GroupFact(cell="Ended", line="Ended", data=_data("Ended"))
        short = () if claim is None or self._reservations is None else self._reservations.shortfalls(claim)
        if not short or state.bound or state.waiting or state.succeeded:
            return GroupFact(data=_data())
        message = shortfall_text(short)
        return GroupFact(cell="Waiting", line=message, data=_data("Waiting", message=message), reason=message)


def _amounts(amounts: Mapping[str, object], separator: str = ", ") -> str:
    return separator.join(f"{name}={value}" for name, value in amounts.items())


def _data(
    phase: str = "", reserved: Mapping[str, Any] | None = None, left: Mapping[str, str] | None = None, message: str = ""
) -> Mapping[str, Any]:
    parts = {"phase": phase, "reserved": dict(reserved or {}), "left": dict(left or {}), "message": message}
    return {"quotaReservation": parts}

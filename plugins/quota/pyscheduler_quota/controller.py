"""Make groups of pods wait until the ResourceQuotas of their namespace have room for them.

When there is room, the group gets a reservation, which also covers members that do not exist yet.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.api import ResourceQuota
from pyscheduler.framework import APIError, NotFoundError, PluginError, PolicyRule, TransportError
from pyscheduler.podgroup.dialects import kinds_of
from pyscheduler.podgroup.groups import PodGroups
from pyscheduler.podgroup.identity import GroupId
from pyscheduler_quota.claims import RESERVED, annotation_of, phase_of, shortfall_text
from pyscheduler_quota.reservations import Reservations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kube_objects.clock import Timer
    from pyscheduler.api import KubeObject
    from pyscheduler.framework import Handle
    from pyscheduler.podgroup.dialects import Dialect
    from pyscheduler.podgroup.membership import GroupState
    from pyscheduler_quota.claims import Claim

__all__ = ["MODES", "WAIT", "QuotaReservations", "reservation_rules"]

_log = logging.getLogger(__name__)

WAIT: Final = "wait"
_NONE: Final = "none"
MODES: Final = (WAIT, _NONE)
"""The values of the arg `quotaReservation` of group plugins."""

#: Changes are collected for so long before a decision, in seconds, and so much longer for each group of the namespace:
#: quotas change with every pod, and a decision costs about 10 µs for each group.
_GATHER_SECONDS: Final = 0.02
_GATHER_PER_GROUP: Final = 1e-4
#: The pause after a failed write, and after one that another writer replaced; doubled each time in a row.
_RETRY_SECONDS: Final = 1.0
_RETRY_SECONDS_AT_MOST: Final = 300.0


def reservation_rules(dialects: Iterable[Dialect]) -> tuple[PolicyRule, ...]:
    """Return the permission to write the annotation on the objects of these dialects, for the `rbac` of a plugin."""
    by_plural: dict[str, dict[str, None]] = {}
    for kind in kinds_of(dialect for dialect in dialects if dialect.declares_resources):
        by_plural.setdefault(kind.plural, {})[kind.group] = None
    return tuple(
        PolicyRule(api_groups=tuple(groups), resources=(plural,), verbs=("patch",))
        for plural, groups in by_plural.items()
    )


@attrs.define
class _Write:
    """The last write of an annotation."""

    #: Of the object; and the version on which the write was based: while the watch shows it, the watch is behind.
    uid: str
    version: str
    text: str | None
    #: How often in a row this text was written, because another writer replaced it; and when it may be again.
    times: int
    until: float


class QuotaReservations:
    """The reservations of a scheduler; get them with `of`, in the constructor of a plugin."""

    def __init__(self, groups: PodGroups, handle: Handle) -> None:
        self._groups = groups
        self._handle = handle
        self._clock = handle.clock
        self._wakers: dict[str, list[Callable[[GroupId], object]]] = {}
        self.reservations = Reservations(groups.directory, self._is_served)
        self.reservations.on_news = self._news
        self.reservations.on_claim = self._enqueue
        #: Namespaces to decide about, and groups to wake.
        self._due: set[str] = set()
        self._to_wake: dict[GroupId, None] = {}
        self._timer: Timer | None = None
        #: Groups whose annotation may be out of date; None while nothing is written.
        self._queue: asyncio.Queue[GroupId] | None = None
        self._writes: dict[GroupId, _Write] = {}
        #: Failed writes in a row, and when the pause after them ends, in clock seconds.
        self._failures = 0
        self._paused_until = 0.0
        handle.lister(ResourceQuota).add_event_handler(
            on_add=self.reservations.put_quota,
            on_update=lambda _old, new: self.reservations.put_quota(new),
            on_delete=self.reservations.remove_quota,
        )
        self._connected: set[type[KubeObject]] = set()

    @classmethod
    def join(cls, handle: Handle, plugin: str, wake: Callable[[GroupId], object]) -> QuotaReservations:
        """Return the reservations of the scheduler; from now on, those of the groups that `plugin` serves.

        `wake` is called with each of its groups that had to wait and may be tried now, or the other way round. The
        plugin must watch `RESOURCE_QUOTAS` and the kinds of its groups.
        """
        made = handle.shared("pyscheduler/quota-reservations", lambda: cls(PodGroups.of(handle), handle))
        made._wakers.setdefault(plugin, []).append(wake)  # noqa: SLF001 - its own
        made._connect()  # noqa: SLF001 - the same
        return made

    def refusal(self, state: GroupState) -> str:
        """Return why the members of a group must wait for quota; "" if they need not."""
        claim = self.reservations.of(state.id)
        if claim is None:
            return ""
        self.reservations.begin()
        # A decision is about all groups of the namespace, so others wait for the timer.
        if state.id.namespace in self._due and not (claim.is_decided or claim.granted):
            self._decide(state.id.namespace)
        return shortfall_text(claim.shortfalls) if claim.is_held else ""

    async def run(self) -> None:
        """Write annotations until cancelled; return if that is done already. Call it while this scheduler leads."""
        if self._queue is not None:
            return
        queue = self._queue = asyncio.Queue()
        self.reservations.begin()
        try:
            for claim in self.reservations:
                self._enqueue(claim)
            while True:
                await self._write(await queue.get())
        finally:
            self._queue = None
            self.reservations.trusts = True

    # --- news

    def _is_served(self, state: GroupState) -> bool:
        is_joined = self._groups.server_of(state) in self._wakers
        return is_joined and self._groups.directory.dialect_of(state).declares_resources

    def _connect(self) -> None:
        """Follow the objects of groups: the directory does not report a new phase or annotation."""
        for dialect in self._groups.table:
            for kind in dialect.kinds:
                if kind.type in self._connected:
                    continue
                try:
                    lister = self._handle.lister(kind.type)
                except PluginError:
                    continue  # no plugin watches it
                self._connected.add(kind.type)
                lister.add_event_handler(on_update=self._object_updated)

    def _object_updated(self, old: KubeObject, new: KubeObject) -> None:
        if phase_of(old) == phase_of(new) and old.annotations.get(RESERVED) == new.annotations.get(RESERVED):
            return
        dialect = self._groups.table.of_object(new)
        state = (
            None if dialect is None else self._groups.directory.get(GroupId(new.namespace, new.name, dialect.family))
        )
        if state is not None and state.object is new:
            self.reservations.refresh(state)

    def _news(self, namespace: str) -> None:
        self._due.add(namespace)
        self._arm(len(self.reservations.claims(namespace)))

    def _arm(self, groups: int = 0) -> None:
        if self._timer is None:
            self._timer = self._clock.call_later(_GATHER_SECONDS + groups * _GATHER_PER_GROUP, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if not self.reservations.trusts:
            for namespace in sorted(self._due):
                self._decide(namespace)
        woken, self._to_wake = self._to_wake, {}
        for group in woken:
            state = self._groups.directory.get(group)
            for wake in () if state is None else self._wakers.get(self._groups.server_of(state), ()):
                wake(group)

    def _decide(self, namespace: str) -> None:
        self._due.discard(namespace)
        for claim in self.reservations.decide(namespace):
            self._to_wake[claim.id] = None
            self._arm()
            item = claim.state.object
            if claim.is_held and item is not None and not self._groups.writes_own_status(claim.state):
                self._handle.event_recorder.event(
                    item,
                    type="Warning",
                    reason="WaitingForQuota",
                    action="Scheduling",
                    note=shortfall_text(claim.shortfalls),
                )

    # --- annotations

    def _enqueue(self, claim: Claim) -> None:
        if self._queue is not None:
            self._queue.put_nowait(claim.id)

    async def _write(self, group: GroupId) -> None:
        """Bring the annotation of a group up to date."""
        claim = self.reservations.of(group)
        item = None if claim is None else claim.state.object
        if claim is None or item is None:
            self._writes.pop(group, None)
            return
        wanted = annotation_of(claim)
        if wanted == item.annotations.get(RESERVED):
            return
        now, before = self._clock.now(), self._writes.get(group)
        times = 0
        if before is not None and before.uid == item.uid:
            if before.version == item.resource_version:
                return
            if before.until > now:
                self._clock.call_later(before.until - now, lambda: self._enqueue(claim))
                return
            times = before.times + 1 if before.text == wanted else 0
        pause = min(_RETRY_SECONDS * 2.0 ** min(times, 16), _RETRY_SECONDS_AT_MOST)
        patch = {"metadata": {"annotations": {RESERVED: wanted}}}
        try:
            await self._handle.client.patch(type(item), item.name, item.namespace, patch=patch)
        except NotFoundError:
            return
        except (APIError, TransportError) as error:
            self._failed(claim, error)
            return
        self._failures = 0
        self._writes[group] = _Write(item.uid, item.resource_version, wanted, times, now + pause)

    def _failed(self, claim: Claim, error: APIError | TransportError) -> None:
        """Retry a write after a pause, which many writes share if they fail for one reason."""
        self._handle.recorder.warning("quota_reservation_not_written")
        now = self._clock.now()
        if now >= self._paused_until:
            if not self._failures:
                _log.warning("Quota reservation is not written podGroup=%s err=%s", claim.id, error)
            pause = min(_RETRY_SECONDS * 2.0 ** min(self._failures, 16), _RETRY_SECONDS_AT_MOST)
            self._failures += 1
            self._paused_until = now + pause
        self._clock.call_later(self._paused_until - now, lambda: self._enqueue(claim))

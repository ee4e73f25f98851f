"""For the admission webhook: refuse a new pod if it needs quota that is reserved for a pod group."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.api import Pod, ResourceQuota
from pyscheduler.podgroup.directory import GroupDirectory
from pyscheduler.podgroup.identity import GroupId
from pyscheduler_quota.claims import amount_text
from pyscheduler_quota.quotas import RESOURCE_QUOTAS, PodTraits, pod_usage
from pyscheduler_quota.reservations import Reservations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.api import KubeObject, ResourceKind
    from pyscheduler.framework import Clock
    from pyscheduler.podgroup.dialects import DialectTable
    from pyscheduler_quota.claims import Shortfall
    from pyscheduler_quota.quotas import Amounts, Quota

__all__ = ["QuotaAdmission"]

#: How long after its admission a pod may be charged, and how long a decision waits for others at most, in seconds. The
#: API server waits two seconds for the webhook.
_CHARGED_SECONDS: Final = 1.0
_WAIT_SECONDS: Final = 1.5


@attrs.frozen
class _Admitted:
    """A pod that was admitted a moment ago."""

    pod: Pod
    usage: Amounts
    traits: PodTraits
    #: The use of the quotas of its namespace at its admission, by name of the quota.
    used: Mapping[str, Amounts]
    #: Clock seconds.
    until: float


class QuotaAdmission:
    """The reservations of a cluster, and the pods that were admitted a moment ago."""

    def __init__(self, table: DialectTable, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._directory = GroupDirectory(dialect for dialect in table if dialect.declares_resources)
        self._reservations = Reservations(self._directory, lambda _: True)
        #: By uid, in the order of admission.
        self._admitted: dict[str, _Admitted] = {}
        #: Decisions that wait for news.
        self._waiting: set[asyncio.Event] = set()

    def kinds(self) -> Sequence[ResourceKind]:
        """Return the kinds of which `put` and `remove` need all objects, apart from pods."""
        groups = (kind for dialect in self._directory.dialects for kind in dialect.kinds)
        return (RESOURCE_QUOTAS, *dict.fromkeys(groups))

    # --- events

    def put(self, item: KubeObject) -> None:
        """Add or update an object."""
        if isinstance(item, Pod):
            self._directory.pod_added(item)
        elif isinstance(item, ResourceQuota):
            self._reservations.put_quota(item)
            for event in self._waiting:
                event.set()
        else:
            self._directory.object_added(item)
            dialect = self._table.of_object(item)
            group = None if dialect is None else GroupId(item.namespace, item.name, dialect.family)
            state = None if group is None else self._directory.get(group)
            if state is not None:
                self._reservations.refresh(state)  # the annotation is nothing that the directory reports

    def remove(self, item: KubeObject) -> None:
        """Remove an object."""
        if isinstance(item, Pod):
            self._directory.pod_deleted(item)
        elif isinstance(item, ResourceQuota):
            self._reservations.remove_quota(item)
        else:
            self._directory.object_deleted(item)

    # --- decisions

    async def decide(self, pod: Pod, *, is_dry_run: bool = False) -> str:
        """Return why a pod must not be created; "" if it may be. An admitted pod counts, except in a dry run."""
        until = self._clock.now() + _WAIT_SECONDS
        while True:
            self._forget_late()
            short = self._reservations.refusal_of(pod)
            if short:
                return _text(pod, short)
            left = until - self._clock.now()
            if left <= 0 or not self._reservations.refusal_of(pod, self._not_charged):
                break
            await self._news(min([left, *(each.until - self._clock.now() for each in self._admitted.values())]))
        if not is_dry_run and pod.uid and not self._reservations.never_fits(pod):
            self._admit(pod)
        return ""

    def _admit(self, pod: Pod) -> None:
        used = {quota.name: quota.used for quota in self._reservations.quotas(pod.namespace)}
        until = self._clock.now() + _CHARGED_SECONDS
        self._admitted[pod.uid] = _Admitted(pod, pod_usage(pod), PodTraits.of(pod), used, until)
        self._reservations.expect(pod)

    async def _news(self, seconds: float) -> None:
        """Wait for a change of a quota, for at most `seconds`."""
        event = asyncio.Event()
        timer = self._clock.call_later(max(seconds, 0.0), event.set)
        self._waiting.add(event)
        try:
            await event.wait()
        finally:
            self._waiting.discard(event)
            timer.cancel()

    def _not_charged(self, quota: Quota) -> dict[str, int]:
        """Return what the API server may still charge to a quota for pods that were admitted a moment ago."""
        counted = [
            each
            for each in self._admitted.values()
            if each.pod.namespace == quota.source.namespace and quota.name in each.used and quota.counts(each.traits)
        ]
        if not counted:
            return {}
        # Pods that were charged since the first one was admitted are in the present use: do not count them twice.
        total = Counter(counted[0].used[quota.name])
        for each in counted:
            total.update(each.usage)
        return {name: more for name, nanos in total.items() if (more := nanos - quota.used.get(name, 0)) > 0}

    def _forget_late(self) -> None:
        now = self._clock.now()
        for uid, each in list(self._admitted.items()):
            if each.until > now:
                return
            del self._admitted[uid]
            self._reservations.withdraw(each.pod)


def _text(pod: Pod, short: Sequence[Shortfall]) -> str:
    parts = [
        f"{each.quota}: {each.resource}: requested {amount_text(each.resource, each.needed)}, "
        f"limit {amount_text(each.resource, each.hard)}, used {amount_text(each.resource, each.used)}, "
        f"reserved by groups {amount_text(each.resource, each.reserved)}"
        for each in short
    ]
    return (
        f'pod "{pod.name}" would take quota that pod groups have reserved: {"; ".join(parts)}; '
        "retry when these groups have started, or raise the quota"
    )

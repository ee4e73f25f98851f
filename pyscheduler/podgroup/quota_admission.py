"""Whether a new pod may be admitted, or would take quota that groups have reserved. Fed by events; no I/O.

Reservations are those of the annotations, which the scheduler writes. A pod that was admitted counts at once, before
the events about it and its quota arrive: a controller creates many pods at the same moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.api import Pod, ResourceQuota
from pyscheduler.podgroup.directory import GroupDirectory
from pyscheduler.podgroup.identity import GroupId
from pyscheduler.podgroup.quota_claims import amount_text
from pyscheduler.podgroup.quotas import RESOURCE_QUOTAS, PodTraits, pod_usage
from pyscheduler.podgroup.reservations import Reservations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.api import KubeObject, ResourceKind
    from pyscheduler.framework import Clock
    from pyscheduler.podgroup.dialects import DialectTable
    from pyscheduler.podgroup.quotas import Amounts, Quota

__all__ = ["QuotaAdmission"]

#: For so long an admitted pod counts whose creation is not seen, in seconds; another check may have refused it.
_EXPECTED_SECONDS: Final = 5.0


@attrs.frozen
class _Admitted:
    """A pod that was admitted and not seen yet."""

    pod: Pod
    usage: Amounts
    traits: PodTraits
    #: Clock seconds.
    until: float


class QuotaAdmission:
    """The reservations of a cluster, and the pods that were admitted a moment ago."""

    def __init__(self, table: DialectTable, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._directory = GroupDirectory(dialect for dialect in table if dialect.declares_resources)
        self._reservations = Reservations(self._directory, lambda _: True, trusts=True)
        #: By uid, in the order of admission.
        self._admitted: dict[str, _Admitted] = {}

    def kinds(self) -> Sequence[ResourceKind]:
        """Return the kinds of which `put` and `remove` need all objects, apart from pods."""
        groups = (kind for dialect in self._directory.dialects for kind in dialect.kinds)
        return (RESOURCE_QUOTAS, *dict.fromkeys(groups))

    # --- events

    def put(self, item: KubeObject) -> None:
        """Add or update an object."""
        if isinstance(item, Pod):
            self._admitted.pop(item.uid, None)
            self._directory.pod_added(item)
        elif isinstance(item, ResourceQuota):
            self._reservations.put_quota(item)
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

    def refusal(self, pod: Pod, *, is_dry_run: bool = False) -> str:
        """Return why a pod must not be created; "" if it may. An admitted pod counts, unless that is a dry run."""
        self._forget_late()
        short = self._reservations.refusal_of(pod, self._not_seen)
        if short:
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
        # A pod that does not fit is refused by its quota, and must not count.
        if not is_dry_run and pod.uid and self._reservations.fits(pod, self._not_seen):
            until = self._clock.now() + _EXPECTED_SECONDS
            self._admitted[pod.uid] = _Admitted(pod, pod_usage(pod), PodTraits.of(pod), until)
            self._reservations.expect(pod)
        return ""

    def _not_seen(self, quota: Quota) -> dict[str, int]:
        """Return what pods use that were admitted and not seen yet."""
        total: dict[str, int] = {}
        for each in self._admitted.values():
            if each.pod.namespace == quota.source.namespace and quota.counts(each.traits):
                for name, nanos in each.usage.items():
                    total[name] = total.get(name, 0) + nanos
        return total

    def _forget_late(self) -> None:
        now = self._clock.now()
        for uid, each in list(self._admitted.items()):
            if each.until > now:
                return
            del self._admitted[uid]
            self._reservations.withdraw(each.pod)

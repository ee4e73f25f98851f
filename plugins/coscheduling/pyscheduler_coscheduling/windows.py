"""After a failure, a group is refused for a limited time, which is called its window.

At the end of the window, the group is retried if it has changed or nodes were freed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from pyscheduler.podgroup import ExpiringMap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Set as AbstractSet

    from pyscheduler.framework import Clock
    from pyscheduler.podgroup import GroupId

__all__ = ["Failures", "Moment"]

#: So long after a failure a group without a window is not made to try all its members again.
_HUSH_SECONDS: Final = 1.0

#: How often the group changed, and how often room may have appeared.
Moment: TypeAlias = tuple[int, int]


@attrs.define(eq=False)
class _Seen:
    """The state of the cluster when a group failed."""

    changes: int
    releases: int
    #: The groups that held nodes, and how often each had given any back. Nodes of groups that held none do not count:
    #: otherwise, two groups could retry each other for ever.
    holders: Mapping[GroupId, int]
    #: Members of the group that were nominated to nodes, by uid: one that failed made room for them.
    promised: AbstractSet[str]
    at: float


class Failures:
    """The windows of denied and backed off groups of one profile, by group.

    `wake` is called with a group whose last window has ended, where there is a reason to try it; `promises` returns the
    members of groups that are nominated to nodes, by uid.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        denied_seconds: float,
        backoff_seconds: float,
        wake: Callable[[GroupId], object],
        promises: Callable[[], Mapping[str, GroupId]],
    ) -> None:
        self._clock = clock
        self._wake = wake
        self._promises = promises
        self._denied: ExpiringMap[GroupId, None] = ExpiringMap(clock, denied_seconds, on_expiry=self._ended)
        self._backed_off: ExpiringMap[GroupId, None] = ExpiringMap(clock, backoff_seconds, on_expiry=self._ended)
        #: Groups that failed and were not woken since.
        self._seen: dict[GroupId, _Seen] = {}
        self._changes: dict[GroupId, int] = {}
        #: How often room may have appeared, and how often a group gave back what it held.
        self._releases = 0
        self._own: dict[GroupId, int] = {}
        #: The pods of each group that hold a node in memory, by uid.
        self._holding: dict[GroupId, set[str]] = {}

    def is_denied(self, group: GroupId) -> bool:
        """Return True if the group is in the window after a failure."""
        return group in self._denied

    def is_backed_off(self, group: GroupId) -> bool:
        """Return True if the group is in the window of the group backoff."""
        return group in self._backed_off

    def is_refused(self, group: GroupId) -> bool:
        """Return True if the group is in any window."""
        return group in self._denied or group in self._backed_off

    def is_recorded(self, group: GroupId) -> bool:
        """Return True if the group failed, and neither the end of a window woke it nor Permit accepted it since."""
        return group in self._seen

    def deny(self, group: GroupId, *, back_off: bool = False, retry: bool = False) -> None:
        """Refuse the group from now on; a window that is open is neither prolonged nor restarted.

        With `retry` there is a reason to try it at the window's end whatever happens until then: what made it fail has
        nothing to do with room.
        """
        self._denied.add(group, None)
        if back_off:
            self._backed_off.add(group, None)
        seen = self._now(group)
        if retry:
            seen.changes -= 1
        elif (before := self._seen.get(group)) is not None and self.is_refused(group):
            seen = before
        self._seen[group] = seen

    def back_off(self, group: GroupId) -> None:
        """Refuse a group for its backoff, unless it is backed off already; its end wakes the group if there is news."""
        self._backed_off.add(group, None)
        if group not in self._seen:
            self._seen[group] = self._now(group)

    def forgive(self, group: GroupId) -> None:
        """Forget the failure: the group got through Permit."""
        self._denied.remove(group)
        self._backed_off.remove(group)
        self._seen.pop(group, None)

    def forget(self, group: GroupId) -> None:
        """Forget all of a group that is gone."""
        self.forgive(group)
        self._changes.pop(group, None)
        self._own.pop(group, None)
        self._holding.pop(group, None)

    def is_hushed(self, group: GroupId) -> bool:
        """Return True if the group failed a moment ago and there is no reason to try it again.

        In a window it is refused anyway. Without one, what each member gives back would have room for another, which
        would have all the others tried once more, without end.
        """
        seen = self._seen.get(group)
        if seen is None or self._clock.now() - seen.at >= _HUSH_SECONDS:
            return False
        return not self._has_news(group, seen)

    def has_just_failed(self, group: GroupId) -> bool:
        """Return True if the group failed so recently that a member whose wait ends now was waiting then.

        No wait is shorter than a second, and a failure ends all that are under way.
        """
        seen = self._seen.get(group)
        return seen is not None and self._clock.now() - seen.at < _HUSH_SECONDS

    def changed(self, group: GroupId) -> None:
        """Note that the group or one of its members changed."""
        self._changes[group] = self._changes.get(group, 0) + 1

    def released(self, by: GroupId | None = None) -> None:
        """Note that room may have appeared; `by` is the group that gave it back, and for which that is no news."""
        if by is None:
            self._releases += 1
        else:
            self._own[by] = self._own.get(by, 0) + 1

    def holds(self, group: GroupId, uid: str) -> None:
        """Note that a pod of the group holds a node."""
        self._holding.setdefault(group, set()).add(uid)

    def holds_no_more(self, group: GroupId, uid: str) -> None:
        """Note that a pod of the group gave its node back, is bound, or is gone."""
        held = self._holding.get(group)
        if held is not None:
            held.discard(uid)
            if not held:
                del self._holding[group]

    def moment(self, group: GroupId) -> Moment:
        """Return a value that changes when the group changes, or when room may have appeared that it did not hold."""
        return self._changes.get(group, 0), self._releases

    def close(self) -> None:
        """Cancel all timers."""
        self._denied.clear()
        self._backed_off.clear()

    def _now(self, group: GroupId) -> _Seen:
        promises = self._promises()
        holding = {*self._holding, *promises.values()} - {group}
        return _Seen(
            self._changes.get(group, 0),
            self._releases,
            holders={other: self._own.get(other, 0) for other in holding},
            promised={uid for uid, other in promises.items() if other == group},
            at=self._clock.now(),
        )

    def _has_news(self, group: GroupId, seen: _Seen) -> bool:
        if (seen.changes, seen.releases) != self.moment(group):
            return True
        if any(self._own.get(other, 0) != count for other, count in seen.holders.items()):
            return True
        return bool(seen.promised) and bool(seen.promised - self._holding.get(group, set()) - self._promises().keys())

    def _ended(self, group: GroupId, _value: None) -> None:
        seen = self._seen.get(group)
        if seen is None or self.is_refused(group):
            return
        if self._has_news(group, seen):
            del self._seen[group]
            self._wake(group)

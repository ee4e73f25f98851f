"""Pods that wait at Permit, as plugins see them: a plugin can allow or reject a pod, and read how its wait ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.status import Status

__all__ = ["WaitVerdict", "WaitingIndex", "WaitingPod"]


@attrs.frozen(kw_only=True)
class WaitVerdict:
    """The end of a wait. `status` is None when the pod was allowed.

    `cause` is one of `allowed`, `rejected`, `timeout`, `deleted`, `preempted`, `stopped` (the scheduler stops, or the
    binding was broken off); `plugin` is the plugin that caused it ("" for a deletion and a stop).
    """

    cause: str
    plugin: str = ""
    status: Status | None = None


class WaitingPod(Protocol):
    """One pod in the waiting-pod map, its reservation standing. Takes one verdict; later ones are ignored."""

    @property
    def pod(self) -> Pod:
        """Return the pod, with its node set."""
        ...

    @property
    def node_name(self) -> str:
        """Return the node reserved for it."""
        ...

    @property
    def profile_name(self) -> str:
        """Return the profile that schedules it; the map is shared by all profiles."""
        ...

    @property
    def pending_plugins(self) -> Collection[str]:
        """Return the plugins that have not allowed it yet."""
        ...

    @property
    def waiting_since(self) -> float:
        """Return the clock time at which the wait began."""
        ...

    @property
    def verdict(self) -> WaitVerdict | None:
        """Return how the wait ended; None while it lasts."""
        ...

    def allow(self, plugin: str) -> None:
        """Withdraw the hold of `plugin`; the last one lets the pod go on to be bound.

        A plugin that does not hold the pod changes nothing. Raises `ValueError` for a name that no plugin has.
        """
        ...

    def reject(self, plugin: str, reason: str) -> bool:
        """End the wait with a rejection by `plugin`; return False when the verdict was already there.

        Raises `ValueError` for a name that no plugin has.
        """
        ...

    def preempt(self, plugin: str, reason: str) -> bool:
        """End the wait because the pod was chosen as a victim; return False when the verdict was already there."""
        ...


class WaitingIndex(Protocol):
    """The pods in the waiting-pod map by a key that a plugin gave, of all profiles; see `Handle.index_waiting_pods`."""

    def of(self, key: Hashable) -> Sequence[WaitingPod]:
        """Return the pods that wait under `key`, in the order in which they began to; a copy, safe to act on.

        A pod that was refused is among them until its binding cycle has taken the verdict and it gives its node back.
        One that was allowed is not: it waits no more.
        """
        ...

    def count(self, key: Hashable) -> int:
        """Return how many these are."""
        ...

    def groups(self) -> Sequence[Hashable]:
        """Return the keys under which some pod waits."""
        ...

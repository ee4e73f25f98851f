"""The base class of Volcano's sessions: a session is the state of one scheduling round.

The plugins of a session are in groups, called tiers.
"""

from __future__ import annotations

from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from pyscheduler_batch.contract import Session
from pyscheduler_batch.model.row_cache import RowCache
from pyscheduler_volcano.amounts import Scale
from pyscheduler_volcano.books import Books
from pyscheduler_volcano.kept_jobs import KeptJobs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyscheduler_batch.contract import Policy

__all__ = ["TierSession"]


@attrs.define(eq=False, kw_only=True, slots=False)
class TierSession(Session):
    """A session with policies in tiers."""

    own_modules: ClassVar[tuple[str, ...]] = (*Session.own_modules, "pyscheduler_volcano.")

    @cached_property
    def scale(self) -> Scale:
        """Return the tolerances of the axis."""
        return Scale(self.axis)

    @cached_property
    def books(self) -> Books:
        """Return the sums by job; jobs without a queue do not take part."""
        deque(self._follow(), maxlen=0)
        return Books(self._kept)

    def _follow(self) -> Iterable[None]:
        """Read the jobs that changed since the last pass, one after the other."""
        return self._kept.follow(self.jobs)

    @cached_property
    def _kept(self) -> KeptJobs:
        return self.memory.get(KeptJobs, lambda: KeptJobs(self.scale))

    @cached_property
    def rows(self) -> RowCache:
        """Return what is kept per node."""
        return RowCache(len(self.nodes))

    def switch(self, policy: Policy, name: str, *, default: bool) -> bool:
        """Return a switch of a policy in the configuration, such as `enableHierarchy`."""
        for tier in self.tiers:
            for entry in tier:
                if entry.policy is policy:
                    return entry.is_on(name, default=default)
        return default

    def by_tier(self, role: type[Any], switch: str = "") -> list[list[Any]]:
        """Return by tier the policies of a role that are switched on; kept for the session."""
        found = self._roles.get((role, switch))
        if found is None:
            found = self._roles[role, switch] = self.policies(role, switch)
        return found

    @cached_property
    def _roles(self) -> dict[tuple[type[Any], str], list[list[Any]]]:
        return {}

    @cached_property
    def has_own_policies_only(self) -> bool:
        """Return whether all policies are of the system itself."""
        return all(self.is_own(entry.policy) for tier in self.tiers for entry in tier)

"""Data that all plugins for groups share: the groups, their members, and the plugin responsible for each group.

A plugin gets this data with `PodGroups.of(handle)`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pyscheduler.framework import PluginError
from pyscheduler.podgroup.dialects import DialectTable
from pyscheduler.podgroup.directory import ChangeKind, GroupDirectory
from pyscheduler.podgroup.identity import GroupId
from pyscheduler.podgroup.informer_adapter import InformerAdapter
from pyscheduler.podgroup.membership import MemberPlace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyscheduler.api import Pod
    from pyscheduler.framework import Clock, Handle
    from pyscheduler.podgroup.dialects import Dialect
    from pyscheduler.podgroup.directory import GroupChange
    from pyscheduler.podgroup.membership import GroupState
    from pyscheduler.podgroup.model import Group

__all__ = ["PodGroups"]

_log = logging.getLogger(__name__)


class PodGroups:
    """The groups of one scheduler. `resort` sorts queued pods again whose sort keys have changed."""

    def __init__(
        self, *, clock: Clock, resort: Callable[[Iterable[Pod]], object], table: DialectTable | None = None
    ) -> None:
        self.table = table if table is not None else DialectTable()
        self.directory = GroupDirectory(())
        self._clock = clock
        #: Wall time at which the clock began. Computed once, because sort keys depend on it.
        self.epoch = clock.wall() - clock.now()
        self._resort = resort
        self._claims: dict[str, str] = {}
        #: Dialects whose plugin writes the status of groups itself.
        self._self_written: set[str] = set()
        #: Plugins that serve, or only sort, the dialects whose rows name them, including rows added later.
        self._take_defaults: list[str] = []
        self._sort_defaults: list[str] = []
        #: The wall time of the last failure of groups that have not passed Permit since; read only.
        self.last_failed: dict[GroupId, float] = {}
        #: The last round in which each member was tried, by uid, as recorded with `tried`; read only.
        self.rounds: dict[str, int] = {}
        self._adapter = InformerAdapter(self.directory)
        self.directory.subscribe(self._changed)

    #: Its key among the objects that plugins share.
    KEY: Final = "pyscheduler/pod-groups"

    @classmethod
    def of(cls, handle: Handle) -> PodGroups:
        """Return the groups of the scheduler that `handle` belongs to; call it in a plugin's constructor."""
        groups = handle.shared(cls.KEY, lambda: cls(clock=handle.clock, resort=handle.resort))
        groups._adapter.connect(handle, groups.table)  # noqa: SLF001 - its own
        return groups

    def add_dialect(self, dialect: Dialect, handle: Handle) -> None:
        """Add a dialect; `handle` is that of a plugin that watches its kinds.

        The plugin that the row names serves it, even if that plugin was made before. Raises `ConfigError` for a row
        that cannot work, `PluginError` once pods are known.
        """
        self.table.add_dialect(dialect)
        self._choose()
        self._adapter.connect(handle, self.table)

    # --- whose groups they are

    def claim(
        self, plugin: str, dialects: Iterable[str] | None = None, *, writes_status: bool = False
    ) -> tuple[Dialect, ...]:
        """Let `plugin` serve the groups of these dialects, by default those that name it; return those that it got.

        A dialect belongs to the first plugin that claims it. A pod that names groups in several dialects belongs to the
        group of the dialect claimed first. With `writes_status` the plugin writes the status of these groups, and
        `StatusController` does not. Raises `ConfigError` for an unknown dialect, `PluginError` once pods are known.
        """
        names = [each.name for each in self.table.claimed_by(plugin)] if dialects is None else list(dialects)
        if dialects is None and plugin not in self._take_defaults:
            self._take_defaults.append(plugin)
        for name in names:
            self.table.named(name)
            self._claims.setdefault(name, plugin)
            if writes_status:
                self._self_written.add(name)
        self._choose()
        return tuple(self.table.named(name) for name in names if self._claims[name] == plugin)

    def sort_only(self, plugin: str) -> None:
        """Know the groups of the dialects that name `plugin`, in order to sort their pods; it need not be enabled."""
        if plugin not in self._sort_defaults:
            self._sort_defaults.append(plugin)
        self._choose()

    def served_by(self, plugin: str, pod: Pod) -> GroupState | None:
        """Return the pod's group if it is known and `plugin` serves it, else None: the pod is a plain one to it."""
        state = self.directory.of(pod)
        return state if state is not None and self.server_of(state) == plugin else None

    def server_of(self, state: GroupState) -> str:
        """Return the plugin that serves a group; "" if none does."""
        return self._claims.get(state.group.dialect, "")

    def writes_own_status(self, state: GroupState) -> bool:
        """Return True if the plugin of the group's dialect writes its status itself."""
        return state.group.dialect in self._self_written

    def _choose(self) -> None:
        for plugin in self._take_defaults:
            for dialect in self.table.claimed_by(plugin):
                self._claims.setdefault(dialect.name, plugin)
        merely_sorted = [each.name for plugin in self._sort_defaults for each in self.table.claimed_by(plugin)]
        chosen = tuple(self.table.named(name) for name in dict.fromkeys([*self._claims, *merely_sorted]))
        if chosen != self.directory.dialects:
            if len(self.directory):
                raise PluginError("dialects of pod groups are claimed when a plugin is made, not later", plugin="")
            self.directory.choose(chosen)

    # --- what orders the queue

    def failed(self, group: GroupId) -> None:
        """Record that a group failed now; its pods are sorted behind those of groups that have waited longer."""
        self.last_failed[group] = self._clock.wall()
        self._resort_groups([group])

    def passed(self, group: GroupId) -> None:
        """Forget the failure of a group that passed Permit."""
        if self.last_failed.pop(group, None) is not None:
            self._resort_groups([group])

    def tried(self, uid: str, round_number: int) -> None:
        """Record the round in which a member was tried; the member must not be in the queue."""
        if self.directory.place_of(uid) is not None:
            self.rounds[uid] = round_number

    def _resort_groups(self, groups: Iterable[GroupId]) -> None:
        states = [state for group in groups if (state := self.directory.get(group)) is not None]
        pods = [pod for state in states for pod in state.pending.values()]
        if pods:
            self._resort(pods)

    def _changed(self, change: GroupChange) -> None:
        state, old = change.state, change.old
        group = state.group
        if change.kind is ChangeKind.LEFT and change.pod is not None:
            if self.directory.place_of(change.pod.uid) in {None, MemberPlace.SUCCEEDED, MemberPlace.FAILED}:
                self.rounds.pop(change.pod.uid, None)
        elif change.kind is ChangeKind.FORGOTTEN:
            if self.directory.get(state.id) is None:
                self.last_failed.pop(state.id, None)
            # The rest of its gang group may have a later creation time now.
            self._resort_groups(_partners(group))
        elif change.kind is ChangeKind.DECLARED and old is not None:
            if self.server_of(state):
                _log_problems(old, group)
            same_time = old.created == group.created and old.is_declared == group.is_declared
            if not same_time or old.gang_group != group.gang_group:
                self._resort_groups(dict.fromkeys([*_partners(old), *_partners(group)]))


def _log_problems(old: Group, new: Group) -> None:
    """Log values that cannot be used, and fields on which members disagree, each once until it is gone."""
    for problem in new.problems:
        if problem not in old.problems:
            _log.warning("Ignoring invalid field group=%s %s", new.id, problem)
    for text in new.disagreements:
        if text not in old.disagreements:
            _log.warning("Members of a group say different things group=%s %s", new.id, text)


def _partners(group: Group) -> list[GroupId]:
    return [GroupId.of_key(key, group.id.family) for key in group.gang_group]

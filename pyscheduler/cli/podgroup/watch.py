"""`kubectl podgroup get --watch`: print a row for every group that changes, until Ctrl-C."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pyscheduler.api import Pod, parse_label_selector
from pyscheduler.cli.podgroup.group_facts import fact_readers
from pyscheduler.cli.podgroup.summary import labelled, summary_of
from pyscheduler.podgroup import GroupDirectory, GroupId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence, Set as AbstractSet

    from pyscheduler.api import KubeObject, ResourceKind
    from pyscheduler.cli.podgroup.summary import Summary
    from pyscheduler.podgroup import DialectTable, GroupState
    from pyscheduler.scheduler.ports import ClusterClient

__all__ = ["follow"]

#: Changes within this time are shown together: a gang that is bound is one row, not one row for each pod.
_GATHER_SECONDS: Final = 0.2


class _Watch:
    """Collects changed groups and reports them at intervals."""

    def __init__(
        self,
        table: DialectTable,
        kinds: Sequence[ResourceKind],
        shown: Iterable[Summary],
        *,
        names: AbstractSet[str],
        selector: str,
    ) -> None:
        self.directory = GroupDirectory(table)
        self._table = table
        self._kinds = kinds
        self._names = names
        self._selector = parse_label_selector(selector) if selector else None
        #: Of facts, only what objects of groups say: nothing else is watched.
        self._readers = fact_readers()
        self._shown = {one.state.id: _essence(one) for one in shown}
        self._news: set[GroupId] = set()
        self._changed = asyncio.Event()
        self.directory.subscribe(lambda change: self._note(change.state))

    def _note(self, state: GroupState) -> None:
        self._news.add(state.id)
        self._changed.set()

    def came(self, item: KubeObject) -> None:
        """Process an added or changed object; a change that the directory ignores may matter here."""
        state: GroupState | None
        if isinstance(item, Pod):
            self.directory.pod_added(item)
            state = self.directory.of(item)
        else:
            self.directory.object_added(item)
            dialect = self._table.of_object(item)
            assert dialect is not None, f"no dialect reads {type(item).__qualname__}"
            state = self.directory.get(GroupId(item.namespace, item.name, dialect.family))
        if state is not None:
            self._note(state)

    def went(self, item: KubeObject) -> None:
        if isinstance(item, Pod):
            self.directory.pod_deleted(item)
        else:
            self.directory.object_deleted(item)

    async def news(self) -> list[Summary]:
        """Wait for groups that look different from the last time they were shown."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(_GATHER_SECONDS)
            self._changed.clear()
            groups, self._news = sorted(self._news), set()
            found = []
            for group in groups:
                state = self.directory.get(group)
                if state is None:
                    self._shown.pop(group, None)
                elif self._is_asked_for(state):
                    summary = summary_of(state, self.directory.dialect_of(state), self._readers, self._kinds)
                    essence = _essence(summary)
                    if self._shown.get(group) != essence:
                        self._shown[group] = essence
                        found.append(summary)
            if found:
                return found

    def _is_asked_for(self, state: GroupState) -> bool:
        if self._names and state.id.name not in self._names:
            return False
        return self._selector is None or any(self._selector.matches(each.labels) for each in labelled(state))


def _essence(summary: Summary) -> tuple[object, ...]:
    """Return the visible state of a group."""
    state = summary.state
    counts = (summary.bound, summary.waiting, summary.pending)
    ended = (len(state.running), len(state.succeeded), len(state.failed))
    return (summary.phase, state.group, counts, ended, summary.reason)


async def follow(
    client: ClusterClient,
    kinds: Sequence[ResourceKind],
    *,
    table: DialectTable,
    shown: Iterable[Summary],
    show: Callable[[Sequence[Summary]], None],
    names: AbstractSet[str],
    selector: str,
) -> None:
    """Pass groups to `show` as they change, beginning with differences from `shown`; run until cancelled.

    A group without objects is not shown again. Broken watches are resumed; kinds that are not served are tried again.
    """
    watch = _Watch(table, kinds, shown, names=names, selector=selector)
    informers = [client.informer(kind, optional=kind.type is not Pod) for kind in kinds]
    for informer in informers:
        informer.add_event_handler(on_add=watch.came, on_update=lambda _old, new: watch.came(new), on_delete=watch.went)
        informer.start()
    # Show nothing before all lists are complete; otherwise groups would seem to lose members and get them back.
    await asyncio.gather(*(informer.wait_synced() for informer in informers))
    while True:
        show(await watch.news())

"""Statements: lists of trial changes in the snapshot. A change places, evicts or nominates a pod.

When a statement ends, the snapshot gets its old state back. `discard` drops the changes. `commit` returns their net
effect, and the scheduler carries it out (`scheduler.group_commit`).
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import attrs

from pyscheduler.framework.trial import Trial, TrialKind
from pyscheduler.runtime.extension_points.reserving import reserve

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
    from typing import Self

    from pyscheduler.api import Pod
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.framework.snapshot import Checkpoint, Snapshot
    from pyscheduler.framework.status import Status
    from pyscheduler.runtime.cooperative_yield import CooperativeYield
    from pyscheduler.runtime.extension_points.reserving import Release, ReservesPods

__all__ = ["Changes", "Statement"]


@attrs.frozen
class Changes:
    """The net effect of a statement, by uid: the pods that get a node, lose it, or are nominated to one.

    A pod that moves is evicted and placed. `generations`: of each node that gets a pod, as of the statement's begin.
    """

    placed: Mapping[str, tuple[PodInfo, str]]
    evicted: Mapping[str, tuple[PodInfo, str]]
    nominated: Mapping[str, tuple[PodInfo, str]]
    generations: Mapping[str, int]


class Statement:
    """Opens when it is made; use it as a context manager, which discards what was not committed.

    `trial` is what the cycle states of its pods carry. `release` frees what evicted pods hold; None frees nothing.
    """

    __slots__ = ("_base", "_freed", "_log", "_marks", "_nominated", "_release", "_snapshot", "_undo", "trial")

    def __init__(
        self, snapshot: Snapshot, kind: TrialKind = TrialKind.QUESTION, *, release: Release | None = None
    ) -> None:
        self.trial = Trial(kind)
        self._snapshot = snapshot
        self._release = release
        self._base: Checkpoint | None = snapshot.checkpoint()
        #: What was done: the pod, the node, and whether the pod was placed (or else evicted).
        self._log: list[tuple[PodInfo, str, bool]] = []
        self._nominated: list[tuple[PodInfo, str]] = []
        #: Inverses of what was done to books.
        self._undo: list[Callable[[], object]] = []
        #: By uid and node of an evicted pod, what books again what it held there, and what freed it.
        self._freed: dict[tuple[str, str], tuple[Sequence[Callable[[], None]], Release]] = {}
        self._marks: dict[Checkpoint, tuple[int, int, int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    # Changes

    def place(self, info: PodInfo, node_name: str) -> None:
        """Put a pod on a node; raise `KeyError` if the node is not in the snapshot. A nomination of the pod ends.

        A pod that was evicted from that node holds again what it held there.
        """
        self._snapshot.place(info, node_name)
        self._log.append((info, node_name, True))
        freed = self._freed.get((info.pod.uid, node_name))
        if freed is not None:
            self._book_again(info.pod, node_name)
            self._undo.append(partial(self._free, info.pod, node_name, freed[1]))

    def evict(self, info: PodInfo, node_name: str) -> None:
        """Take a pod off a node; raise `KeyError` if either is not in the snapshot."""
        self.evict_all((info,), node_name)

    def evict_all(
        self,
        infos: Iterable[PodInfo],
        node_name: str,
        *,
        free_ports: bool = False,
        release: Release | None = None,
    ) -> None:
        """Take several pods off a node, with what they hold in plugins' books.

        With `free_ports` their host ports count as free, even where another pod uses them as well. `release` replaces
        that of the statement.
        """
        infos = [*infos]
        self._snapshot.evict_all(infos, node_name, free_ports=free_ports)
        release = release or self._release
        for info in infos:
            self._log.append((info, node_name, False))
            if release is not None and self._free(info.pod, node_name, release):
                self._undo.append(partial(self._book_again, info.pod, node_name))

    def nominate(self, info: PodInfo, node_name: str) -> None:
        """Nominate a pod to a node; "" ends its nomination."""
        self._snapshot.nominate(info, node_name)
        self._nominated.append((info, node_name))

    def reserve(
        self, profile: ReservesPods, state: CycleState, pod: Pod, node_name: str, *, group: Hashable = None
    ) -> Status | None:
        """Run Reserve and Permit for a pod that was placed; return a rejection, an error, or WAIT (not enough yet).

        Unreserve runs at once if a plugin rejects the pod, and otherwise when this is undone. The trial counts the pod
        among the placed ones of its group.
        """
        self.trial.place(group, pod.uid, node_name)
        unreserve = partial(self._unreserve, profile, state, pod, node_name, group)
        status, _ = reserve(profile, state, pod, node_name, unreserve=unreserve)
        if status is None or status.is_wait:
            self._undo.append(unreserve)
        return status

    def _unreserve(self, profile: ReservesPods, state: CycleState, pod: Pod, node_name: str, group: Hashable) -> None:
        self.trial.take_back(group, pod.uid)  # before Unreserve: the plugins find the pod without a node
        profile.run_unreserve(state, pod, node_name)

    def _free(self, pod: Pod, node_name: str, release: Release) -> bool:
        restores = release(pod, node_name)
        if restores:
            self._freed[pod.uid, node_name] = (restores, release)
        return bool(restores)

    def _book_again(self, pod: Pod, node_name: str) -> None:
        freed = self._freed.pop((pod.uid, node_name), None)
        if freed is not None:
            for restore in reversed(freed[0]):
                restore()

    # Undoing

    def checkpoint(self) -> Checkpoint:
        """Mark the present state. Checkpoints nest."""
        checkpoint = self._snapshot.checkpoint()
        self._marks[checkpoint] = (len(self._undo), len(self._log), len(self._nominated))
        return checkpoint

    def rollback(self, to: Checkpoint) -> None:
        """Undo everything since the checkpoint, which is used up."""
        num_undo, num_log, num_nominated = self._marks.pop(to)
        while len(self._undo) > num_undo:
            self._undo.pop()()
        del self._log[num_log:]
        del self._nominated[num_nominated:]
        self._snapshot.rollback(to)

    def keep(self, checkpoint: Checkpoint) -> None:
        """Give up the last checkpoint, and with it the copies of nodes that a rollback to it would need."""
        del self._marks[checkpoint]
        self._snapshot.keep(checkpoint)

    @contextmanager
    def undo_at_end(self) -> Iterator[None]:
        """Take a checkpoint on entry, roll back to it on exit."""
        checkpoint = self.checkpoint()
        try:
            yield
        finally:
            self.rollback(checkpoint)

    def discard(self) -> None:
        """Undo everything and end the statement; does nothing if it has ended."""
        if self._base is None:
            return
        try:
            while self._undo:
                self._undo.pop()()
        finally:
            base, self._base = self._base, None
            self._snapshot.rollback(base)

    async def commit(self, turns: CooperativeYield) -> Changes:
        """Undo everything and end the statement; return what is to be done for real. Lets the loop turn."""
        while self._undo:
            self._undo.pop()()
            await turns.yield_if_due()
        self.discard()
        return self._changes()

    def _changes(self) -> Changes:
        placed: dict[str, tuple[PodInfo, str]] = {}
        evicted: dict[str, tuple[PodInfo, str]] = {}
        for info, node_name, is_placement in self._log:
            uid = info.pod.uid
            undone, done = (evicted, placed) if is_placement else (placed, evicted)
            if undone.get(uid, (None, ""))[1] == node_name:
                del undone[uid]
            else:
                done[uid] = (info, node_name)
        nodes = {name: node for _, name in placed.values() if (node := self._snapshot.get(name)) is not None}
        generations = {name: node.generation for name, node in nodes.items()}
        return Changes(placed, evicted, {info.pod.uid: (info, name) for info, name in self._nominated}, generations)

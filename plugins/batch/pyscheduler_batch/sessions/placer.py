"""`SnapshotPlacer`: run the filter and score plugins of a profile for the pods of one scheduling round.

The plugins see a snapshot that includes the placements and evictions of the round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import attrs
import msgspec
import numpy as np

from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.framework.diagnosis import FitError
from pyscheduler.framework.errors import PluginError
from pyscheduler.framework.interfaces import PreScorePlugin, ScorePlugin
from pyscheduler.framework.profile import ExtensionPoint
from pyscheduler.framework.status import Code
from pyscheduler.framework.trial import TrialKind
from pyscheduler.runtime.extension_points.reserving import reserve
from pyscheduler.runtime.extension_points.run_context import context_of
from pyscheduler.runtime.placement import feasible_nodes, fits_on
from pyscheduler.runtime.statement import Statement
from pyscheduler_batch.model.tasks import TaskState
from pyscheduler_batch.sessions.filter_keys import FilterKeys, unplaced
from pyscheduler_batch.sessions.lasting_filters import AMOUNTS, ANTI_AFFINITY, SHARES, LastingAnswer, LastingFilters

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence
    from typing import Self

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.cache.snapshot import Snapshot
    from pyscheduler.framework.affinity_terms import AffinityTerm
    from pyscheduler.framework.nodes import LabelColumn, Nodes
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.runtime.profile import Profile
    from pyscheduler_batch.model.tasks import Task

__all__ = ["SnapshotPlacer"]


#: Plugins whose books are about pods with claims only.
_BOOKS_OF_CLAIMS: Final = frozenset({"VolumeBinding", "DynamicResources"})
#: Plugins that say of no node that evictions could help, as in kube-scheduler, although victims give back devices.
_FREED_BY_EVICTIONS: Final = frozenset({"DynamicResources"})


@attrs.define(eq=False)
class _Answer:
    """The answers of the filters about a task and its look-alikes, as of a version of the nodes: bool[N]."""

    version: int
    accepted: NDArray[np.bool_]
    curable: NDArray[np.bool_] | None = None
    error: FitError | PluginError | None = None
    #: The message of the error, which counts nodes by reason; made once for all look-alikes.
    text: str = ""


class _Move(NamedTuple):
    """A task that comes to a node or leaves it, and the version of the nodes before."""

    task: Task
    node: int
    is_placement: bool
    before: int


class SnapshotPlacer:
    """Implements `model.placer.Placer`. Use it as a context manager: on exit the snapshot is as it was."""

    def __init__(
        self,
        profile: Profile,
        snapshot: Snapshot,
        names: Sequence[str],
        infos: dict[str, PodInfo],
        *,
        ready: NDArray[np.bool_] | None = None,
        keys: FilterKeys | None = None,
        answers: dict[Hashable, LastingAnswer] | None = None,
    ) -> None:
        """Begin a pass. `keys` and `answers`: those of earlier passes."""
        self._profile = profile
        self._snapshot = snapshot
        self._names = names
        #: By uid of a task, its pod as it is on its node, or as it waits.
        self._infos = infos
        #: bool[N]: the nodes that take tasks; None for all.
        self._ready = ready
        #: Evicted pods give back in the trial what they hold in plugins' books.
        self._statement = Statement(snapshot, TrialKind.ATTEMPT, release=profile.release())
        #: Whether plugins of other distributions keep books, about any pod.
        books = {*profile.points[ExtensionPoint.RESERVE]} - _BOOKS_OF_CLAIMS
        self._has_books = bool(books)
        #: Whether they may be books of anything but shares of GPUs.
        self._has_unknown_books = not books <= {SHARES}
        #: Whether a filter looks at shares of GPUs.
        self._has_shares = SHARES in profile.points[ExtensionPoint.FILTER]
        #: By key of look-alikes, a state in which only that filter takes part.
        self._share_states: dict[Hashable, CycleState] = {}
        #: By key of look-alikes, the nodes that it accepts, too, and the version of the nodes.
        self._with_shares: dict[Hashable, tuple[int, NDArray[np.bool_]]] = {}
        #: By uid of a placed task, what was reserved for it in the trial.
        self._reserved: dict[str, tuple[CycleState, Pod, str]] = {}
        #: By uid of a task, its pod without a node: the filters ask about other nodes, too.
        self._free: dict[str, Pod] = {}
        #: By name of a node, the pods that were releasing when the pass began.
        self._leaving: dict[str, list[PodInfo]] = {}
        self._placed: dict[str, PodInfo] = {}
        #: The version of the nodes: another one after each move, the former one once a move is undone.
        self._version = 0
        self._last_version = 0
        #: The moves that the snapshot does not show yet. Many are undone before any filter asks about them.
        self._moves: list[_Move] = []
        self._lasting_filters = LastingFilters(profile, snapshot, {} if answers is None else answers)
        #: By key of look-alikes; None if their answers may change.
        self._lasting: dict[Hashable, LastingAnswer | None] = {}
        #: Whether no pod that repels others was placed.
        self._may_last = True
        self._keys = keys or FilterKeys(profile)
        #: By key of look-alikes.
        self._answers: dict[Hashable, _Answer] = {}
        #: The key of the pod that was filtered last, and what was found: the scores of exactly these nodes are cached.
        self._found: tuple[Hashable, Nodes | None] = (None, None)
        #: By uid, the state of the last cycle of a task.
        self.states: dict[str, CycleState] = {}
        #: By uid of a task that no node can take, why.
        self.rejections: dict[str, FitError | PluginError] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for state, pod, node_name in reversed([*self._reserved.values()]):
                self._profile.run_unreserve(state, pod, node_name)
        finally:
            self._statement.discard()

    def remove_releasing(self, pods: Iterable[tuple[PodInfo, str]]) -> None:
        """Remove the pods that are releasing when the pass begins: `(pod, node name)`."""
        for info, node_name in pods:
            self._statement.evict(info, node_name)
            self._leaving.setdefault(node_name, []).append(info)

    def forget_nominations(self, infos: Iterable[PodInfo]) -> None:
        """Ignore the nominations of tasks: the pass decides anew about all of them."""
        for info in infos:
            self._statement.nominate(info, "")

    def suitable(self, task: Task) -> NDArray[np.bool_]:
        """Return bool[N], read-only: the nodes that the filters accept, or would accept if they had enough room."""
        lasting = self._answer_without_shares(task)
        if lasting is None:
            return self.feasible(task)
        return self._room_on_gpus(task, lasting.accepted) if self._has_shares else lasting.accepted

    def lasts(self, task: Task) -> bool:
        """Return whether the filters' answer about a task depends on the task and on node objects alone."""
        return self._lasting_answer(task) is not None

    def lasts_with_shares(self, task: Task) -> bool:
        """Return whether the filters' answer depends on the task, on node objects and on shares of GPUs alone."""
        return self._answer_without_shares(task) is not None

    def _lasting_answer(self, task: Task) -> LastingAnswer | None:
        """Return what holds for the whole pass; None also for a task that no node can take: it has an error."""
        return None if self._has_shares else self._answer_without_shares(task)

    def _answer_without_shares(self, task: Task) -> LastingAnswer | None:
        """Return what would hold for the whole pass if no pod shared a GPU."""
        info = self._infos[task.uid]
        key = self._keys.plain(info) if self._may_last and not self._has_unknown_books else None
        if key is None:
            return None
        if key not in self._lasting:
            self.show_moves()
            answer = self._lasting_filters.answer(key, lambda: CycleState(self._statement.trial), unplaced(info.pod))
            if answer is not None and self._ready is not None:
                answer = LastingAnswer.of(answer.accepted & self._ready, answer.curable & self._ready)
            self._lasting[key] = answer if answer is not None and answer.accepted.any() else None
        return self._lasting[key]

    def _room_on_gpus(self, task: Task, accepted: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return bool[N], read-only: those of the accepted nodes that GpuSharing accepts now."""
        key, pod, nodes = self._keys.exact(self._infos[task.uid]), self._pod(task), self._snapshot.nodes
        known = self._with_shares.get(key)
        if known is not None and known[0] == self._version:
            return known[1]
        self.show_moves()
        state = self._share_states.get(key)
        if state is None:
            state = self._share_states[key] = CycleState(self._statement.trial)
            self._profile.run_pre_filter(state, pod, nodes)
            others = {*self._profile.points[ExtensionPoint.FILTER]} - {SHARES}
            context_of(state).skip_filter.update(others)
        found = accepted
        if self._profile.active_filters(state):
            found = accepted & self._profile.run_filters(state, pod, nodes).passed()
            found.flags.writeable = False
        self._with_shares[key] = self._version, found
        return found

    def labels(self, key: str) -> LabelColumn:
        """Return the values of a label on the nodes."""
        return self._snapshot.nodes.labels(key)

    def feasible(self, task: Task) -> NDArray[np.bool_]:
        """Return bool[N], read-only: the nodes that the filters accept.

        Look-alikes get the same array as long as nothing is placed or removed.
        """
        return self._answer_for(task).accepted

    def curable(self, task: Task) -> NDArray[np.bool_]:
        """Return bool[N], read-only: the nodes that accept the task, or whose rejection an eviction may cure."""
        lasting = self._lasting_answer(task)
        if lasting is not None:
            return lasting.curable
        answer = self._answer_for(task)
        if answer.curable is None:
            answer.curable = self._cure(task, answer)
            if self._ready is not None:
                answer.curable = answer.curable & self._ready
            answer.curable.flags.writeable = False
        return answer.curable

    def why_not(self, task: Task, *, beside_room: bool = False) -> str:
        """Return why the last answer about the pod, or about a look-alike, accepts no node; "" if it accepts one.

        With `beside_room`, also "" for a plain pod that some node refuses for its amounts alone.
        """
        info = self._infos[task.uid]
        key = self._keys.exact(info)
        # `suitable` does not know which filter is to blame.
        answer = self._answer_for(task) if key in self._with_shares else self._answers.get(key)
        if answer is None or answer.error is None:
            return ""
        if beside_room and isinstance(answer.error, FitError) and self._keys.plain(info) is not None:
            counts = answer.error.diagnosis.node_statuses.counts()
            if any(status.plugin == AMOUNTS for status, _ in counts):
                return ""
        answer.text = answer.text or str(answer.error)
        return answer.text

    def may_run_together(self, tasks: Sequence[Task]) -> bool:
        """Return False if more tasks keep each other out of a topology domain than there are domains for them.

        Source of the rule: kube-scheduler, plugin InterPodAffinity. A node without the topology key takes any number.
        """
        if ANTI_AFFINITY not in self._profile.points[ExtensionPoint.FILTER]:
            return True
        apart: dict[AffinityTerm, list[Task]] = {}
        for task in tasks:
            info = self._infos[task.uid]
            for term in info.required_anti_affinity_terms:
                if info.pod.namespace in term.namespaces and term.selector.matches(info.pod.labels):
                    apart.setdefault(term, []).append(task)
        for term, members in apart.items():
            if len(members) > 1:
                domains = self._snapshot.nodes.labels(term.topology_key).ids
                usable = domains[np.logical_or.reduce([self.curable(task) for task in members])]
                if usable.all() and len(np.unique(usable)) < len(members):
                    return False
        return True

    def _answer_for(self, task: Task) -> _Answer:
        key = self._keys.exact(self._infos[task.uid])
        known = self._answers.get(key)
        if known is not None and known.version == self._version:
            if known.error is not None:
                self.rejections[task.uid] = known.error
            return known
        self.show_moves()
        answer = self._answers[key] = _Answer(self._version, np.zeros(len(self._names), dtype=bool))
        state = self.states[task.uid] = CycleState(self._statement.trial)
        try:
            found = feasible_nodes(self._profile, state, self._pod(task), self._snapshot.nodes)
        except (FitError, PluginError) as error:
            # In a cycle with this frame, its traceback would keep the answers until all objects are collected.
            answer.error = self.rejections[task.uid] = error.with_traceback(None)
        else:
            self._found = (key, found)
            answer.accepted[found.rows] = True
            if self._ready is not None:
                answer.accepted &= self._ready
        answer.accepted.flags.writeable = False
        return answer

    def _cure(self, task: Task, answer: _Answer) -> NDArray[np.bool_]:
        """Return the accepted nodes, and those whose filters do not say that no eviction helps."""
        accepted, error = answer.accepted, answer.error
        if accepted.all() or isinstance(error, PluginError):
            return accepted
        if error is not None:
            statuses = error.diagnosis.node_statuses
        else:
            self.show_moves()
            nodes, state = self._snapshot.nodes, CycleState(self._statement.trial)
            pod = self._pod(task)
            feasible_nodes(self._profile, state, pod, nodes)
            statuses = self._profile.run_filters(state, pod, nodes)
        if len(statuses) == len(accepted):
            hopeful: NDArray[np.bool_] = statuses.codes != int(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
            if error is None or not error.diagnosis.pre_filter_message:
                freed = [at for at, each in enumerate(statuses.table) if each.plugin in _FREED_BY_EVICTIONS]
                hopeful |= np.isin(statuses.reason_ids, freed)
            return accepted | hopeful
        # PreFilter left out nodes; they have no row.
        mask = accepted.copy()
        for row in np.flatnonzero(~accepted).tolist():
            status = statuses.get(self._names[row])
            mask[row] = (
                status is None
                or status.code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE
                or status.plugin in _FREED_BY_EVICTIONS
            )
        return mask

    def _pod(self, task: Task) -> Pod:
        """Return the pod of a task as it waits; a task that was evicted in this pass may be placed elsewhere."""
        pod = self._free.get(task.uid)
        if pod is None:
            pod = self._infos[task.uid].pod
            self._free[task.uid] = pod = pod.with_node_name("") if pod.node_name else pod
        return pod

    def feasible_now(self, task: Task, node: int) -> bool:
        """Return whether the node can take the task, as far as the releasing pods of that node matter."""
        self.show_moves()
        state = CycleState(self._statement.trial)
        pod = self._pod(task)
        return fits_on(self._profile, state, pod, self._snapshot.nodes, self._names[node])

    def scores(
        self, task: Task, rows: NDArray[np.int64], *, without: Sequence[Task] = ()
    ) -> NDArray[np.float64] | None:
        """Return float64[n]: the totals of the profile's Score plugins; None if one of them failed.

        Pods that were releasing when the pass began count on their nodes, because they still use them. Source: Volcano
        `plugins/nodeorder`. Tasks in `without` do not count. Call `feasible` for the task before.
        """
        self.show_moves()
        names = [self._names[row] for row in rows.tolist()] if self._leaving else []
        leaving = [(info, name) for name in names for info in self._leaving.get(name, ())]
        if not leaving and not without:
            return self._scores(task, rows)
        with self._statement.undo_at_end():
            for info, name in leaving:
                self._statement.place(info, name)
            for other in without:
                self._statement.evict(self._placed.get(other.uid) or self._infos[other.uid], self._names[other.node])
            return self._scores(task, rows)

    def _scores(self, task: Task, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
        pod, nodes = self._pod(task), self._view(task, rows)
        state = self.states.get(task.uid)
        if state is None:
            # A look-alike was filtered in its place, or an answer held that is older than its last move.
            state = CycleState(self._statement.trial)
            try:
                feasible_nodes(self._profile, state, pod, nodes)
            except PluginError:
                return None
            except FitError:
                pass  # the task needs evictions there; PreFilter has run, and Score can
        if self._profile.run_pre_score(state, pod, nodes) is not None:
            return None
        ranking = self._profile.rank_nodes(state, pod, nodes)
        return ranking.totals.astype(np.float64) if ranking.status is None else None

    def _view(self, task: Task, rows: NDArray[np.int64]) -> Nodes:
        """Return the nodes `rows`; the very view that the filters returned, if it shows them."""
        key, found = self._found
        if found is None or key != self._keys.exact(self._infos[task.uid]) or not np.array_equal(found.rows, rows):
            return self._snapshot.nodes.take(rows)
        return found

    def raw_scores(self, plugin: str, task: Task, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Return float64[n]: the scores of a plugin, not normalized; None if it has nothing to say about the task."""
        found = self._profile.plugins.get(plugin)
        if not isinstance(found, PreScorePlugin) or not isinstance(found, ScorePlugin):
            return None
        self.show_moves()
        pod, nodes, state = self._pod(task), self._snapshot.nodes.take(rows), CycleState(self._statement.trial)
        if found.pre_score(state, pod, nodes) is not None:
            return None
        return found.score_nodes(state, pod, nodes).astype(np.float64)

    def place(self, task: Task, node: int) -> None:
        """Put the task on the node."""
        self._move(task, node, is_placement=True)
        info = self._infos[task.uid]
        if info.required_anti_affinity_terms:
            self._may_last = False
        has_claims = info.has_storage or bool(info.pod.spec.resource_claims)
        if self._is_moved(task, info) or (not info.pod.node_name and (self._has_books or has_claims)):
            self.show_moves()
            self._reserve(task.uid, self._placed[task.uid].pod, self._names[node])

    def _is_moved(self, task: Task, info: PodInfo) -> bool:
        """Return whether an evicted task is promised a node, and books of other distributions tell its places apart."""
        has_claims = info.has_storage or info.pod.spec.resource_claims
        return bool(info.pod.node_name) and task.state == TaskState.PIPELINED and self._has_books and not has_claims

    def remove(self, task: Task, node: int) -> None:
        """Take the task off the node."""
        reserved = self._reserved.pop(task.uid, None)
        if reserved is not None:
            self.show_moves()
            self._profile.run_unreserve(*reserved)
        self._move(task, node, is_placement=False)

    def _move(self, task: Task, node: int, *, is_placement: bool) -> None:
        """Note a move, or take back the last one if this undoes it."""
        if self._moves:
            last = self._moves[-1]
            if last.task is task and last.node == node and last.is_placement != is_placement:
                self._version = self._moves.pop().before
                return
        self._moves.append(_Move(task, node, is_placement, self._version))
        self._version = self._last_version = self._last_version + 1

    def show_moves(self) -> None:
        """Bring the snapshot, and the books of plugins, up to date."""
        moves, self._moves = self._moves, []
        for task, node, is_placement, _ in moves:
            uid, name = task.uid, self._names[node]
            if not is_placement:
                there = self._placed.pop(uid, None)
                self._statement.evict(there or self._infos[uid], name)
                continue
            info = self._infos[uid]
            if self._is_moved(task, info):
                # Another pod to the books: what the evicted one had is booked again if the eviction is undone.
                metadata = msgspec.structs.replace(info.pod.metadata, uid=f"{uid}/moved")
                info = info.with_pod(msgspec.structs.replace(self._pod(task), metadata=metadata))
            if info.pod.node_name != name:
                info = info.with_pod(info.pod.with_node_name(name))
            self._placed[uid] = info
            self._statement.place(info, name)

    def _reserve(self, uid: str, pod: Pod, node_name: str) -> None:
        """Let plugins book what a placed task needs, so that the next task of the pass sees it.

        A rejection is only noted: the task is refused when it is reserved for real.
        """
        state = self.states.setdefault(uid, CycleState(self._statement.trial))
        status, _ = reserve(self._profile, state, pod, node_name)
        if status is None or status.is_wait:
            self._reserved[uid] = (state, pod, node_name)

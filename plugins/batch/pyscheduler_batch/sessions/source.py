"""Run the passes of the plugin `Batch`. A pass is one scheduling round over all jobs.

Changes of pods, nodes or queues start a pass. A pass starts at least 10 ms after the first change, and at least 50 ms
after the start of the previous pass.

A pass is stopped when it has run for 1 s and made a decision, or run for 10 s.
"""

from __future__ import annotations

import asyncio
import logging
import math
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.errors import PLUGIN_FAILURES, raise_own_cancellation
from pyscheduler.framework.plugin_failures import error_text
from pyscheduler.runtime.cooperative_yield import CooperativeYield
from pyscheduler.scheduler.work import Work, WorkResult
from pyscheduler_batch.model.decisions import Decisions
from pyscheduler_batch.model.plan_log import PlanLog
from pyscheduler_batch.model.policy_checks import incomparable_keys
from pyscheduler_batch.model.sub_groups import is_whole
from pyscheduler_batch.model.tasks import ACTIVE, TaskState
from pyscheduler_batch.queue_problems import BINDING_BACKOFF
from pyscheduler_batch.sessions.culprit import culprit_of
from pyscheduler_batch.sessions.filter_keys import FilterKeys
from pyscheduler_batch.sessions.filter_lines import FilterLines
from pyscheduler_batch.sessions.idle_claims import give_back_devices
from pyscheduler_batch.sessions.lasting_filters import KeptAnswers
from pyscheduler_batch.sessions.pending import PendingPods
from pyscheduler_batch.sessions.placer import SnapshotPlacer
from pyscheduler_batch.sessions.promises import HoldPromises, keep_parts
from pyscheduler_batch.sessions.recovery import Interrupted, read_back, read_interrupted
from pyscheduler_batch.sessions.submission import attributed
from pyscheduler_batch.sessions.tables import ClusterTables, parts
from pyscheduler_batch.sessions.waiting_reasons import steps_of, waiting_texts

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence

    from kube_objects.clock import Timer
    from pyscheduler.api import Node, Pod
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.diagnosis import FitError
    from pyscheduler.framework.errors import PluginError
    from pyscheduler.framework.watches import Lister
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.attempt import Attempt
    from pyscheduler_batch.contract import Action
    from pyscheduler_batch.model.batch_plugin import BatchPlugin
    from pyscheduler_batch.model.decisions import Decision
    from pyscheduler_batch.model.node_table import NodeTable
    from pyscheduler_batch.model.session import Session
    from pyscheduler_batch.model.tasks import Job
    from pyscheduler_batch.sessions.commitments import Commitments
    from pyscheduler_batch.sessions.submission import Submission

__all__ = ["Pass", "Sessions"]

_log = logging.getLogger(__name__)

#: A pass begins so long after the first cause, and so long after the begin of the last pass, in seconds.
DELAY_SECONDS: Final = 0.010
PERIOD_SECONDS: Final = 0.050
#: A pass that took so long is cut; what it decided is carried out, and another one is due at once.
LONGEST_PASS_SECONDS: Final = 1.0
#: A pass without a decision is cut so much later.
LONGEST_IDLE_SECONDS: Final = 9.0
#: An action that takes no turns is ended so much later still.
LONGEST_STUCK_SECONDS: Final = 20.0
#: A job that could not be reserved for real is tried again after so long, doubled up to the second number.
RETRY_SECONDS: Final = (1.0, 10.0)

#: The reason of all jobs that wait while passes fail.
FAILED: Final = "SessionFailed"


#: Other tasks of the scheduler may run after so many pods that the snapshot is to show elsewhere.
_PART: Final = 64
_WAITING: Final = (TaskState.PENDING, TaskState.PIPELINED, TaskState.GATED)


class _PassIsOver(Exception):  # noqa: N818 - it ends a pass, nothing is wrong
    """Raised at a turn of the session when the pass has taken long enough."""


@attrs.frozen(kw_only=True, eq=False)
class Pass:
    """The result of a pass. `is_cut`: it ended before all jobs were considered.

    `is_unfinished`: the next pass may bind what this one could only promise.
    """

    tables: ClusterTables
    session: Session
    decisions: Sequence[Decision]
    is_cut: bool
    is_unfinished: bool
    interrupted: Interrupted
    #: By uid of a task that the filters of the profile let on no node, why.
    rejections: Mapping[str, FitError | PluginError]
    #: By uid, the state of the last cycle of a task.
    states: Mapping[str, CycleState]


@attrs.define(kw_only=True, eq=False)
class Sessions:
    """A `WorkSource`: the passes of one batch profile."""

    profile: Profile
    plugin: BatchPlugin
    submission: Submission
    tables: ClusterTables
    rng: random.Random
    wake: Callable[[], object]
    #: Begins the binding cycles of attempts.
    bind: Callable[[Sequence[Attempt]], Awaitable[object]]
    _pending: PendingPods = attrs.field(init=False)
    _keys: FilterKeys = attrs.field(
        init=False, default=attrs.Factory(lambda self: FilterKeys(self.profile), takes_self=True)
    )
    _answers: KeptAnswers = attrs.field(init=False, factory=KeptAnswers)
    #: Made when the first pass is reported: then the reasons are known that are about nodes.
    _lines: FilterLines | None = None
    _is_due: bool = False
    _timer: Timer | None = None
    _wake_timer: Timer | None = None
    _is_first: bool = True
    #: Whether evictions that a crash interrupted are not carried out yet.
    _is_interrupted: bool = False
    _last_began: float = float("-inf")
    #: How many pods had entered `held` when the last pass ended.
    _entered: int = 0
    _retry_seconds: float = RETRY_SECONDS[0]
    #: Number of passes so far.
    passes: int = 0
    #: Why each job waits, by key, as of the last pass that considered it.
    waiting: Mapping[str, str] = attrs.Factory(dict)
    #: By uid of a job, the reasons of which those texts were made.
    _reasons: Mapping[str, Mapping[str, str]] = attrs.Factory(dict)

    @_pending.default
    def _read_pending(self) -> PendingPods:
        return PendingPods(self.submission.scheduling.queue.sub_queues, self.profile.name)

    @property
    def commitments(self) -> Commitments:
        """The commitments of the profile."""
        return self.submission.commitments

    # When

    def register(self, pods: Lister[Pod], nodes: Lister[Node]) -> None:
        """Make passes due at changes of pods, nodes, and what the plugin reads."""
        pods.add_event_handler(on_add=self._pod_added, on_update=self._updated, on_delete=self._pod_deleted)
        nodes.add_event_handler(on_add=self._node_changed, on_update=self._node_updated, on_delete=self._node_changed)
        self.plugin.subscribe(self._described)
        self.plugin.on_news = self._shares_changed

    def _described(self, job_key: str | None) -> None:
        self.tables.changed(job_key)
        if job_key is None:
            self.commitments.changed_outside()
        self.request()

    def _shares_changed(self) -> None:
        if self.waiting or self._is_due:
            self.commitments.changed_outside()
            self.request()
            self.wake()

    def _node_changed(self, _: Node) -> None:
        self.commitments.changed_outside()
        self.request()

    def _node_updated(self, old: Node, new: Node) -> None:
        # Heartbeats change the rest of the status.
        if _news_facts(old) != _news_facts(new):
            self._node_changed(new)

    def _pod_added(self, pod: Pod) -> None:
        if pod.node_name or pod.scheduler_name == self.profile.name:
            self.request()

    def _pod_deleted(self, pod: Pod) -> None:
        was_evicted = self.submission.evictions.was_evicted(pod.uid)
        if pod.node_name or pod.scheduler_name == self.profile.name:
            if not was_evicted:
                self.commitments.changed_outside()
            self.request()

    def _updated(self, old: Pod, new: Pod) -> None:
        own = self.plugin.own_labels
        is_changed = new.scheduler_name == self.profile.name and _facts(old, own) != _facts(new, own)
        # Some actions evict running pods only.
        runs_now = old.status.phase != new.status.phase and bool(self.waiting)
        # A promise that is kept protects its job no longer.
        is_kept = bool(new.node_name) and not old.node_name and bool(self.commitments.promises) and bool(self.waiting)
        if is_changed or runs_now or is_kept or (new.is_terminating and not old.is_terminating):
            self.request()

    def request(self) -> None:
        """Make a pass due."""
        if self._is_due or self._timer is not None:
            return
        clock = self.submission.scheduling.clock
        due = max(clock.now() + DELAY_SECONDS, self._last_began + PERIOD_SECONDS)
        self._timer = clock.call_at(due, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._is_due = True
        self.wake()

    # WorkSource

    @property
    def held_profiles(self) -> Collection[str]:
        """Return the profile whose pods the sessions take by name."""
        return (self.profile.name,)

    @property
    def has_work(self) -> bool:
        """Return True if a pass is due."""
        return self._is_due

    def next(self) -> Work | None:
        """Return a pass if one is due."""
        if self._entered != self._held_entries():
            self._entered = self._held_entries()
            self.request()
        if not self._is_due or self.plugin.is_reading:
            return None
        self._is_due = False
        return Work(f"session={self.profile.name}", self._run)

    async def _run(self, _has_waited: bool) -> WorkResult:
        self._last_began = began = self.submission.scheduling.clock.now()
        self.passes += 1
        self.commitments.evictions_failed(self.submission.evictions.take_failed(), began)
        try:
            found = await self.decide(until=began + LONGEST_PASS_SECONDS)
        except PLUGIN_FAILURES as error:  # a bug of a policy must cost this pass, not the loop
            raise_own_cancellation(error)
            await self._tell_failure(error)
            self._fail("Pass failed; it is tried again after a backoff", error)
            return WorkResult()
        session = found.session
        # A search without a result would be cut again and again: the next pass begins after a backoff.
        is_stuck = found.is_cut and not found.decisions
        if is_stuck:
            self._note_stuck(session)
        elif found.is_cut:
            self.request()
        try:
            self.submission.evict_again(found.interrupted.resumed)
            decisions = attributed(found.decisions)
            paid = self.commitments.promises.keys() | {each.by.uid for each in decisions if each.by is not None}
            attempts = await self.submission.submit(decisions, session, found.tables, paid=paid)
            # The pass may have placed new members in the place of those that are gone.
            broken = [each for each in found.interrupted.unfinished if not is_whole(each.task.job, ACTIVE)]
            self.submission.evict_again(broken)
            self._is_interrupted = False
            self.commitments.decided(decisions, session.jobs, found.tables.nodes.names, now=began, wall=session.now)
            if self.submission.has_evicted or found.is_unfinished:
                self.request()  # kube-batch makes room for one task in each pass; and deletions may take long
            # Bindings do not wait for the reports, which take long when thousands of jobs are new.
            await self.bind(attempts)
            if await give_back_devices(self.profile, found):
                self.request()
            self.waiting = await waiting_texts(session, self._reasons, self.waiting, is_cut=found.is_cut)
            self._reasons = session.reasons
            self._plan_retry(self.submission.failures > 0 or is_stuck)
            self._plan_wake(session)
            await self._report(session)
        finally:
            session.ledger.put_back()
        return WorkResult()

    async def _report(self, session: Session) -> None:
        """Report the result of the pass to users."""
        try:
            if self._lines is None:
                self._lines = self._make_lines(session)
            unknown = self.tables.unknown()
            await self.submission.texts.report(
                session.jobs.values(), self.waiting, session.turn, unknown, lines=self._lines
            )
            await self.plugin.pass_ended(session, self.waiting)
        except Exception as error:  # noqa: BLE001 - a bug in a status must not undo the decisions
            self._fail("Pass was not reported", error)

    def _make_lines(self, session: Session) -> FilterLines:
        steps = steps_of(session, self.plugin.actions)

        def key(uid: str) -> Hashable | None:
            info = self.tables.infos.get(uid)
            return None if info is None else self._keys.exact(info)

        return FilterLines(
            profile=self.profile,
            scheduling=self.submission.scheduling,
            codes={code for code, step in steps.items() if step == "nodes"},
            key=key,
        )

    def _fail(self, message: str, error: BaseException) -> None:
        """Log and count an error, begin with fresh tables, and try again after a backoff."""
        scheduling, culprit = self.submission.scheduling, culprit_of(error)
        if culprit is None:
            scheduling.recorder.warning("session_failed")
            _log.error('%s profile=%s err="%s"', message, self.profile.name, error_text(error), exc_info=error)
        else:
            # This logs the traceback, once.
            batch: object = self.plugin
            scheduling.plugin_failures.report(
                error,
                plugin=next(name for name, plugin in self.profile.plugins.items() if plugin is batch),
                point="Session",
                about=f"profile={self.profile.name} {culprit.kind}={culprit.name}",
                call=culprit.code,
                warning="session_failed",
            )
            fields = self.profile.name, culprit.kind, culprit.name, error_text(error)
            _log.error('%s profile=%s %s=%s err="%s"', message, *fields)
        self.tables.changed(None)
        self._plan_retry(True)

    async def _tell_failure(self, error: BaseException) -> None:
        """Write on the pods that wait why nothing is decided about them."""
        culprit = culprit_of(error)
        what = error_text(error) if culprit is None else culprit.text(error)
        text = f"{FAILED}: no job can be scheduled, because the pass failed: {what}"
        tables, turns = self.tables, CooperativeYield(self.submission.scheduling.clock)
        built = [job for job in tables.jobs.values() if job.count(_WAITING)]
        jobs = [*built, *tables.unbuilt(self._pending.all(), self._pending.gated)]
        self.waiting, self._reasons = {job.key: text for job in jobs}, {}
        try:
            await self.submission.texts.report(jobs, self.waiting, turns.yield_if_due, tables.unknown())
        except Exception:  # this is about another error already  # noqa: BLE001
            _log.exception("The failure was not reported profile=%s", self.profile.name)

    def _note_stuck(self, session: Session) -> None:
        self.submission.scheduling.recorder.warning("session_stuck")
        _log.warning(
            "Pass was ended without a decision; another one begins after a backoff profile=%s action=%s",
            self.profile.name,
            session.action,
        )

    async def decide(
        self, *, until: float = math.inf, actions: Sequence[Action] | None = None, explains: bool = False
    ) -> Pass:
        """Run the actions (default: the plugin's) on the cluster as it is now, and change nothing.

        `explains`: note the eviction plans that are rejected.
        `until`: clock seconds at which to stop; the time in which tables are read does not count.
        With no action, the policies only prepare, and compute their shares. The caller holds the lock on the snapshot,
        and calls `session.ledger.put_back()` once it has read the result.
        """
        scheduling, clock = self.submission.scheduling, self.submission.scheduling.clock
        scheduling.cache.update_snapshot(scheduling.snapshot)
        self.submission.evictions.forget_seen()
        tables = self.tables
        turns, began = CooperativeYield(clock), clock.now()
        tables.hold({**self._failed_jobs(), **self.commitments.held(began)})
        resources = tables.axis.names
        await tables.refresh(scheduling.snapshot, self._pending, self.submission.evictions.under_way, turns)
        if tables.take_new_jobs() or tables.axis.names != resources:
            self.commitments.changed_outside()
        until += clock.now() - began
        interrupted = await self._see_jobs(turns)
        promises, keeps_parts = self.commitments.promises, self.plugin.keeps_parts
        decisions, held = Decisions(), HoldPromises(promises, interrupted, keeps_parts=keeps_parts)

        async def turn() -> None:
            await turns.yield_if_due()
            late = clock.now() - until
            if session.is_open and late > 0 and (len(decisions.items) > held.count or late > LONGEST_IDLE_SECONDS):
                raise _PassIsOver

        nodes = tables.nodes.table(scheduling.snapshot)
        self._keys.forget_gone(tables.infos)
        with SnapshotPlacer(
            self.profile,
            scheduling.snapshot,
            tables.nodes.names,
            tables.infos,
            ready=tables.nodes.ready,
            keys=self._keys,
            answers=self._answers.since(tables.nodes.changes),
        ) as placer:
            for pods in parts(tables.nodes.leaving(), _PART):
                placer.remove_releasing(pods)
                await turns.yield_if_due()
            promised = [tables.infos[uid] for uid in self.submission.nominated if uid in tables.infos]
            for infos in parts(promised, _PART):
                placer.forget_nominations(infos)
                await turns.yield_if_due()
            session = self._open(nodes, decisions, placer, turn, turns.yield_if_due)
            session.is_refused = self.submission.evictions.is_refused
            session.is_live = self.commitments.is_live
            session.plan_log = PlanLog() if explains else None
            try:
                todo = self.plugin.actions if actions is None else actions
                is_cut = await self._run_actions(session, [held, *todo], until)
            except BaseException as error:
                session.ledger.put_back()
                if isinstance(error, TypeError) and (wrong := incomparable_keys(session)) is not None:
                    raise wrong from error
                raise
            session.turn = turns.yield_if_due  # what follows is not cut
            is_unfinished = keeps_parts and keep_parts(promises, session.jobs, decisions)
        return Pass(
            tables=tables,
            session=session,
            decisions=decisions.items,
            is_cut=is_cut,
            is_unfinished=is_unfinished,
            interrupted=interrupted,
            rejections=placer.rejections,
            states=placer.states,
        )

    def _failed_jobs(self) -> dict[str, str]:
        """Return by uid the jobs of which a pod is in backoff, and what is said about them.

        A gang of which a part is bound is completed all the same: it holds what others could use.
        """
        found: dict[str, str] = {}
        for pod in self._pending.failed():
            task = self.tables.task(pod.uid)
            if task is not None:
                text = f"{pod.key} could not be bound, see its events; it is tried again after a backoff"
                found.setdefault(task.job.uid, f"{BINDING_BACKOFF}: {text}")
        return found

    async def _see_jobs(self, turns: CooperativeYield) -> Interrupted:
        """Give the jobs of this pass to the commitments; return the evictions that a crash interrupted."""
        jobs, pods, commitments = self.tables.jobs, self.submission.evictions.pods, self.commitments
        clock, turn = self.submission.scheduling.clock, turns.yield_if_due
        if self._is_first and self.passes:
            self._is_first = False
            await read_back(commitments, jobs, now=clock.now(), wall=clock.wall(), turn=turn)
            for promise in commitments.promises.values():
                self.submission.nominated.update({uid: name for uid, name in promise.nodes.items() if name})
            self._is_interrupted = True
        interrupted = await read_interrupted(commitments, jobs, turn) if self._is_interrupted else Interrupted()

        def is_bound(pod: Pod) -> bool:
            seen = pods.get(pod.name, pod.namespace)
            return seen is not None and seen.uid == pod.uid and bool(seen.node_name)

        for uid, lost in commitments.seen(jobs, clock.now(), is_bound).items():
            if uid in jobs and jobs[uid].lost != lost:
                jobs[uid].lost = lost
                self.tables.memory.note(uid)
        return interrupted

    async def _run_actions(self, session: Session, actions: Sequence[Action], until: float) -> bool:
        """Run the actions; return whether the pass was cut. An action that takes no turns is cancelled in the end."""

        async def run() -> SystemExit | None:
            try:
                await session.run(actions)
            except SystemExit as error:
                return error  # raised by a task, it would end the event loop
            return None

        running = asyncio.ensure_future(run())
        is_stuck = False

        def cancel() -> None:
            nonlocal is_stuck
            is_stuck = True
            running.cancel()

        clock = self.submission.scheduling.clock
        timer = clock.call_at(until + LONGEST_STUCK_SECONDS, cancel) if until < math.inf else None
        try:
            if (exit_of_a_policy := await running) is not None:
                raise exit_of_a_policy
        except _PassIsOver as over:
            # In a cycle with this frame, its traceback would keep the search that was cut until all objects are
            # collected.
            over.__traceback__ = None
            return True
        except asyncio.CancelledError as cancelled:
            if not is_stuck:
                raise
            cancelled.__traceback__ = None
            return True
        finally:
            if timer is not None:
                timer.cancel()
        return False

    def _held_entries(self) -> int:
        return self.submission.scheduling.queue.sub_queues.entered_held

    def _elapsed(self, began: float) -> float:
        return self.submission.scheduling.clock.now() - began

    def _protected(self, now: float, takers: Mapping[str, set[str]], claimant: Job) -> Collection[str]:
        return self.commitments.protected(claimant, now, self.tables.jobs, takers)

    def _plan_wake(self, session: Session) -> None:
        """Set the timer for what changes without an event: protections, backoffs and promises that end."""
        clock = self.submission.scheduling.clock
        if self._wake_timer is not None:
            self._wake_timer.cancel()
            self._wake_timer = None
        at = clock.now() + (session.wake_at - session.now)
        if self.waiting or session.reasons:
            at = min(at, self.commitments.next_end(clock.now()) or math.inf)
        if at < math.inf:
            self._wake_timer = clock.call_at(at, self.request)

    def _plan_retry(self, has_failed: bool) -> None:
        """Try again after a while if something failed; the pods that were put back are no news."""
        self._entered = self._held_entries()
        if not has_failed:
            self._retry_seconds = RETRY_SECONDS[0]
            return
        self.submission.scheduling.clock.call_later(self._retry_seconds, self.request)
        self._retry_seconds = min(self._retry_seconds * 2, RETRY_SECONDS[1])

    def _open(
        self,
        nodes: NodeTable,
        decisions: Decisions,
        placer: SnapshotPlacer,
        turn: Callable[[], Awaitable[None]],
        uncut_turn: Callable[[], Awaitable[None]],
    ) -> Session:
        clock = self.submission.scheduling.clock
        return self.plugin.make_session(
            axis=self.tables.axis,
            nodes=nodes,
            queues=self.tables.queue_table(),
            jobs=self.tables.jobs,
            tiers=self.plugin.tiers,
            rng=self.rng,
            placer=placer,
            effects=decisions,
            now=clock.wall(),
            foreign=self.tables.nodes.foreign,
            memory=self.tables.memory,
            turn=turn,
            uncut_turn=uncut_turn,
            elapsed=partial(self._elapsed, clock.now()),
            protected=partial(self._protected, clock.now(), decisions.takers),
            with_past=partial(self.commitments.with_past, decisions.takers),
            labels=placer.labels,
            lasts=placer.lasts,
            node_changes=self.tables.nodes.changes,
        )


def _news_facts(node: Node) -> tuple[object, ...]:
    """Return what makes a pass due: not annotations, images and times, which change often and let no job start."""
    conditions = [(each.type, each.status) for each in node.status.conditions]
    return node.spec, node.metadata.labels, node.status.allocatable, node.status.declared_features, conditions


def _facts(pod: Pod, own_labels: tuple[str, ...]) -> tuple[object, ...]:
    """Return what a decision may depend on; a node is not among it, because the cache knows it before.

    Labels that a binding writes would try it again at once if it failed.
    """
    has_ended = pod.status.phase in {"Succeeded", "Failed"}
    labels = {key: value for key, value in pod.labels.items() if not key.startswith(own_labels)}
    return labels, pod.metadata.annotations, pod.spec.scheduling_gates, has_ended

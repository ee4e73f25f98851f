"""The scheduling cycle: one pod, from the queue to a reserved node.

The steps are: update the snapshot, find a node, add the pod to this node in the cache, Reserve, Permit. If
Reserve or Permit fails, the reservation is undone.
Source: kube-scheduler 1.36, `schedulingCycle`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

import attrs

from pyscheduler.cache.errors import CacheError
from pyscheduler.framework.cycle_state import (
    AFTER_FAILURE,
    PODS_TO_ACTIVATE,
    AfterFailure,
    CycleState,
    PodsToActivate,
)
from pyscheduler.framework.departures import leaving, seconds_left
from pyscheduler.framework.diagnosis import FitError, NoNodesError
from pyscheduler.framework.errors import PluginError
from pyscheduler.framework.plugin_failures import PluginFailures
from pyscheduler.framework.preemption import preemption_findings
from pyscheduler.framework.status import Code, Status
from pyscheduler.framework.stories import NullStories, Stories
from pyscheduler.runtime.extension_points.reserving import reserve
from pyscheduler.runtime.placement import rejection_of
from pyscheduler.scheduler.attempt import Attempt
from pyscheduler.scheduler.extender_wire import ExtenderError
from pyscheduler.scheduler.failure import CLEAR_NOMINATION
from pyscheduler.scheduler.pod_status import WAITING_ON_PERMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kube_objects.clock import Clock
    from pyscheduler.api import Pod
    from pyscheduler.cache.cache import Cache
    from pyscheduler.cache.snapshot import Snapshot
    from pyscheduler.framework.interfaces import NominatingInfo
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.queue.scheduling_queue import SchedulingQueue
    from pyscheduler.runtime.placement import Placement, PlacementPipeline
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.failure import FailureHandler

__all__ = ["Failure", "SchedulingCycle"]

_log = logging.getLogger(__name__)


@attrs.define
class Failure:
    """Why an attempt placed no pod. `nominating` None leaves the pod's nomination as it is."""

    status: Status
    nominating: NominatingInfo | None = CLEAR_NOMINATION


class GroupRoom(Protocol):
    """Makes room for groups whose members are scheduled one by one."""

    async def make_room(self, attempt: Attempt, error: FitError) -> Failure | None:
        """Make room for the group of a pod that fits nowhere; return None if the pod may preempt for itself."""

    def nomination_after(self, attempt: Attempt) -> NominatingInfo:
        """Return the nomination of a pod that loses its node."""


@attrs.define(kw_only=True)
class SchedulingCycle:
    """Runs scheduling cycles, one after the other."""

    clock: Clock
    recorder: Recorder
    cache: Cache
    snapshot: Snapshot
    queue: SchedulingQueue
    pipeline: PlacementPipeline
    failure: FailureHandler
    #: Returns one object for all members of a group, which may wait for each other at Permit; None for a plain pod.
    group_of: Callable[[Pod], object | None] = lambda _pod: None
    gangs: GroupRoom | None = None
    stories: Stories = attrs.Factory(NullStories)
    plugin_failures: PluginFailures = attrs.Factory(lambda self: PluginFailures(self.recorder), takes_self=True)

    def begin(self, profile: Profile, queued: QueuedPodInfo) -> Attempt:
        """Return a new attempt of a pod that was popped."""
        to_activate = PodsToActivate()
        after_failure = AfterFailure()
        state = CycleState()
        state.joint = self.group_of(queued.pod)
        state.write(PODS_TO_ACTIVATE, to_activate)
        state.write(AFTER_FAILURE, after_failure)
        return Attempt(
            profile=profile,
            queued=queued,
            pod=queued.pod,
            state=state,
            to_activate=to_activate,
            after_failure=after_failure,
            started_at=self.clock.now(),
        )

    async def run_scheduling_cycle(self, profile: Profile, queued: QueuedPodInfo) -> Attempt | None:
        """Try to place a pod; return the attempt to bind, or None when it failed and was dealt with."""
        attempt = self.begin(profile, queued)
        try:
            self.cache.update_snapshot(self.snapshot)
            found = await self.find_node(attempt)
            failure = found if isinstance(found, Failure) else self.reserve(attempt, found)
        except Exception as error:  # noqa: BLE001 - a bug must cost this attempt, not the loop, and lose no pod
            self.recorder.warning("scheduling_cycle_failed")
            _log.exception("Scheduling cycle failed pod=%s", queued.pod.key)
            self.undo(attempt)
            failure = Failure(Status.from_error(error))
        if failure is not None:
            self.failure.handle(attempt, failure.status, failure.nominating)
            return None
        self.activate(attempt)
        return attempt

    def activate(self, attempt: Attempt) -> None:
        """Activate the pods that plugins asked for; nonsense among them is reported and costs nobody the attempt."""
        pods = attempt.to_activate.pods
        if not pods:
            return
        try:
            self.queue.activate(pods.values())
        except Exception:  # noqa: BLE001 - what stands there was written by plugins
            self.recorder.warning("activation_failed")
            _log.exception("Activating pods failed pod=%s", attempt.queued.pod.key)
        pods.clear()

    async def find_node(
        self, attempt: Attempt, nodes: Nodes | None = None, *, post_filter: bool = True
    ) -> Placement | Failure:
        """Choose a node of the snapshot, or of these nodes of it.

        Where no node fits, run PostFilter unless `post_filter` is False.
        """
        profile, pod = attempt.profile, attempt.queued.pod
        turn = None if attempt.state.trial is not None else profile.batch_turn(pod, self.queue.scheduling_cycle)
        try:
            return await self.pipeline.find_node(profile, attempt.state, pod, turn=turn, nodes=nodes)
        except NoNodesError as error:
            return Failure(Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, error=error))
        except PluginError as error:
            return Failure(Status(Code.ERROR, plugin=error.plugin, error=error))
        except ExtenderError as error:
            return Failure(Status.from_error(error))
        except FitError as error:
            if not post_filter:
                return Failure(Status(Code.UNSCHEDULABLE, error=error), None)
            return await self.make_room(attempt, error)
        finally:
            seconds = self.clock.now() - attempt.started_at
            self.recorder.observe("scheduler_scheduling_algorithm_duration_seconds", seconds)

    async def make_room(self, attempt: Attempt, error: FitError) -> Failure:
        """Make room for a later attempt of a pod that fits nowhere: for its whole group, or for itself."""
        failure: Failure | None = None
        if self.gangs is not None and attempt.state.trial is None:
            failure = await self.gangs.make_room(attempt, error)
        if failure is None:
            failure = await self.ask_post_filters(attempt, error)
        self._give_up_later(attempt, error, failure.nominating)
        return failure

    def _give_up_later(self, attempt: Attempt, error: FitError, nominating: NominatingInfo | None) -> None:
        """Have a nominated pod retried when its victims should be gone: if they are not, no event may come."""
        pod = attempt.queued.pod
        name = self.queue.nominator.node_of(pod.uid) if nominating is None else nominating.node_name
        node = self.snapshot.get(name) if name else None
        if node is None:
            return
        findings = preemption_findings(attempt.state)
        chosen = findings.chosen if findings is not None else None
        victims = leaving(node.pods, pod) if chosen is None else chosen.victims
        seconds = seconds_left(victims, self.clock.wall())
        if seconds is not None and seconds > 0:
            plugin = findings.plugin if findings is not None else ""
            error.diagnosis.note_retry(Status.unschedulable(retry_after=seconds).with_plugin(plugin))

    async def ask_post_filters(
        self, attempt: Attempt, error: FitError, *, runs: Collection[str] | None = None, reason: str = ""
    ) -> Failure:
        """Run the PostFilter plugins, or only those that `runs` names; `reason` stands for the others in the message.

        In a trial that only asks whether a pod fits, nothing but preemption runs.
        """
        nominating: NominatingInfo | None = CLEAR_NOMINATION
        profile, state = attempt.profile, attempt.state
        if profile.has_post_filter:
            if state.trial is not None and state.trial.is_question:
                runs = profile.preemptors.keys()
            result, status = await profile.run_post_filter(
                state, attempt.queued.pod, error.diagnosis.node_statuses, runs=runs
            )
            messages = (reason, status.message)
            error.diagnosis.post_filter_message = ", ".join(text for text in messages if text)
            error.diagnosis.note_retry(status)
            nominating = result.nominating_info if result is not None else None
        return Failure(Status(Code.UNSCHEDULABLE, error=error), nominating)

    def reserve(self, attempt: Attempt, placement: Placement) -> Failure | None:
        """Assume the pod on its node, run Reserve and Permit; forget the pod where a plugin rejects it."""
        attempt.placement = placement
        profile, state, node_name = attempt.profile, attempt.state, placement.node_name
        assumed = attempt.queued.pod_info.with_pod(attempt.queued.pod.with_node_name(node_name))
        try:
            self.cache.assume_pod(assumed)
        except CacheError as error:
            # While an extender was asked, the pod was bound by somebody else.
            return Failure(Status.from_error(error))
        attempt.assumed = assumed
        attempt.pod = assumed.pod
        if not self.queue.nominator.node_of(assumed.pod.uid):
            attempt.queued.taken_in = attempt.queued.tried_in
        self.queue.nominator.delete(assumed.pod)
        status, timeouts = reserve(profile, state, assumed.pod, node_name)
        if status is None:
            return None
        if status.is_wait:
            profile.add_waiting_pod(assumed.pod, node_name, timeouts)
            # The last reason is the same for every wait.
            attempt.wait_message = ", ".join(status.reasons[:-1])
            self.stories.waits(
                assumed.pod, WAITING_ON_PERMIT, attempt.wait_message, plugins=tuple(timeouts), node=node_name
            )
            return None
        attempt.assumed = None
        self._forget(assumed.pod)
        return Failure(rejection_of(status, node_name))

    def undo(self, attempt: Attempt) -> bool:
        """Run Unreserve and forget the assumed pod; tell whether that freed what it held.

        It does not where the informer saw the pod bound meanwhile: then it holds its node in its own right.
        """
        assumed = attempt.assumed
        if assumed is None:
            return False
        attempt.assumed = None
        attempt.profile.run_unreserve(attempt.state, assumed.pod, attempt.node_name)
        return self._forget(assumed.pod)

    def _forget(self, pod: Pod) -> bool:
        """Take an assumed pod out of the cache; return False where the informer saw it bound meanwhile."""
        try:
            self.cache.forget_pod(pod)
        except CacheError as error:
            _log.info("Assumed pod is not forgotten pod=%s err=%s", pod.key, error)
            return False
        return True

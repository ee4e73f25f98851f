"""The scheduling cycle: one pod, from the queue to a reserved node.

It reads top to bottom: bring the snapshot up to date, find a node, assume the pod there, Reserve, Permit. What was done
is undone on any failure. Only extenders and PostFilter may let the loop turn; what the cache hears meanwhile the
snapshot does not.
Source: kube-scheduler 1.36, `schedulingCycle`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import attrs

from pyscheduler.cache.errors import CacheError
from pyscheduler.framework.cycle_state import (
    AFTER_FAILURE,
    PODS_TO_ACTIVATE,
    AfterFailure,
    CycleState,
    PodsToActivate,
)
from pyscheduler.framework.diagnosis import Diagnosis, FitError, NoNodesError
from pyscheduler.framework.errors import PluginError
from pyscheduler.framework.group_cycle import GROUP_CYCLE
from pyscheduler.framework.node_statuses import NodeStatuses
from pyscheduler.framework.status import Code, Status
from pyscheduler.scheduler.attempt import Attempt
from pyscheduler.scheduler.extender_wire import ExtenderError
from pyscheduler.scheduler.failure import CLEAR_NOMINATION

if TYPE_CHECKING:
    from pyscheduler.cache.cache import Cache
    from pyscheduler.cache.snapshot import Snapshot
    from pyscheduler.framework.clock import Clock
    from pyscheduler.framework.interfaces import NominatingInfo
    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.queue.scheduling_queue import SchedulingQueue
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.algorithm import Algorithm
    from pyscheduler.scheduler.extended_algorithm import ExtendedAlgorithm
    from pyscheduler.scheduler.failure import FailureHandler

__all__ = ["SchedulingCycle", "rejection_of"]

_log = logging.getLogger(__name__)


@attrs.define(kw_only=True)
class SchedulingCycle:
    """Runs scheduling cycles, one after the other."""

    clock: Clock
    recorder: Recorder
    cache: Cache
    snapshot: Snapshot
    queue: SchedulingQueue
    algorithm: Algorithm
    failure: FailureHandler
    #: In place of `algorithm` where there are extenders.
    extended: ExtendedAlgorithm | None = None

    def begin(self, profile: Profile, queued: QueuedPodInfo) -> Attempt:
        """Return a new attempt of a pod that was popped."""
        to_activate = PodsToActivate()
        after_failure = AfterFailure()
        state = CycleState()
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
            failed = await self.find_node(attempt) or self.reserve(attempt)
        except Exception as error:  # noqa: BLE001 - a bug must cost this attempt, not the loop, and lose no pod
            self.recorder.warning("scheduling_cycle_failed")
            _log.exception("Scheduling cycle failed pod=%s", queued.pod.key)
            self.undo(attempt)
            failed = (Status.from_error(error), CLEAR_NOMINATION)
        if failed is not None:
            self.failure.handle(attempt, *failed)
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

    async def find_node(self, attempt: Attempt) -> tuple[Status, NominatingInfo | None] | None:
        """Choose a node of the snapshot; return why not, and what becomes of the pod's nomination."""
        profile, pod = attempt.profile, attempt.queued.pod
        in_group = attempt.state.get(GROUP_CYCLE) is not None
        turn = None if in_group else profile.batch_turn(pod, self.queue.scheduling_cycle)
        try:
            if self.extended is None:
                placement = self.algorithm.schedule_pod(profile, attempt.state, pod, turn=turn)
            else:
                placement = await self.extended.schedule_pod(profile, attempt.state, pod, turn=turn)
        except NoNodesError as error:
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, error=error), CLEAR_NOMINATION
        except PluginError as error:
            return Status(Code.ERROR, plugin=error.plugin, error=error), CLEAR_NOMINATION
        except ExtenderError as error:
            return Status.from_error(error), CLEAR_NOMINATION
        except FitError as error:
            return await self._post_filter(attempt, error)
        finally:
            self.recorder.algorithm(self.clock.now() - attempt.started_at)
        attempt.node_name = placement.node_name
        attempt.evaluated_nodes = placement.evaluated_nodes
        attempt.feasible_nodes = placement.feasible_nodes
        return None

    async def _post_filter(self, attempt: Attempt, error: FitError) -> tuple[Status, NominatingInfo | None]:
        """Let PostFilter plugins make room for a later attempt."""
        nominating: NominatingInfo | None = CLEAR_NOMINATION
        if attempt.profile.has_post_filter:
            result, status = await attempt.profile.run_post_filter(
                attempt.state, attempt.queued.pod, error.diagnosis.node_statuses
            )
            error.diagnosis.post_filter_message = status.message
            nominating = result.nominating_info if result is not None else None
        return Status(Code.UNSCHEDULABLE, error=error), nominating

    def reserve(self, attempt: Attempt) -> tuple[Status, NominatingInfo | None] | None:
        """Assume the pod on its node, run Reserve and Permit; undo all of it when one refuses."""
        profile, state, node_name = attempt.profile, attempt.state, attempt.node_name
        assumed = attempt.queued.pod_info.with_pod(attempt.queued.pod.with_node_name(node_name))
        try:
            self.cache.assume_pod(assumed)
        except CacheError as error:
            # While an extender was asked, the pod was bound by somebody else.
            return Status.from_error(error), CLEAR_NOMINATION
        attempt.assumed = assumed
        attempt.pod = assumed.pod
        self.queue.nominator.delete(assumed.pod)
        status = profile.run_reserve(state, assumed.pod, node_name)
        if status is None:
            status, timeouts = profile.run_permit(state, assumed.pod, node_name)
            if status is not None and status.is_wait:
                profile.add_waiting_pod(assumed.pod, node_name, timeouts)
                return None
        if status is None:
            return None
        self.undo(attempt)
        return rejection_of(status, node_name), CLEAR_NOMINATION

    def undo(self, attempt: Attempt) -> bool:
        """Run Unreserve and forget the assumed pod; tell whether that freed what it held.

        It does not where the informer saw the pod bound meanwhile: then it holds its node in its own right.
        """
        assumed = attempt.assumed
        if assumed is None:
            return False
        attempt.assumed = None
        attempt.profile.run_unreserve(attempt.state, assumed.pod, attempt.node_name)
        try:
            self.cache.forget_pod(assumed.pod)
        except CacheError as error:
            _log.info("Assumed pod is not forgotten pod=%s err=%s", assumed.pod.key, error)
            return False
        return True


def rejection_of(status: Status, node_name: str) -> Status:
    """Return a rejection at Reserve or Permit as the fit error of that one node; other statuses as they are.

    Differs from kube-scheduler: where a wait was ended in nobody's name (`reject_waiting_pod`), the pod is retried
    after a backoff. There it waits for events that the plugin called "" registered, so for the five-minute flush.
    """
    if not status.is_rejected:
        return status
    diagnosis = Diagnosis(node_statuses=NodeStatuses.from_mapping({node_name: status}))
    diagnosis.add_plugin_status(status)
    return Status(status.code, plugin=status.plugin, error=FitError(num_all_nodes=1, diagnosis=diagnosis))

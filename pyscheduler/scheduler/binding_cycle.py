"""The binding cycle: a coroutine that binds one pod to its reserved node.

It waits at Permit and runs PreBind, Bind and PostBind. If a step before PostBind fails, the reservation is undone, and
the pod returns to the queue.

Differs from kube-scheduler: if every Bind plugin skips the pod, pyscheduler reports an error on the pod.
Source: kube-scheduler 1.36, `bindingCycle`.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.errors import NotFoundError
from pyscheduler.framework.events import ASSIGNED_POD_DELETE
from pyscheduler.framework.status import Code, Status
from pyscheduler.runtime.extension_points.run_context import context_of
from pyscheduler.runtime.placement import rejection_of
from pyscheduler.scheduler.failure import CLEAR_NOMINATION, truncated
from pyscheduler.scheduler.pod_status import WAITING_ON_PERMIT

if TYPE_CHECKING:
    from pyscheduler.scheduler.attempt import Attempt
    from pyscheduler.scheduler.extenders import Extenders
    from pyscheduler.scheduler.pod_status import PodStatusWriter
    from pyscheduler.scheduler.scheduling_cycle import SchedulingCycle
    from pyscheduler.scheduler.unconfirmed import UnconfirmedBindings

__all__ = ["BindingCycle"]

_log = logging.getLogger(__name__)

#: Number of attempts from which pods share the label value `15+`.
_MANY_ATTEMPTS: Final = 15


@attrs.define(kw_only=True)
class BindingCycle:
    """Runs binding cycles, each in a task of its own."""

    scheduling: SchedulingCycle
    statuses: PodStatusWriter
    unconfirmed: UnconfirmedBindings
    #: Feature gate NominatedNodeNameForExpectation.
    nominate_expectation: bool = True
    #: An extender may bind some pods instead of the Bind plugins.
    extenders: Extenders | None = None

    async def run_binding_cycle(self, attempt: Attempt) -> None:
        """Bind the pod, or undo everything and requeue it. Never raises but for cancellation."""
        try:
            status = await self._bind(attempt)
        except Exception as error:  # noqa: BLE001 - a bug must cost this attempt and lose no pod
            self.scheduling.recorder.warning("binding_cycle_failed")
            _log.exception("Binding cycle failed pod=%s", attempt.queued.pod.key)
            status = Status.from_error(error)
        if status is not None:
            self.fail(attempt, status)
            return
        # No later failure can undo the binding.
        attempt.is_settled = True
        try:
            self._announce(attempt)
            bound_by = context_of(attempt.state).bound_by
            if bound_by is not None and not bound_by.in_tree:
                self.unconfirmed.expect(attempt.pod, bound_by)
            await attempt.profile.run_post_bind(attempt.state, attempt.pod, attempt.node_name)
            self.scheduling.activate(attempt)
        except Exception:  # noqa: BLE001 - see above
            self.scheduling.recorder.warning("post_bind_failed")
            _log.exception("Pod is bound, but some post-bind steps failed pod=%s", attempt.queued.pod.key)

    async def _bind(self, attempt: Attempt) -> Status | None:
        """Run the extension points up to Bind; return the status that ended the cycle, None after a binding."""
        profile, state, node_name = attempt.profile, attempt.state, attempt.node_name
        pod = attempt.pod
        if attempt.is_prepared:
            self.scheduling.queue.done(pod.uid)
        else:
            status = await self._prepare(attempt)
            if status is not None:
                return status
        under_way = self.statuses.drop(pod.uid)
        if under_way is not None:
            # A nomination that is written after the binding would stay on the bound pod forever.
            await asyncio.wait([under_way])
        if self.extenders is not None and not attempt.is_prepared:
            bound = await self.extenders.bind(pod, node_name)
            if bound is not None:
                return None if bound.is_success else bound
        status = await profile.run_bind(state, pod, node_name)
        attempt.is_deleted = status is not None and isinstance(status.error, NotFoundError)
        if status is not None and status.is_skip:
            return Status(Code.ERROR, f"no Bind plugin of profile {profile.name} was willing to bind the pod")
        return status

    async def _prepare(self, attempt: Attempt) -> Status | None:
        """Wait at Permit, run PreBind and wait for the gang; return the status that ended the cycle, or None."""
        profile, state, node_name = attempt.profile, attempt.state, attempt.node_name
        pod = attempt.pod
        prepares = True
        if self.nominate_expectation:
            status = profile.run_pre_bind_pre_flights(state, pod, node_name)
            if status is not None and not status.is_skip:
                return status
            prepares = status is None
            if prepares or profile.will_wait_on_permit(pod):
                # Others (an autoscaler) see the pod's expected node while it waits at Permit or in PreBind.
                self.statuses.expect(attempt.queued.pod, node_name, wait=partial(self._show_wait, attempt))
        elif attempt.wait_message:
            self.statuses.expect(attempt.queued.pod, "", wait=partial(self._show_wait, attempt))
        status = await profile.wait_on_permit(pod)
        if status is not None:
            return rejection_of(status, node_name)
        # From here on events do not matter: after a failure the pod is retried when its backoff ends.
        self.scheduling.queue.done(pod.uid)
        status = await profile.run_pre_bind(state, pod, node_name, may_be_called_off=prepares)
        if status is None and attempt.barrier is not None:
            status = await attempt.barrier.wait(pod.uid)
        return status

    def _show_wait(self, attempt: Attempt) -> str:
        """Return why the pod still waits at Permit, and record the event; "" if it does not, or nobody gave a reason.

        Differs from kube-scheduler, which shows no reasons of waits.
        """
        if not attempt.wait_message or not attempt.profile.will_wait_on_permit(attempt.pod):
            return ""
        attempt.profile.event_recorder.event(
            attempt.queued.pod,
            type="Normal",
            reason=WAITING_ON_PERMIT,
            action="Scheduling",
            note=truncated(f"Waiting with a reserved place on {attempt.node_name}: {attempt.wait_message}"),
        )
        return attempt.wait_message

    def _announce(self, attempt: Attempt) -> None:
        """Update cache, events, logs and metrics."""
        pod = attempt.pod
        queued = attempt.queued
        now = self.scheduling.clock.now()
        attempt.profile.event_recorder.event(
            pod,
            type="Normal",
            reason="Scheduled",
            action="Binding",
            note=f"Successfully assigned {pod.key} to {attempt.node_name}",
        )
        placement = attempt.placement
        if placement is not None and _log.isEnabledFor(logging.INFO):
            _log.info(
                "Successfully bound pod to node pod=%s node=%s evaluatedNodes=%d feasibleNodes=%d",
                pod.key,
                placement.node_name,
                placement.evaluated_nodes,
                placement.feasible_nodes,
            )
        self.scheduling.stories.bound(pod, attempt.node_name)
        recorder = self.scheduling.recorder
        attempt.record(recorder, "scheduled", now)
        attempts = queued.attempts + queued.is_taken
        recorder.observe("scheduler_pod_scheduling_attempts", attempts)
        first = queued.first_attempt_at
        recorder.observe(
            "scheduler_pod_scheduling_sli_duration_seconds",
            now - first if first is not None else 0.0,
            str(attempts) if attempts < _MANY_ATTEMPTS else f"{_MANY_ATTEMPTS}+",
        )
        if queued.was_flushed:
            recorder.count("scheduler_pod_scheduled_after_flush_total")

    def fail(self, attempt: Attempt, status: Status) -> None:
        """Undo the reservation, announce the free room, and return the pod to the queue."""
        pod = attempt.pod
        if attempt.on_failure is not None:
            attempt.on_failure()
        freed = self.scheduling.undo(attempt)
        ignored_by, taken_in = attempt.after_failure.ignored_by, attempt.queued.taken_in
        if status.is_rejected:
            # Announced after the pod is back in the queue, and not to the pod itself: its own room cannot help it.
            gangs = self.scheduling.gangs
            nominating = gangs.nomination_after(attempt) if gangs is not None else CLEAR_NOMINATION
            self.scheduling.failure.handle(attempt, status, nominating)
            if freed:
                self.scheduling.queue.move_all(
                    ASSIGNED_POD_DELETE,
                    pod,
                    None,
                    lambda other: other.uid != pod.uid,
                    ignored_by=ignored_by,
                    taken_in=taken_in,
                )
        else:
            if freed:
                self.scheduling.queue.move_all(ASSIGNED_POD_DELETE, pod, None, ignored_by=ignored_by, taken_in=taken_in)
            self.scheduling.failure.handle(attempt, status, CLEAR_NOMINATION)

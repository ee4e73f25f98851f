"""The state that one scheduling attempt carries from its scheduling cycle into its binding cycle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler.api import Pod
    from pyscheduler.framework.cycle_state import AfterFailure, CycleState, PodsToActivate
    from pyscheduler.framework.pod_info import PodInfo, QueuedPodInfo
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.framework.status import Status
    from pyscheduler.runtime.placement import Placement
    from pyscheduler.runtime.profile import Profile

__all__ = ["Attempt", "Barrier"]


class Barrier(Protocol):
    """Pods of one gang wait here for each other, between PreBind and Bind."""

    async def wait(self, uid: str) -> Status | None:
        """Wait until enough pods are prepared; return why the binding is called off, or None."""
        ...

    def leave(self, uid: str) -> None:
        """Take notice that the attempt of a pod ended."""


@attrs.define(kw_only=True, eq=False)
class Attempt:
    """One try to place one pod."""

    profile: Profile
    queued: QueuedPodInfo
    #: The pod; with its node set from the moment it is assumed.
    pod: Pod
    state: CycleState
    to_activate: PodsToActivate
    after_failure: AfterFailure
    #: Clock seconds when the pod was popped.
    started_at: float
    #: The assumed pod, until the assumption is taken back.
    assumed: PodInfo | None = None
    #: Where the pod was placed; None until then.
    placement: Placement | None = None
    #: What the plugins said that hold the pod at Permit; "" if it does not wait, or they gave no reason.
    wait_message: str = ""
    #: Whether the API server answered to the binding that the pod is not there: it was deleted meanwhile.
    is_deleted: bool = False
    #: Whether the pod was bound, or its failure dealt with; until then somebody has to.
    is_settled: bool = False
    #: Whether an earlier scheduler prepared the pod and handed its binding over; only Bind and what follows runs.
    is_prepared: bool = False
    #: Where the pod waits for other pods of its gang between PreBind and Bind; None for a pod that waits for nobody.
    barrier: Barrier | None = None
    #: Called when the binding cycle fails.
    on_failure: Callable[[], object] | None = None

    @property
    def node_name(self) -> str:
        """Return the name of the node that was chosen; "" where none was."""
        return self.placement.node_name if self.placement is not None else ""

    def record(self, recorder: Recorder, result: str, now: float) -> None:
        """Count the attempt, which ends `now`: `scheduled`, `unschedulable` or `error`."""
        labels = (result, self.profile.name)
        recorder.count("scheduler_schedule_attempts_total", *labels)
        recorder.observe("scheduler_scheduling_attempt_duration_seconds", now - self.started_at, *labels)

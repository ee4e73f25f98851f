"""Count the bound pods that a kubelet refuses to run, for example with the reason `OutOfcpu`.

The scheduler does not watch failed pods, so a pod that a kubelet refuses disappears from the watch. If a bound pod
disappears before it has a container, the scheduler therefore reads the pod from the API server.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from typing import TYPE_CHECKING, Final

import attrs

from kube_objects.times import seconds_of
from pyscheduler.api import Pod
from pyscheduler.framework.errors import APIError, TransportError
from pyscheduler.framework.watches import PolicyRule

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyscheduler.cache.cache import Cache
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.framework.stories import Stories
    from pyscheduler.scheduler.ports import ClusterClient

__all__ = ["RULES", "KubeletRejections"]

_log = logging.getLogger(__name__)

#: The permission that this needs.
RULES: Final = (PolicyRule(api_groups=("",), resources=("pods",), verbs=("get",)),)

#: Reasons that are shown with 0 from the beginning: an alert on a rate needs the zero before the first refusal.
_USUAL: Final = ("NodeAffinity", "OutOfcpu", "OutOfmemory", "OutOfpods", "UnexpectedAdmissionError")
#: Reasons beyond that number are counted as one, because whoever may write the status of pods can make up reasons.
_MOST_REASONS: Final = 50
_OTHER_REASONS: Final = "other"
#: So many pods may wait to be read.
_MOST_WAITING: Final = 1_000


@attrs.define(kw_only=True)
class KubeletRejections:
    """The refusals by reason. `profiles` are the names of this scheduler."""

    client: ClusterClient
    cache: Cache
    profiles: Collection[str]
    stories: Stories
    recorder: Recorder
    _counts: Counter[tuple[str, bool]] = attrs.Factory(
        lambda: Counter({(reason, other): 0 for reason in _USUAL for other in (False, True)})
    )
    _waiting: deque[tuple[Pod, bool]] = attrs.Factory(deque)
    _task: asyncio.Task[None] | None = None
    _leads: bool = False

    def start(self) -> None:
        """Count from now on; called when this replica begins to schedule."""
        self._leads = True

    def values(self) -> dict[tuple[tuple[str, str], ...], float]:
        """Return the counts as series of `pyscheduler_kubelet_rejections_total`."""
        return {
            (("reason", reason), ("other_scheduler", str(other).lower())): float(count)
            for (reason, other), count in self._counts.items()
        }

    def disappeared(self, pod: Pod) -> None:
        """Look why a bound pod disappeared, if a kubelet may have refused it. `pod` is as it was before."""
        if (
            not self._leads
            or pod.scheduler_name not in self.profiles
            or pod.status.phase not in {"", "Pending", "Failed"}
            or pod.metadata.deletion_timestamp
            or _has_containers(pod)
        ):
            return
        if len(self._waiting) >= _MOST_WAITING:
            self.recorder.warning("kubelet_rejections_not_read")
            return
        # Now and not after the answer: the pods that took the room may end soon.
        self._waiting.append((pod, self._is_shared(pod)))
        if self._task is None:
            self._task = asyncio.create_task(self._look(), name="kubelet rejections")

    def _is_shared(self, pod: Pod) -> bool:
        """Return True if a pod of another scheduler was bound to the node after `pod` was created."""
        created = seconds_of(pod.metadata.creation_timestamp)
        others = (info.pod for info in self.cache.pods_on(pod.node_name))
        return any(other.scheduler_name not in self.profiles and _bound_at(other) >= created for other in others)

    async def _look(self) -> None:
        try:
            while self._waiting:
                pod, is_shared = self._waiting.popleft()
                try:
                    found = await self.client.get(Pod, pod.name, pod.namespace)
                except (APIError, TransportError) as error:  # usually it is gone: somebody deleted it
                    _log.debug("Pod that disappeared was not read pod=%s err=%s", pod.key, error)
                    continue
                if found.uid == pod.uid and found.status.phase == "Failed" and not _has_containers(found):
                    self._count(found, is_shared=is_shared)
        finally:
            self._task = None

    def _count(self, pod: Pod, *, is_shared: bool) -> None:
        reason = pod.status.reason
        if not reason:
            return
        known = {reason for reason, _ in self._counts}
        if reason not in known and len(known) >= _MOST_REASONS:
            reason = _OTHER_REASONS
        self._counts[reason, is_shared] += 1
        _log.warning(
            "Kubelet rejected a bound pod pod=%s node=%s reason=%s otherScheduler=%s message=%s",
            pod.key,
            pod.node_name,
            pod.status.reason,
            is_shared,
            pod.status.message,
        )
        message = f"{pod.status.reason}: {pod.status.message}"
        self.stories.ended(pod, "RejectedByKubelet", message, node=pod.node_name)

    @property
    def idle(self) -> bool:
        """Return True if no pod is left to look at."""
        return self._task is None

    def stop(self) -> None:
        """Look at no more pods."""
        self._leads = False
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()


def _has_containers(pod: Pod) -> bool:
    return bool(pod.status.container_statuses or pod.status.init_container_statuses)


def _bound_at(pod: Pod) -> float:
    """Return when a pod was bound, in seconds since the epoch; its creation if it was created with a node."""
    times = (each.last_transition_time for each in pod.status.conditions if each.type == "PodScheduled")
    return seconds_of(next(times, None) or pod.metadata.creation_timestamp)

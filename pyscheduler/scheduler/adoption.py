"""Bindings that an earlier scheduler gave to somebody else, such as a binder of BindRequests, and that are not done.

Before the first pod is scheduled, their pods are assumed on their nodes, and their binding cycles go on at Bind. So the
room of these pods is not given away, and no pod gets a second node.
Source: KAI-Scheduler, `pkg/scheduler/api/pod_info` (a pod with a BindRequest is `Binding` on its node).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyscheduler.cache.errors import CacheError
from pyscheduler.framework.errors import PLUGIN_FAILURES
from pyscheduler.framework.profile import ExtensionPoint
from pyscheduler.runtime.placement import Placement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.attempt import Attempt
    from pyscheduler.scheduler.scheduling_cycle import SchedulingCycle

__all__ = ["adopt_bindings"]

_log = logging.getLogger(__name__)


def adopt_bindings(scheduling: SchedulingCycle, profiles: Iterable[Profile]) -> Sequence[Attempt]:
    """Take the pods of bindings that are under way out of the queue, assume them, and return their attempts.

    A pod that PreEnqueue rejects is left in the queue.
    """
    attempts = []
    for profile in profiles:
        for pod, node_name in _under_way(scheduling, profile):
            attempt = _adopted(scheduling, profile, pod, node_name)
            if attempt is not None:
                attempts.append(attempt)
    if attempts:
        _log.info("Pods wait for bindings of an earlier scheduler pods=%d", len(attempts))
    return attempts


def _under_way(scheduling: SchedulingCycle, profile: Profile) -> Iterator[tuple[Pod, str]]:
    for name in profile.points[ExtensionPoint.BIND]:
        find = getattr(profile.plugins[name], "bindings_under_way", None)
        try:
            yield from () if find is None else list(find())
        except PLUGIN_FAILURES:
            scheduling.recorder.warning("plugin_error")
            _log.exception("Plugin failed to find the bindings that are under way plugin=%s", name)


def _adopted(scheduling: SchedulingCycle, profile: Profile, pod: Pod, node_name: str) -> Attempt | None:
    queue = scheduling.queue
    taken = queue.take([pod]) or queue.pop_these([pod])
    if not taken:
        return None
    attempt = scheduling.begin(profile, taken[0])
    attempt.placement = Placement(node_name=node_name, evaluated_nodes=1, feasible_nodes=1)
    assumed = attempt.queued.pod_info.with_pod(attempt.queued.pod.with_node_name(node_name))
    try:
        scheduling.cache.assume_pod(assumed)
    except CacheError as error:
        _log.info('Binding is not followed pod=%s err="%s"', pod.key, error)
        queue.done(pod.uid)
        return None
    attempt.assumed, attempt.pod, attempt.is_prepared = assumed, assumed.pod, True
    queue.nominator.delete(assumed.pod)
    return attempt

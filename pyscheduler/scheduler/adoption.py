"""Take over the unfinished bindings that an earlier scheduler process handed to a binder (another program).

Before the first pod is scheduled, the pods of these bindings are counted on their nodes.
Source: KAI-Scheduler, `pkg/scheduler/api/pod_info`.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from pyscheduler.cache.errors import CacheError
from pyscheduler.framework.errors import PLUGIN_FAILURES
from pyscheduler.framework.pod_info import PodInfo
from pyscheduler.framework.profile import ExtensionPoint
from pyscheduler.framework.resource import CPU, EPHEMERAL_STORAGE, MEMORY, Resource
from pyscheduler.runtime.placement import Placement

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework import Plugin
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.attempt import Attempt
    from pyscheduler.scheduler.scheduling_cycle import SchedulingCycle

__all__ = ["adopt_bindings"]

_log = logging.getLogger(__name__)


def adopt_bindings(scheduling: SchedulingCycle, profiles: Iterable[Profile]) -> Sequence[Attempt]:
    """Take the pods of bindings that are under way out of the queue, assume them, and return their attempts.

    A pod that PreEnqueue rejects is left in the queue. The plugins are asked to abandon bindings without room.
    """
    attempts: list[Attempt] = []
    rooms: _Rooms | None = None
    for profile in profiles:
        for name in profile.points[ExtensionPoint.BIND]:
            plugin = profile.plugins[name]
            without_room: list[tuple[Pod, str]] = []
            for pod, node_name in _under_way(scheduling, plugin):
                rooms = rooms or _Rooms(scheduling)
                info = PodInfo.of(pod)
                if not rooms.has(info, node_name):
                    without_room.append((pod, node_name))
                elif (attempt := _adopted(scheduling, profile, pod, node_name)) is not None:
                    attempts.append(attempt)
                    rooms.take(info, node_name)
            if without_room:
                _abandon(scheduling, plugin, without_room)
    if attempts:
        _log.info("Pods wait for bindings of an earlier scheduler pods=%d", len(attempts))
    return attempts


def _under_way(scheduling: SchedulingCycle, plugin: Plugin) -> Sequence[tuple[Pod, str]]:
    find = getattr(plugin, "bindings_under_way", None)
    try:
        return () if find is None else list(find())
    except PLUGIN_FAILURES as error:
        scheduling.plugin_failures.report(error, plugin=plugin.name, point="BindingsUnderWay", call=find)
        return ()


class _Rooms:
    """The room that nodes have left, beside the pods that were adopted."""

    def __init__(self, scheduling: SchedulingCycle) -> None:
        scheduling.cache.update_snapshot(scheduling.snapshot)
        self._snapshot = scheduling.snapshot
        #: By node: the requests of all pods there, and how many there are.
        self._requested: dict[str, Resource] = {}
        self._pods: Counter[str] = Counter()

    def has(self, pod: PodInfo, node_name: str) -> bool:
        """Return whether a node has the requested resources of a pod."""
        node, requests = self._snapshot.get(node_name), pod.requests
        if node is None or len(node.pods) + self._pods[node_name] >= node.allocatable.allowed_pods:
            return False
        requested = self._requested.get(node_name, node.requested)
        names = (CPU, MEMORY, EPHEMERAL_STORAGE, *requests.scalars)
        wanted = ((name, requests.get(name)) for name in names)
        return all(requested.get(name) + amount <= node.allocatable.get(name) for name, amount in wanted if amount > 0)

    def take(self, pod: PodInfo, node_name: str) -> None:
        if node_name not in self._requested:
            node = self._snapshot.get(node_name)
            self._requested[node_name] = Resource() if node is None else node.requested.clone()
        self._requested[node_name].add(pod.requests)
        self._pods[node_name] += 1


def _abandon(scheduling: SchedulingCycle, plugin: Plugin, bindings: Sequence[tuple[Pod, str]]) -> None:
    _log.warning(
        "Bindings of an earlier scheduler are abandoned because their nodes have no room pods=%d first=%s node=%s",
        len(bindings),
        bindings[0][0].key,
        bindings[0][1],
    )
    abandon = getattr(plugin, "abandon_bindings", None)
    try:
        if abandon is not None:
            abandon(bindings)
    except PLUGIN_FAILURES as error:
        scheduling.plugin_failures.report(error, plugin=plugin.name, point="AbandonBindings", call=abandon)


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

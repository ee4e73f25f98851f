"""Event handlers: apply the informers' events to the cache and the queue.

A pod with a node enters the cache. A pod without a node enters the queue if a profile has its `schedulerName`.

Differs from kube-scheduler: if a pod loses its nominated node, only other pods are retried.
Source: kube-scheduler 1.36, `eventhandlers.go`.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.api import ObjectMeta, Pod, PodSpec
from pyscheduler.cache.errors import CacheError
from pyscheduler.framework.changes import node_changes, pod_changes
from pyscheduler.framework.departures import is_ready, leaving
from pyscheduler.framework.errors import PySchedulerError
from pyscheduler.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    ASSIGNED_POD_UPDATE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_DELETE,
    UNSCHEDULED_POD_UPDATE,
    ActionType,
    ClusterEvent,
)
from pyscheduler.framework.pod_info import PodInfo
from pyscheduler.framework.stories import NullStories
from pyscheduler.scheduler.failure import truncated
from pyscheduler.scheduler.in_tree_groups import GANG_SCHEDULING
from pyscheduler.scheduler.malformed_pod import readable_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kube_objects.clock import Clock
    from pyscheduler.api import KubeObject, Malformed, Node
    from pyscheduler.cache.cache import Cache
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.framework.stories import Stories
    from pyscheduler.framework.watches import Lister
    from pyscheduler.queue.scheduling_queue import SchedulingQueue
    from pyscheduler.runtime.permit.waiting_pods import WaitingPodMap
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.kubelet_rejections import KubeletRejections
    from pyscheduler.scheduler.pod_status import PodStatusWriter
    from pyscheduler.scheduler.ports import Informer

__all__ = ["EventHandlers"]

_log = logging.getLogger(__name__)

_EVENT_SECONDS: Final = "scheduler_event_handling_duration_seconds"


@attrs.define(kw_only=True)
class EventHandlers:
    """Connects the informers to the cache and the queue."""

    clock: Clock
    recorder: Recorder
    cache: Cache
    queue: SchedulingQueue
    #: Those that schedule.
    profiles: Mapping[str, Profile]
    waiting_pods: WaitingPodMap
    statuses: PodStatusWriter
    rejections: KubeletRejections
    stories: Stories = attrs.Factory(NullStories)
    #: Pods without a node whose `schedulerName` is no profile, by uid: counted and ignored.
    foreign_pods: set[str] = attrs.Factory(set)
    #: Pods of our profiles that cannot be read and so are not in the queue: the message in their event, by uid.
    unreadable_pods: dict[str, str] = attrs.Factory(dict)
    #: The last readable version of pods whose newest version cannot be read, by uid.
    _last_read: dict[str, Pod] = attrs.Factory(dict)

    def register(
        self, pods: Informer[Pod], nodes: Lister[Node], others: Iterable[tuple[str, ActionType, Lister[KubeObject]]]
    ) -> None:
        """Handle the events of pods and nodes, and of other kinds those actions that some plugin has registered."""
        # Nodes first, because a pod that comes before its node costs the cache more.
        nodes.add_event_handler(on_add=self.add_node, on_update=self.update_node, on_delete=self.delete_node)
        pods.add_event_handler(on_add=self.add_pod, on_update=self.update_pod, on_delete=self.delete_pod)
        pods.add_unreadable_handler(self.unreadable_pod)
        for resource, wanted, lister in others:
            add, update, delete = (
                ClusterEvent(resource, action) if wanted & action else None
                for action in (ActionType.ADD, ActionType.UPDATE, ActionType.DELETE)
            )
            lister.add_event_handler(
                on_add=partial(self._other, add, None) if add is not None else None,
                on_update=partial(self._other, update) if update is not None else None,
                on_delete=partial(self._other, delete) if delete is not None else None,
            )

    # Nodes

    def add_node(self, node: Node) -> None:
        """Add a new node to the cache and wake the pods that it may help."""
        began = self.clock.now()
        if self._guarded("node", node, partial(self.cache.add_node, node)):
            self.queue.move_all(NODE_ADD, None, node)
        self._timed(NODE_ADD, began)

    def update_node(self, old: Node, new: Node) -> None:
        """Update the node; wake the pods that the change may help."""
        began = self.clock.now()
        if not self._guarded("node", new, partial(self.cache.update_node, old, new)):
            return
        updated = self.clock.now() - began
        for event in node_changes(old, new):
            started = self.clock.now()
            self.queue.move_all(event, old, new)
            self.recorder.observe(_EVENT_SECONDS, updated + self.clock.now() - started, event.label)
        if is_ready(old) and not is_ready(new):
            # The victims of nominated pods may never be gone.
            self.queue.retry_after_backoff(self._nominated(new.name), in_full=False)

    def delete_node(self, node: Node) -> None:
        """Remove the node."""
        began = self.clock.now()
        self.queue.move_all(NODE_DELETE, node, None)
        self._guarded("node", node, partial(self.cache.remove_node, node))
        self._timed(NODE_DELETE, began)

    # Pods

    def add_pod(self, pod: Pod) -> None:
        """Add a new pod to the cache or the queue."""
        if pod.node_name:
            self._add_assigned(pod)
        elif pod.scheduler_name in self.profiles:
            began = self.clock.now()
            info = self._read(pod)
            if info is not None:
                self.queue.add(info)
                if pod.spec.scheduling_group is not None:
                    wait = partial(self._show_gate, pod.uid)
                    self.statuses.expect(pod, "", wait=wait, reason="Unschedulable")
            self._timed(UNSCHEDULED_POD_ADD, began)
        else:
            self.foreign_pods.add(pod.uid)

    def _show_gate(self, uid: str) -> str:
        """Return why a pod's gang is not complete, and record the event; "" if it is.

        Differs from kube-scheduler, which shows neither.
        """
        queued = self.queue.get(uid)
        if queued is None or queued.gating_plugin != GANG_SCHEDULING:
            return ""
        self.profiles[queued.pod.scheduler_name].event_recorder.event(
            queued.pod,
            type="Warning",
            reason="FailedScheduling",
            action="Scheduling",
            note=truncated(queued.gating_reason),
        )
        return queued.gating_reason

    def update_pod(self, old: Pod, new: Pod) -> None:
        """Update a pod; it may move from the queue to the cache."""
        if old.uid != new.uid:
            # After a relist, a deletion and a new pod of the same name can come as one update.
            self.delete_pod(old)
            self.add_pod(new)
        elif old.node_name:
            self._update_assigned(old, new)
        elif new.node_name:
            is_ours = self.cache.is_assumed(new.uid)
            self._add_assigned(new)
            self.foreign_pods.discard(new.uid)
            self._forget_unreadable(new.uid)
            if old.scheduler_name in self.profiles:
                began = self.clock.now()
                self.stories.bound(new, new.node_name, "" if is_ours else "bound by another scheduler")
                self.queue.delete(old)
                self.statuses.forget(new.uid)
                self._timed(UNSCHEDULED_POD_DELETE, began)
        elif old.scheduler_name in self.profiles and old.resource_version != new.resource_version:
            self._update_unscheduled(old, new)

    def delete_pod(self, pod: Pod) -> None:
        """Remove a pod that was deleted or has ended."""
        self.foreign_pods.discard(pod.uid)
        self._forget_unreadable(pod.uid)
        if pod.node_name:
            began = self.clock.now()
            if self.cache.get_pod(pod.uid) is not None:
                self.cache.remove_pod(pod)
            self.rejections.disappeared(pod)
            self.queue.move_all(ASSIGNED_POD_DELETE, pod, None)
            self._retry_preemptors(pod)
            self._timed(ASSIGNED_POD_DELETE, began)
        elif pod.scheduler_name in self.profiles:
            began = self.clock.now()
            self.stories.deleted(pod)
            self.queue.delete(pod)
            self.statuses.forget(pod.uid)
            if self.cache.is_assumed(pod.uid):
                self._assumed_deleted(pod)
            elif pod.status.nominated_node_name:
                # Pods of the same or a lower priority could not use its room.
                self.queue.move_all(ASSIGNED_POD_DELETE, pod, None, _others_at_most(pod))
            self._timed(UNSCHEDULED_POD_DELETE, began)

    def _retry_preemptors(self, victim: Pod) -> None:
        """Retry the pods that waited for a victim, if it was the last on the node that they are nominated to.

        Differs from kube-scheduler, which leaves it to hints. They judge each victim alone: if an earlier victim had
        the host port that the pod needs, the pod may have been held back when it went, and the last victim does not
        help.
        """
        waiting = self._nominated(victim.node_name)
        if waiting:
            there = self.cache.pods_on(victim.node_name)
            self.queue.retry_after_backoff([pod for pod in waiting if not leaving(there, pod)], in_full=False)

    def _nominated(self, node_name: str) -> list[Pod]:
        return [info.pod for info in self.queue.nominator.pods_on(node_name)]

    def unreadable_pod(self, failure: Malformed, gone: bool) -> None:
        """Write an event about a pod that cannot be decoded; the informer has counted and logged it."""
        if gone:
            self._forget_unreadable(failure.uid)
            return
        is_ours = failure.scheduler_name in self.profiles and not failure.node_name
        if is_ours and failure.uid and self.queue.place_of(failure.uid) is None:
            metadata = ObjectMeta(
                name=failure.name,
                namespace=failure.namespace,
                uid=failure.uid,
                resource_version=failure.resource_version,
            )
            pod = Pod(metadata=metadata, spec=PodSpec(scheduler_name=failure.scheduler_name))
            # No condition: an API server rejects a patch of an object whose fields have wrong types.
            self._report_unreadable(pod, f"the pod cannot be read: {failure.error}", condition=False)

    def _add_assigned(self, pod: Pod) -> None:
        began = self.clock.now()
        if self._guarded("pod", pod, lambda: self.cache.add_pod(self._read_assigned(pod))):
            self.queue.move_all(ASSIGNED_POD_ADD, None, pod)
        self._timed(ASSIGNED_POD_ADD, began)

    def _update_assigned(self, old: Pod, new: Pod) -> None:
        if self.cache.get_pod(new.uid) is None or self.cache.is_assumed(new.uid):
            # The pod is not in the cache yet, because it could not be read.
            self._add_assigned(new)
            return
        began = self.clock.now()
        if not self._guarded("pod", new, lambda: self.cache.update_pod(old, self._read_assigned(new))):
            return
        updated = self.clock.now() - began
        for event in pod_changes(old, new):
            started = self.clock.now()
            self.queue.move_all(event, old, new)
            self.recorder.observe(_EVENT_SECONDS, updated + self.clock.now() - started, event.label)
        self._timed(ASSIGNED_POD_UPDATE, began)

    def _update_unscheduled(self, old: Pod, new: Pod) -> None:
        began = self.clock.now()
        if self.cache.is_assumed(new.uid):
            if new.metadata.deletion_timestamp and not old.metadata.deletion_timestamp:
                self._assumed_deleted(new)
            elif new.uid in self.queue.in_flight and (info := self._read(new)) is not None:
                self.queue.update_placed(old, info)
            return
        info = self._read(new)
        if info is None:
            self._last_read.setdefault(new.uid, old)
        else:
            # The hints need the change since the version in the queue, which may be older than `old`.
            self.queue.update(self._last_read.pop(new.uid, old), info)
        nominated = old.status.nominated_node_name
        if nominated and nominated != new.status.nominated_node_name:
            # The same event as if the pod had been deleted from the node of its nomination, for all other pods: with a
            # hint that accepts any deletion, a pod whose wait at Permit timed out would otherwise retry for ever.
            ignored_by, taken_in = self.queue.last_release(new.uid)
            self.queue.move_all(ASSIGNED_POD_DELETE, old, None, _others_at_most(old), ignored_by, taken_in)
        for event in pod_changes(old, new):
            if event != UNSCHEDULED_POD_UPDATE:
                self._timed(event, began)
        self._timed(UNSCHEDULED_POD_UPDATE, began)

    def _read(self, pod: Pod) -> PodInfo | None:
        """Return the facts about a pod without a node; if it cannot be read, report that to its users and return None.

        A pod that is in the queue already stays there with its last readable version.
        """
        try:
            _check_uid(pod)
            info = PodInfo.of(pod)
        except PySchedulerError as error:
            self._complain("pod", pod.key, error)
            if self.queue.place_of(pod.uid) is None:
                self._report_unreadable(pod, f"the pod cannot be read: {error}")
            return None
        self.unreadable_pods.pop(pod.uid, None)
        return info

    def _report_unreadable(self, pod: Pod, message: str, *, condition: bool = True) -> None:
        if self.unreadable_pods.get(pod.uid) == message:
            return
        self.unreadable_pods[pod.uid] = message
        self.profiles[pod.scheduler_name].event_recorder.event(
            pod, type="Warning", reason="FailedScheduling", action="Scheduling", note=truncated(message)
        )
        if condition:
            self.statuses.write(pod, reason="SchedulerError", message=message)
        self.stories.waits(pod, "SchedulerError", message)

    def _forget_unreadable(self, uid: str) -> None:
        self.unreadable_pods.pop(uid, None)
        self._last_read.pop(uid, None)

    def _read_assigned(self, pod: Pod) -> PodInfo:
        """Return the facts about a pod on its node, as far as they can be read."""
        _check_uid(pod)
        known = self.cache.get_pod(pod.uid)
        if known is not None and known.holds_for(pod):
            return known.with_pod(pod)
        try:
            return PodInfo.of(pod)
        except PySchedulerError as error:
            self._complain("pod", pod.key, error)
            return known.with_pod(pod) if known is not None else readable_part(pod)

    def _assumed_deleted(self, pod: Pod) -> None:
        """Release the node of a pod that is deleted between its scheduling cycle and its binding."""
        assumed = self.cache.get_pod(pod.uid)
        if assumed is None:
            return
        # A pod that waits at Permit is rejected, and its binding cycle releases the node. Later only the cache can.
        if not self.waiting_pods.delete(pod.uid):
            self._guarded("pod", pod, partial(self.cache.forget_pod, assumed.pod))
        self.queue.move_all(ASSIGNED_POD_DELETE, assumed.pod, None)

    # Everything else

    def _other(self, event: ClusterEvent, old: object | None, new: object | None = None) -> None:
        began = self.clock.now()
        self.queue.move_all(event, old, new)
        self._timed(event, began)

    def _guarded(self, kind: str, subject: Node | Pod, act: Callable[[], object]) -> bool:
        """Run `act`; return False and report the object if it cannot be read, or the cache and the API differ."""
        try:
            act()
        except CacheError as error:
            self.recorder.warning("cache_disagrees")
            _log.error("Cache and API disagree %s=%s err=%s", kind, subject.key, error)
            return False
        except PySchedulerError as error:
            self._complain(kind, subject.key, error)
            return False
        return True

    def _complain(self, kind: str, key: str, error: PySchedulerError) -> None:
        self.recorder.warning(f"malformed_{kind}")
        _log.warning("Ignoring malformed %s %s=%s err=%s", kind, kind, key, error)

    def _timed(self, event: ClusterEvent, began: float) -> None:
        self.recorder.observe(_EVENT_SECONDS, self.clock.now() - began, event.label)


def _check_uid(pod: Pod) -> None:
    """Raise PySchedulerError for a pod without a uid: it could not be distinguished from another pod of its name."""
    if not pod.uid:
        raise PySchedulerError("metadata.uid is empty; an API server gives every object one")


def _others_at_most(nominated: Pod) -> Callable[[Pod], bool]:
    return lambda pod: pod.priority <= nominated.priority and pod.uid != nominated.uid

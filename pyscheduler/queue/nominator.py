"""Nominated pods: pods that are expected on a node, usually because a preemption makes room for them there.

Filters count a nominated pod as if it ran on this node, unless its priority is lower than that of the pod to schedule.
Source: kube-scheduler 1.36, `nominator.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.framework.changed_keys import ChangedKeys
from pyscheduler.framework.interfaces import NominatingInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.pod_info import PodInfo

__all__ = ["Nominator"]


class Nominator:
    """Nominated pods by node, and the node of each; the `Nominator` of plugins' handles.

    `find_pod(pod)` returns the newest version of a pod, or None if it was deleted: a deleted or bound pod is not
    nominated. Without `find_pod` every pod is nominated.
    """

    def __init__(self, *, find_pod: Callable[[Pod], Pod | None] | None = None) -> None:
        self._find_pod = find_pod
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._node_of: dict[str, str] = {}
        #: The nodes whose nominations changed, in order.
        self.changed: ChangedKeys[str] = ChangedKeys()

    def add(self, info: PodInfo, nominating: NominatingInfo | None = None) -> None:
        """Nominate the pod to the node in `nominating`, else to the node in its status; an earlier nomination ends."""
        pod = info.pod
        self.delete(pod)
        if nominating is not None and nominating.override:
            node_name = nominating.node_name
        else:
            node_name = pod.status.nominated_node_name
        if not node_name:
            return
        if self._find_pod is not None:
            newest = self._find_pod(pod)
            if newest is None or newest.node_name:
                return
        self._by_node.setdefault(node_name, {})[pod.uid] = info
        self._node_of[pod.uid] = node_name
        self.changed.note(node_name)

    def delete(self, pod: Pod) -> None:
        """Drop the pod's nomination, if any."""
        node_name = self._node_of.pop(pod.uid, "")
        if node_name:
            pods = self._by_node[node_name]
            del pods[pod.uid]
            if not pods:
                del self._by_node[node_name]
            self.changed.note(node_name)

    def update(self, old: Pod, new: PodInfo) -> None:
        """Update the nomination for a new version of the pod.

        If neither version has a nomination, the one here stays: it is not written to the API server yet. Otherwise the
        new version's nomination counts.
        """
        keep = None
        if not old.status.nominated_node_name and not new.pod.status.nominated_node_name:
            node_name = self.node_of(old.uid)
            keep = NominatingInfo(node_name) if node_name else None
        self.delete(old)
        self.add(new, keep)

    def pods_on(self, node_name: str) -> Sequence[PodInfo]:
        """Return the pods nominated to a node, the earliest nomination first."""
        pods = self._by_node.get(node_name)
        return tuple(pods.values()) if pods else ()

    def node_of(self, uid: str) -> str:
        """Return the node a pod is nominated to, or ""."""
        return self._node_of.get(uid, "")

    @property
    def nodes(self) -> Collection[str]:
        """Return the names of the nodes that have nominated pods, as a live view."""
        return self._by_node.keys()

    def check_invariants(self) -> None:
        """Raise AssertionError if the two indices differ."""
        filed = {uid: node_name for node_name, pods in self._by_node.items() for uid in pods}
        assert filed == self._node_of, "nominated pods are indexed differently by node and by pod"
        assert all(self._by_node.values()), "a node is kept though no pod is nominated to it"

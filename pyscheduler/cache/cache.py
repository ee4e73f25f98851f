"""The scheduler's cache: the nodes and the pods on them, including pods whose binding is not confirmed yet.

A scheduling cycle *assumes* a pod on a node, so that the next cycle counts the pod before the API server knows of it.
When the informer reports the pod as bound, the assumption is confirmed. If the binding fails, the pod is *forgotten*.

When a node or its pods change, the node gets the next generation number and moves to the end of a list. To update a
snapshot, the cache walks back from the end of the list to the generation that the snapshot has seen.

Source: kube-scheduler 1.36, `backend/cache/cache.go`.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections import OrderedDict, deque
from itertools import count
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pyscheduler.api import Pod
from pyscheduler.cache.errors import CacheError
from pyscheduler.cache.images import ImageRegistry
from pyscheduler.cache.invariants import check_node_info
from pyscheduler.cache.node_tree import NodeTree
from pyscheduler.framework.node_info import NodeInfo, next_generation
from pyscheduler.framework.pod_info import PodInfo
from pyscheduler.framework.recorder import NullRecorder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyscheduler.api import Node
    from pyscheduler.cache.snapshot import Snapshot
    from pyscheduler.framework.recorder import Recorder

__all__ = ["Cache"]

_log = logging.getLogger(__name__)

_MAX_REMOVALS: Final = 1024


class Cache:
    """The scheduler's view of the cluster. Methods raise `CacheError` where a call contradicts what is known."""

    def __init__(self, *, recorder: Recorder | None = None) -> None:
        self._recorder = recorder if recorder is not None else NullRecorder()
        #: By name, least recently changed first.
        self._nodes: OrderedDict[str, NodeInfo] = OrderedDict()
        self._pods: dict[str, PodInfo] = {}
        #: Assumed pods, by uid.
        self._assumed: set[str] = set()
        #: When each node that is there was added, as a number; rows of a snapshot are given out in this order.
        self._serials: dict[str, int] = {}
        self._next_serial = count()
        self._tree = NodeTree()
        self._images = ImageRegistry()
        self._generation = 0
        #: Nodes that went, with the generation of that moment.
        self._removals: deque[tuple[int, str]] = deque()
        self._forgotten_removals = 0

    # Nodes

    def add_node(self, node: Node) -> NodeInfo:
        """Take in a node, whose pods may be known already; return a copy of its NodeInfo.

        Raise `QuantityError` where an amount does not parse; the cache is unchanged then. A node that is known is
        updated.
        """
        return self._put_node(node)

    def update_node(self, old: Node | None, new: Node) -> NodeInfo:  # noqa: ARG002 - the cache has its own old version
        """Take in a new version of a node; return a copy of its NodeInfo. As `add_node` where it is not known."""
        return self._put_node(new)

    def remove_node(self, node: Node) -> None:
        """Drop a node. Pods still on it stay known until they are removed one by one."""
        info = self._nodes.get(node.name)
        if info is None or info.node is None:
            raise CacheError(f"node {node.name} is not in the cache, so it cannot be removed")
        self._images.remove(info.image_states)
        self._tree.remove(node.name)
        del self._serials[node.name]
        info.forget_node()
        self._touch(node.name, info)
        if len(self._removals) == _MAX_REMOVALS:
            self._forgotten_removals, _ = self._removals.popleft()
        self._removals.append((info.generation, node.name))
        self._drop_if_empty(node.name, info)

    def _put_node(self, node: Node) -> NodeInfo:
        info = self._nodes.get(node.name)
        old = info.node if info is not None else None
        if info is None:
            info = NodeInfo()
        info.set_node(node)  # first, because it may raise
        info.image_states = self._images.replace(old, info.image_states, node)
        self._tree.put(node)
        if old is None:
            self._serials[node.name] = next(self._next_serial)
        self._touch(node.name, info)
        return info.clone()

    # Pods

    def assume_pod(self, pod: PodInfo | Pod) -> None:
        """Count a pod on the node in its spec before the API server says so. Raise where it is known already."""
        info = PodInfo.of(pod) if isinstance(pod, Pod) else pod
        pod = info.pod
        _check_identity(pod)
        if pod.uid in self._pods:
            raise CacheError(f"pod {pod.key} is in the cache, so it cannot be assumed")
        self._add(info)
        self._assumed.add(pod.uid)

    def forget_pod(self, pod: Pod) -> None:
        """Take back an assumption; nothing happens when the pod is gone. Raise where it is bound, or elsewhere."""
        known = self._pods.get(pod.uid)
        if known is None:
            return
        if known.pod.node_name != pod.node_name:
            raise CacheError(
                f"pod {pod.key} is to be forgotten on node {pod.node_name} but is on node {known.pod.node_name}"
            )
        if pod.uid not in self._assumed:
            raise CacheError(f"pod {pod.key} is bound, so it cannot be forgotten")
        self._remove(known)

    def add_pod(self, pod: PodInfo | Pod) -> None:
        """Take in a pod that the informer reports on a node; an assumption is confirmed or corrected by it.

        Raise where the pod is known, and not as an assumption.
        """
        info = PodInfo.of(pod) if isinstance(pod, Pod) else pod
        pod = info.pod
        _check_identity(pod)
        known = self._pods.get(pod.uid)
        if known is not None:
            if pod.uid not in self._assumed:
                raise CacheError(f"pod {pod.key} is in the cache already")
            if known.pod.node_name != pod.node_name:
                _log.warning(
                    "Pod was bound to another node than assumed pod=%s node=%s assumed_node=%s",
                    pod.key,
                    pod.node_name,
                    known.pod.node_name,
                )
            if self._replace(known, info):
                self._assumed.discard(pod.uid)
                return
            self._remove(known)
        self._add(info)

    def update_pod(self, old: Pod, info: PodInfo) -> None:
        """Take in a new version of a bound pod. Raise where it is not known, or only assumed.

        Differs from kube-scheduler: should the node have changed, which the API forbids, the pod moves; kube-scheduler
        exits.
        """
        _check_identity(info.pod)
        known = self._pods.get(old.uid)
        if known is None:
            raise CacheError(f"pod {old.key} is not in the cache, so it cannot be updated")
        if old.uid in self._assumed:
            raise CacheError(f"pod {old.key} is assumed, so it should be added before it is updated")
        if known.pod.node_name != info.pod.node_name:
            self._warn_moved(known.pod, info.pod)
        if not self._replace(known, info):
            self._remove(known)
            self._add(info)

    def remove_pod(self, pod: Pod) -> None:
        """Drop a pod, assumed or not. Raise where it is not known.

        The pod goes from the node it is known on. Differs from kube-scheduler, which exits if that is another one.
        """
        known = self._pods.get(pod.uid)
        if known is None:
            raise CacheError(f"pod {pod.key} is not in the cache, so it cannot be removed")
        # A last state that missed the binding has no node; that is nothing to worry about.
        if pod.node_name and known.pod.node_name != pod.node_name:
            self._warn_moved(known.pod, pod)
        self._remove(known)

    def is_assumed(self, uid: str) -> bool:
        """Return whether the pod of that uid is assumed and not confirmed."""
        return uid in self._assumed

    def get_pod(self, uid: str) -> PodInfo | None:
        """Return the pod of that uid, assumed or bound, also on a node that is not known; None when there is none."""
        return self._pods.get(uid)

    def _add(self, info: PodInfo) -> None:
        name = info.pod.node_name
        node_info = self._nodes.get(name)
        if node_info is None:
            node_info = NodeInfo()
        node_info.add_pod(info)
        self._touch(name, node_info)
        self._pods[info.pod.uid] = info

    def _remove(self, info: PodInfo) -> None:
        uid, name = info.pod.uid, info.pod.node_name
        node_info = self._nodes[name]
        node_info.remove_pod(uid)
        self._touch(name, node_info)
        self._drop_if_empty(name, node_info)
        del self._pods[uid]
        self._assumed.discard(uid)

    def _replace(self, known: PodInfo, info: PodInfo) -> bool:
        """Put another object of a pod in its place, if its facts are the same (`PodInfo.with_pod`) and its node is.

        That its binding was written changes nothing that is looked at, so snapshots need not hear of it.
        """
        pod = info.pod
        name = pod.node_name
        if info.requests is not known.requests or known.pod.node_name != name:
            return False
        node_info = self._nodes[name]
        if node_info.replace_pod(info) or not _is_alike(known.pod, pod):
            node_info.generation = next_generation()
            self._touch(name, node_info)
        self._pods[pod.uid] = info
        return True

    def _warn_moved(self, known: Pod, pod: Pod) -> None:
        self._recorder.warning("pod_changed_node")
        _log.error("Pod changed its node pod=%s node=%s known_node=%s", pod.key, pod.node_name, known.node_name)

    def _touch(self, name: str, info: NodeInfo) -> None:
        """Put a NodeInfo whose generation has just been raised at the end of the line."""
        self._nodes[name] = info
        self._nodes.move_to_end(name)
        self._generation = info.generation

    def _drop_if_empty(self, name: str, info: NodeInfo) -> None:
        if info.node is None and not info.pods:
            del self._nodes[name]

    # Snapshots

    def update_snapshot(self, snapshot: Snapshot) -> None:
        """Bring a snapshot of this cache up to date; the work is proportional to what changed since its last update.

        Raise `RuntimeError` while a statement is open on it.
        """
        since = snapshot.generation
        changed = {}
        for name, info in reversed(self._nodes.items()):
            if info.generation <= since:
                break
            if info.node is not None:
                changed[name] = info
        news = [changed[name] for name in sorted(changed, key=self._serials.__getitem__)]
        removed = self._removed_since(since, snapshot.names) if self._removals else ()
        snapshot.apply(changed=news, removed=removed, generation=self._generation, tree=self._tree)

    def _removed_since(self, since: int, names: Iterable[str]) -> Iterable[str]:
        """Return which of `names`, those of a snapshot of that generation, have no node now."""
        if since >= self._forgotten_removals:
            gone = set()
            for generation, name in reversed(self._removals):
                if generation <= since:
                    break
                gone.add(name)
        else:
            gone = set(names)
        # In the order of their names, so that rows do not depend on hashing.
        return sorted(name for name in gone if (info := self._nodes.get(name)) is None or info.node is None)

    # What others want to know

    def node_generation(self, name: str) -> int | None:
        """Return the generation of a node's latest change, of its pods included; None where there is no such node."""
        info = self._nodes.get(name)
        return info.generation if info is not None and info.node is not None else None

    def nodes_after(self, name: str, limit: int) -> list[NodeInfo]:
        """Return at most so many nodes whose names come after `name`, by name. The caller must not change them."""
        # An API server lists nodes by name, so this is almost sorted: 5,000 names take 0.1 ms, a set of them 4 ms.
        names = sorted(self._serials)
        start = bisect_right(names, name)
        return [self._nodes[each] for each in names[start : start + limit]]

    def pods_on(self, name: str) -> Sequence[PodInfo]:
        """Return the assumed and bound pods of a node."""
        info = self._nodes.get(name)
        return info.pods if info is not None else ()

    @property
    def generation(self) -> int:
        """Return the generation of the latest change; less a snapshot's it is at least as many as changed nodes."""
        return self._generation

    @property
    def node_count(self) -> int:
        """Return the number of nodes, those included that are gone but for their pods."""
        return len(self._nodes)

    @property
    def pod_count(self) -> int:
        """Return the number of pods, assumed ones included."""
        return len(self._pods)

    @property
    def assumed_count(self) -> int:
        """Return the number of assumed pods."""
        return len(self._assumed)

    def assumed_pods(self) -> dict[str, Pod]:
        """Return the assumed pods with their nodes, by uid."""
        return {uid: self._pods[uid].pod for uid in self._assumed}

    def node_names(self) -> set[str]:
        """Return the names of the nodes, those left out that are gone but for their pods."""
        return set(self._serials)

    def pod_keys(self) -> dict[str, str]:
        """Return `namespace/name` of every pod, assumed ones included, by uid."""
        return {uid: info.pod.key for uid, info in self._pods.items()}

    def dump(self) -> Iterator[dict[str, object]]:
        """Yield each node with its sums and pods as plain data, by name; the cache may change in between."""
        for name in sorted(self._nodes):
            info = self._nodes.get(name)
            if info is not None:
                assumed = [pod.pod.key for pod in info.pods if pod.pod.uid in self._assumed]
                yield {"node": name, "deleted": info.node is None, **_amounts(info), "assumed": sorted(assumed)}

    def check_invariants(self) -> None:
        """Raise AssertionError where the cache contradicts itself."""
        generations = [info.generation for info in self._nodes.values()]
        assert generations == sorted(set(generations)), "nodes are not in the order of their generations"
        assert all(generation <= self._generation for generation in generations), "a node is ahead of the cache"
        for name, info in self._nodes.items():
            check_node_info(info)
            assert info.node is not None or info.pods, f"node {name} is gone, with all its pods, and still here"
            assert info.node is None or info.node.name == name, f"node {info.name} is kept as {name}"
        pods = {pod.pod.uid: (pod, name) for name, info in self._nodes.items() for pod in info.pods}
        assert pods == {uid: (pod, pod.pod.node_name) for uid, pod in self._pods.items()}, "pods and nodes differ"
        assert self._assumed <= self._pods.keys(), "an assumed pod is not known"
        nodes = {name: info.node for name, info in self._nodes.items() if info.node is not None}
        self._tree.check_invariants(nodes)
        assert self._serials.keys() == nodes.keys(), "nodes and their numbers differ"
        self._images.check_invariants(info.image_states for info in self._nodes.values())
        removals = [generation for generation, _ in self._removals]
        assert removals == sorted(removals), "removals are out of order"
        assert all(generation > self._forgotten_removals for generation in removals), "removals were forgotten too soon"


def _is_alike(one: Pod, other: Pod) -> bool:
    """Return whether two states of a pod differ only in fields that its binding writes: its version, its conditions."""
    metadata, status = one.metadata, one.status
    version, generation = metadata.resource_version, metadata.generation
    if replace(other.metadata, resource_version=version, generation=generation) != metadata:
        return False
    conditions, nominated = status.conditions, status.nominated_node_name
    return replace(other.status, conditions=conditions, nominated_node_name=nominated) == status


def _check_identity(pod: Pod) -> None:
    if not pod.uid or not pod.node_name:
        raise CacheError(f"pod {pod.key} has no {'node' if pod.uid else 'uid'}, so it cannot be in the cache")


def _amounts(info: NodeInfo) -> dict[str, object]:
    names = sorted({*info.allocatable.scalars, *info.requested.scalars})
    amounts = ["cpu", "memory", "ephemeral-storage", *names]
    return {
        "requested": {name: info.requested.get(name) for name in amounts},
        "allocatable": {name: info.allocatable.get(name) for name in [*amounts, "pods"]},
        "pods": sorted(pod.pod.key for pod in info.pods),
    }

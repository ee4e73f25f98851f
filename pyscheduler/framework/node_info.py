"""`NodeInfo`: a node, its pods, and the sums of their requests.

A change of the node or of its pods increases the number `generation`. By this number, the snapshot knows which nodes
to copy.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.api import quantity_milli, quantity_value
from pyscheduler.framework.resource import CPU, Resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyscheduler.api import Node
    from pyscheduler.framework.pod_info import PodInfo

__all__ = ["HostPorts", "ImageState", "NodeInfo", "next_generation"]

_ANY_IP: Final = "0.0.0.0"  # noqa: S104 - the wildcard address of host ports, nothing is bound to it
#: On a node with more pods than this, it is noted where each stands.
_MANY: Final = 64
_generations = count(1)


def next_generation() -> int:
    """Return a number larger than any before, for the whole process."""
    return next(_generations)


@attrs.frozen
class ImageState:
    """An image on a node: its size in bytes, as the first node reported it, and on how many nodes it is."""

    size: int
    num_nodes: int


class HostPorts:
    """Host ports in use on a node: by protocol and port, the addresses, each with the number of its users.

    Counted, because two pods may use one port on one address: one of them that the kubelet turns away for it leaves the
    port to the other. Differs from kube-scheduler: there it is free as soon as one of them is gone, until the other
    changes.
    """

    __slots__ = ("_users",)

    def __init__(self) -> None:
        self._users: dict[tuple[str, int], dict[str, int]] = {}

    def __len__(self) -> int:
        return sum(len(addresses) for addresses in self._users.values())

    def __bool__(self) -> bool:
        return bool(self._users)

    def __iter__(self) -> Iterator[tuple[str, str, int]]:
        return ((ip, protocol, port) for (protocol, port), ips in self._users.items() for ip in ips)

    def add(self, ip: str, protocol: str, port: int) -> None:
        """Count one more user of the port."""
        addresses = self._users.setdefault((protocol, port), {})
        addresses[ip] = addresses.get(ip, 0) + 1

    def remove(self, ip: str, protocol: str, port: int) -> None:
        """Count one user less; unknown ports are ignored."""
        addresses = self._users.get((protocol, port))
        if addresses is None or ip not in addresses:
            return
        addresses[ip] -= 1
        if addresses[ip] == 0:
            del addresses[ip]
            if not addresses:
                del self._users[protocol, port]

    def free(self, ip: str, protocol: str, port: int) -> None:
        """Forget all users of the port on that address."""
        addresses = self._users.get((protocol, port))
        if addresses is not None and addresses.pop(ip, None) is not None and not addresses:
            del self._users[protocol, port]

    def conflicts(self, ip: str, protocol: str, port: int) -> bool:
        """Return whether a pod asking for the port would clash; the wildcard address clashes with every address."""
        addresses = self._users.get((protocol, port))
        return addresses is not None and (ip == _ANY_IP or ip in addresses or _ANY_IP in addresses)

    def clone(self) -> HostPorts:
        """Return an independent copy."""
        copy = HostPorts()
        if self._users:
            copy._users = {key: addresses.copy() for key, addresses in self._users.items()}
        return copy


@attrs.define(kw_only=True, eq=False)
class NodeInfo:
    """A node, its pods, and their sums.

    `node` is None while pods are known to be on a node that is not (yet) known itself; such a NodeInfo is in the cache
    but never in a snapshot. Amounts as in `Resource`.
    """

    node: Node | None = None
    pods: list[PodInfo] = attrs.Factory(list)
    pods_with_affinity: list[PodInfo] = attrs.Factory(list)
    pods_with_required_anti_affinity: list[PodInfo] = attrs.Factory(list)
    used_ports: HostPorts = attrs.Factory(HostPorts)
    #: Sum of the pods' requests.
    requested: Resource = attrs.Factory(Resource)
    #: The same with kube-scheduler's minimum per container; used in scoring.
    non_zero_requested: Resource = attrs.Factory(Resource)
    allocatable: Resource = attrs.Factory(Resource)
    #: By normalised image name; set by the cache, which knows all nodes.
    image_states: Mapping[str, ImageState] = attrs.Factory(dict)
    #: How many pods use each claim, by `namespace/name`.
    pvc_ref_counts: dict[str, int] = attrs.Factory(dict)
    declared_features: frozenset[str] = frozenset()
    generation: int = attrs.Factory(next_generation)
    #: By uid, where in `pods` those stand that came when there were many; a copy begins without.
    _places: dict[str, int] = attrs.field(init=False, factory=dict, repr=False)

    @classmethod
    def of(cls, node: Node, pods: Iterable[PodInfo] = ()) -> NodeInfo:
        """Make one from a node and its pods."""
        info = cls()
        info.set_node(node)
        for pod in pods:
            info.add_pod(pod)
        return info

    @property
    def name(self) -> str:
        """Return the node's name; "" while the node is unknown."""
        return self.node.name if self.node is not None else ""

    def set_node(self, node: Node) -> None:
        """Take a new version of the node object; raise `QuantityError` where an amount does not parse."""
        self.allocatable = Resource.from_amounts(
            {
                name: quantity_milli(text) if name == CPU else quantity_value(text)
                for name, text in node.status.allocatable.items()
            }
        )
        self.node = node
        self.declared_features = frozenset(node.status.declared_features)
        self.generation = next_generation()

    def forget_node(self) -> None:
        """Keep the pods of a node that is gone until they are gone too."""
        self.node = None
        self.allocatable = Resource()
        self.image_states = {}
        self.declared_features = frozenset()
        self.generation = next_generation()

    def add_pod(self, info: PodInfo) -> None:
        """Count a pod in."""
        self.pods.append(info)
        if len(self.pods) > _MANY:
            self._places[info.pod.uid] = len(self.pods) - 1
        if info.required_affinity_terms or info.preferred_affinity_terms or _has_anti_affinity(info):
            self.pods_with_affinity.append(info)
        if info.required_anti_affinity_terms:
            self.pods_with_required_anti_affinity.append(info)
        self._count(info, 1)

    def remove_pod(self, uid: str) -> PodInfo | None:
        """Count the pod with that uid out and return it; None when it is not here."""
        info = _swap_out(self.pods, uid, self._places)
        if info is None:
            return None
        if self.pods_with_affinity:
            _swap_out(self.pods_with_affinity, uid, {})
            _swap_out(self.pods_with_required_anti_affinity, uid, {})
        self._count(info, -1)
        return info

    def replace_pod(self, info: PodInfo) -> bool:
        """Put another object of a pod that is here, with the same facts, in its place; tell whether pods moved.

        The order is as if the pod had been removed and added: it comes last, and who was last has its place.
        """
        moved = _put_last(self.pods, info, self._places)
        if self.pods_with_affinity:
            moved |= _put_last(self.pods_with_affinity, info, {})
            moved |= _put_last(self.pods_with_required_anti_affinity, info, {})
        return moved

    def _count(self, info: PodInfo, sign: int) -> None:
        self.requested.add(info.requests, sign)
        milli_cpu, memory = info.non_zero
        self.non_zero_requested.milli_cpu += sign * milli_cpu
        self.non_zero_requested.memory += sign * memory
        for port in info.host_ports:
            if sign > 0:
                self.used_ports.add(*port)
            else:
                self.used_ports.remove(*port)
        for key in info.pvc_keys:
            left = self.pvc_ref_counts.get(key, 0) + sign
            if left > 0:
                self.pvc_ref_counts[key] = left
            else:
                self.pvc_ref_counts.pop(key, None)
        self.generation = next_generation()

    def clone(self) -> NodeInfo:
        """Return an independent copy of the sums and lists; pods and the node object are shared. Same generation."""
        # One by one, because every pod that is placed costs a copy of its node.
        copy = NodeInfo.__new__(NodeInfo)
        copy.node = self.node
        copy.pods = self.pods.copy()
        copy.pods_with_affinity = self.pods_with_affinity.copy()
        copy.pods_with_required_anti_affinity = self.pods_with_required_anti_affinity.copy()
        copy.used_ports = self.used_ports.clone()
        copy.requested = self.requested.clone()
        copy.non_zero_requested = self.non_zero_requested.clone()
        copy.allocatable = self.allocatable  # replaced, never changed in place
        copy.image_states = self.image_states
        copy.pvc_ref_counts = self.pvc_ref_counts.copy()
        copy.declared_features = self.declared_features
        copy.generation = self.generation
        copy._places = {}  # noqa: SLF001 - it is one of its own kind
        return copy

    def become(self, other: NodeInfo) -> None:
        """Take over what `other` says, as a copy would; of what holds nothing on either side no copy is made."""
        self.node = other.node
        self.pods = other.pods.copy()
        if self.pods_with_affinity or other.pods_with_affinity:
            self.pods_with_affinity = other.pods_with_affinity.copy()
            self.pods_with_required_anti_affinity = other.pods_with_required_anti_affinity.copy()
        if self.used_ports or other.used_ports:
            self.used_ports = other.used_ports.clone()
        self.requested.become(other.requested)
        self.non_zero_requested.become(other.non_zero_requested)
        self.allocatable = other.allocatable
        self.image_states = other.image_states
        if self.pvc_ref_counts or other.pvc_ref_counts:
            self.pvc_ref_counts = other.pvc_ref_counts.copy()
        self.declared_features = other.declared_features
        self.generation = other.generation
        if self._places:
            self._places = {}


def _has_anti_affinity(info: PodInfo) -> bool:
    return bool(info.required_anti_affinity_terms or info.preferred_anti_affinity_terms)


def _place(infos: list[PodInfo], uid: str, places: dict[str, int]) -> int:
    """Return where the pod with that uid stands, -1 when it is not here; `places` says it for some."""
    place = places.get(uid)
    if place is not None:
        return place
    for index in range(len(infos) - 1, -1, -1):  # it came not long ago
        if infos[index].pod.metadata.uid == uid:
            return index
    return -1


def _put_last(infos: list[PodInfo], info: PodInfo, places: dict[str, int]) -> bool:
    """Replace the pod of the same uid, if it is there, and swap it with the last one; tell whether that was another."""
    uid, last = info.pod.metadata.uid, len(infos) - 1
    index = _place(infos, uid, places)
    if index < 0:
        return False
    infos[index] = infos[last]
    infos[last] = info
    if places:
        places[infos[index].pod.metadata.uid] = index
        places[uid] = last
    return index != last


def _swap_out(infos: list[PodInfo], uid: str, places: dict[str, int]) -> PodInfo | None:
    # The last one takes the free place, as in kube-scheduler, where equal victims keep list order.
    index = _place(infos, uid, places)
    if index < 0:
        return None
    info, last = infos[index], infos.pop()
    places.pop(uid, None)
    if index < len(infos):
        infos[index] = last
        if places:
            places[last.pod.metadata.uid] = index
    return info

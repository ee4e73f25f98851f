"""Record the pods that share each GPU of a node, and how much of the GPU each pod has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.changed_keys import ChangedKeys
from pyscheduler_batch.gpu_sharing.device_shares import DeviceShares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyscheduler.api import Pod

__all__ = ["GROUP_LABEL", "GpuBooks", "Share", "group_labels", "groups_of"]

#: The label with the name of the shared GPU; with several, one label for each begins like this.
GROUP_LABEL: Final = "runai-gpu-group"
_ONE_OF_SEVERAL: Final = f"{GROUP_LABEL}/"


def groups_of(pod: Pod) -> tuple[str, ...]:
    """Return the names of the GPUs that a pod shares, from its labels, in order."""
    return tuple(
        sorted({value for key, value in pod.labels.items() if key == GROUP_LABEL or key.startswith(_ONE_OF_SEVERAL)})
    )


def group_labels(pod: Pod, groups: Sequence[str]) -> dict[str, str | None]:
    """Return the change of a pod's labels to these names, or to none; None removes a label."""
    wanted = {GROUP_LABEL: groups[0]} if len(groups) == 1 else {f"{_ONE_OF_SEVERAL}{name}": name for name in groups}
    old = [key for key in pod.labels if key == GROUP_LABEL or key.startswith(_ONE_OF_SEVERAL)]
    return {**dict.fromkeys(old), **wanted}


@attrs.frozen
class Share:
    """The share of a pod: `amount` MiB of each of these GPUs."""

    node: str
    groups: tuple[str, ...]
    amount: int


@attrs.define
class GpuBooks:
    """The shares by node; one entry per pod."""

    shares: dict[str, Share] = attrs.Factory(dict)
    #: The devices of nodes with shares.
    nodes: dict[str, DeviceShares] = attrs.Factory(dict)
    #: By node and name of a shared GPU, the uid of the pod that reserves it.
    _reserved: dict[str, dict[str, str]] = attrs.Factory(dict)
    #: By uid, the shares of pods that are evicted in a trial.
    evicted: dict[str, Share] = attrs.Factory(dict)
    #: By name of a reserved GPU, its node.
    _node_of: dict[str, str] = attrs.Factory(dict)
    #: By node, how many shared GPUs no pod reserves yet; nodes with none are left out, and most are.
    _unreserved: dict[str, int] = attrs.Factory(dict)
    #: The names of nodes whose shares or reservations change, for readers that keep values by node.
    changed: ChangedKeys[str] = attrs.Factory(ChangedKeys)
    #: Is called with the names of these nodes at once, for caches of plugins' answers.
    forget: Callable[[Iterable[str]], object] = lambda _nodes: None

    def hold(self, uid: str, share: Share, capacity: int) -> None:
        """Book a pod's share; what it had before is given back."""
        self.drop(uid)
        self.shares[uid] = share
        node = self.nodes.setdefault(share.node, DeviceShares(capacity))
        node.capacity = capacity
        node.take(share.groups, share.amount)
        self._count(share.node)

    def drop(self, uid: str) -> tuple[Share, Sequence[str]] | None:
        """Give back a pod's share; return it with the GPUs that nobody shares any more."""
        share = self.shares.pop(uid, None)
        if share is None:
            return None
        node = self.nodes[share.node]
        freed = node.give_back(share.groups, share.amount)
        if not node.used:
            del self.nodes[share.node]
        self._count(share.node)
        return share, freed

    def reserve(self, node: str, group: str, uid: str) -> None:
        """Note the pod that reserves a GPU."""
        self._reserved.setdefault(node, {})[group] = uid
        self._node_of[group] = node
        self._count(node)

    def free(self, node: str, group: str) -> None:
        """Note that no pod reserves a GPU any more."""
        del self._reserved[node][group]
        if self._node_of.get(group) == node:
            del self._node_of[group]
        self._count(node)

    def node_of(self, groups: Sequence[str]) -> str:
        """Return the node on which GPUs are reserved under all these names; "" if there is none."""
        node = self._node_of.get(groups[0], "") if groups else ""
        return node if node and all(group in self._reserved[node] for group in groups) else ""

    def _count(self, node: str) -> None:
        self.changed.note(node)
        self.forget((node,))
        shared = self.nodes.get(node)
        missing = 0 if shared is None else len(shared.used.keys() - self._reserved.get(node, {}).keys())
        if missing:
            self._unreserved[node] = missing
        else:
            self._unreserved.pop(node, None)

    def on(self, node: str, capacity: int) -> DeviceShares:
        """Return the shared GPUs of a node, not to be changed."""
        return self.nodes.get(node) or DeviceShares(capacity)

    def now(self, node: str) -> Mapping[str, int]:
        """Return what pods have of each shared GPU of a node as long as those that are evicted in a trial are there."""
        used = dict(self.on(node, 0).used)
        for share in self.evicted.values():
            for group in share.groups if share.node == node else ():
                used[group] = used.get(group, 0) + share.amount
        return used

    def without_reservation(self, node: str) -> int:
        """Return how many shared GPUs of a node no pod reserves yet: the node's own sum lacks them."""
        return self._unreserved.get(node, 0)

    def copy(self) -> tuple[Mapping[str, Share], Mapping[str, Share], Mapping[str, Mapping[str, str]]]:
        """Return the shares, those that are evicted in a trial, and the reservations by node, as they are now."""
        reserved = {node: dict(by_group) for node, by_group in self._reserved.items() if by_group}
        return dict(self.shares), dict(self.evicted), reserved

    def reservations(self, node: str) -> Mapping[str, str]:
        """Return by shared GPU the uid of the pod that reserves it."""
        return self._reserved.get(node, {})

"""`NamespaceUsage`: the requests of the pods of each namespace, summed over all nodes, for quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pyscheduler.framework.resource import Resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from pyscheduler.framework.handle import Handle
    from pyscheduler.framework.pod_info import PodInfo

__all__ = ["NamespaceUsage"]


class NamespaceUsage:
    """Sums of requests by namespace on the snapshot of `handle`, as it is at each call.

    A filter that uses it sets `counts_across_nodes`, because pods on one node count for all nodes. Make it once, when
    the plugin is made. `allowed_pods` of a sum is the number of pods.
    """

    __slots__ = ("_by_row", "_generations", "_handle", "_total")

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._generations: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._by_row: list[Mapping[str, Resource]] = []
        self._total: dict[str, Resource] = {}

    def of(self, namespace: str) -> Resource:
        """Return the sum of the requests in a namespace; do not change it."""
        return self.by_namespace().get(namespace) or Resource()

    def by_namespace(self) -> Mapping[str, Resource]:
        """Return the sums of all namespaces with pods on nodes; valid until the next call."""
        nodes = self._handle.snapshot.nodes
        now = nodes.generations()
        if len(now) != len(self._by_row):
            self._generations = np.full(len(now), -1, dtype=np.int64)
            self._by_row = [{} for _ in range(len(now))]
            self._total = {}
        for row in np.flatnonzero(self._generations != now).tolist():
            self._count(self._by_row[row], -1)
            self._by_row[row] = _sums(nodes[row].pods)
            self._count(self._by_row[row], 1)
        self._generations = now.copy()
        return self._total

    def _count(self, sums: Mapping[str, Resource], sign: int) -> None:
        for namespace, amounts in sums.items():
            total = self._total.setdefault(namespace, Resource())
            total.add(amounts, sign)
            total.allowed_pods += sign * amounts.allowed_pods
            if not total.allowed_pods:
                del self._total[namespace]


def _sums(pods: Iterable[PodInfo]) -> Mapping[str, Resource]:
    sums: dict[str, Resource] = {}
    for info in pods:
        amounts = sums.setdefault(info.pod.namespace, Resource())
        amounts.add(info.requests)
        amounts.allowed_pods += 1
    return sums

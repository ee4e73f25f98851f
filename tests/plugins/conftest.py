"""What tests of plugins start from: a real snapshot of a few nodes and pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from pyscheduler.api import Node, Pod
from pyscheduler.cache.cache import Cache
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import PodInfo

SnapshotOf = Callable[..., Snapshot]


@pytest.fixture(scope="session")
def snapshot_of() -> SnapshotOf:
    """Give a function that makes a snapshot of nodes, and of pods placed on them by their `spec.nodeName`."""

    def make(nodes: Iterable[Node], pods: Iterable[Pod] = ()) -> Snapshot:
        cache = Cache()
        for node in nodes:
            cache.add_node(node)
        for pod in pods:
            cache.add_pod(PodInfo.of(pod))
        snapshot = Snapshot()
        cache.update_snapshot(snapshot)
        return snapshot

    return make

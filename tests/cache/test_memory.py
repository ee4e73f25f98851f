"""Memory: pods and nodes that come and go leave it flat, whatever unique values they bring."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pyscheduler.api import (
    CompiledSelector,
    Container,
    ContainerPort,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    Requirement,
    ResourceRequirements,
)
from pyscheduler.framework import PodInfo

if TYPE_CHECKING:
    from tests.cache.conftest import World

NODES = 20
PODS = 4000


@pytest.fixture
def traced() -> Iterator[None]:
    """Trace allocations during the test."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


def unique_pod(number: int) -> PodInfo:
    """Make a pod that shares no label, port or resource name with any other; small, since there are many."""
    container = Container(
        resources=ResourceRequirements(requests={"cpu": "1m"}),
        ports=(ContainerPort(host_port=1 + number % 60_000, host_ip=f"10.{number % 256}.0.1"),),
    )
    metadata = ObjectMeta(
        name=f"pod-{number}",
        namespace="default",
        uid=f"uid-{number}",
        labels={"unique": f"value-{number}", f"key-{number}": "value"},
    )
    return PodInfo.of(Pod(metadata=metadata, spec=PodSpec(node_name=f"n{number % NODES}", containers=(container,))))


def churn_pods(world: World, numbers: range) -> None:
    """Assume, confirm and delete pods one by one, each seen by the snapshot and by a statement."""
    for number in numbers:
        info = unique_pod(number)
        world.cache.assume_pod(info)
        if number % 2:
            world.cache.add_pod(info)
            world.update()
            with world.snapshot.undo_at_end():
                world.snapshot.evict(info, info.pod.node_name)
            unique = CompiledSelector((Requirement("unique", "In", (f"value-{number}",)),))
            world.snapshot.nodes.matching_pods(unique, frozenset({"default"}))
            world.cache.remove_pod(info.pod)
        else:
            world.update()
            world.cache.forget_pod(info.pod)
        world.update()


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
def test_churned_pods_leave_memory_flat(world: World) -> None:
    """Thousands of pods with labels of their own: the second half of them costs no memory on top of the first."""
    for number in range(NODES):
        world.node(f"n{number}")
    churn_pods(world, range(PODS // 2))
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    churn_pods(world, range(PODS // 2, PODS))
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    assert after - before < 50_000, f"{after - before} bytes are left of {PODS // 2} pods"
    assert (world.cache.pod_count, world.cache.assumed_count) == (0, 0)
    assert not world.snapshot._columns.ports._rows


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
def test_churned_nodes_leave_memory_flat(world: World) -> None:
    """Nodes too: hostnames, labels and images of those that are gone are forgotten, columns included."""

    def churn(numbers: range) -> None:
        for number in numbers:
            metadata = ObjectMeta(name=f"node-{number}", labels={"host": f"{number}", f"key-{number}": "value"})
            node = Node(metadata=metadata, status=NodeStatus(allocatable={"cpu": "1"}))
            world.cache.add_node(node)
            for key in ("host", f"key-{number}", f"absent-{number}"):
                world.update().nodes.labels(key)
            world.cache.remove_node(node)

    # More than the log of removals is long.
    churn(range(1200))
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    churn(range(1200, 2400))
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    assert after - before < 50_000, f"{after - before} bytes are left of 1200 nodes"

"""A look inside: what the dump says, and what a comparison with the API finds; nothing holds the loop for long."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler.scheduler.debugger import _CHUNK, Debugger
from pyscheduler.testing import FakeCluster, make_node, make_pod, node_manifest, pod_manifest
from pyscheduler.testing.fake_framework import FakeFramework
from tests.cpu import slowness
from tests.threats.attack import plant

LOGGER = "pyscheduler.scheduler.debugger"

DUMP = """\
Dump of cached NodeInfo nodes=2 pods=1 assumed=0
Dump of cached NodeInfo node=n1 deleted=false requested=cpu:500 memory:0 ephemeral-storage:0 \
allocatable=cpu:4000 memory:1073741824 ephemeral-storage:0 pods:110 pods=[default/bound] assumed=[]
Dump of cached NodeInfo node=n2 deleted=false requested=cpu:0 memory:0 ephemeral-storage:0 \
allocatable=cpu:1000 memory:17179869184 ephemeral-storage:0 pods:110 pods=[] assumed=[]
Dump of scheduling queue summary=activeQ:0; backoffQ:0; unschedulablePods:2
Dump of scheduling queue pod=default/gated queue=unschedulable attempts=0 unschedulablePlugins=[SchedulingGates] \
pendingPlugins=[] gatingPlugin=SchedulingGates waitingSeconds=0.0 backoffSeconds=0.0 nominatedNode=
Dump of scheduling queue pod=default/large queue=unschedulable attempts=1 unschedulablePlugins=[NodeResourcesFit] \
pendingPlugins=[] gatingPlugin= waitingSeconds=0.0 backoffSeconds=0.0 nominatedNode=
Cache comparer started
Cache comparer finished mismatch=false
"""


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Yield what the debugger logs, debug lines left out."""
    with caplog.at_level(logging.INFO, LOGGER):
        yield caplog


async def look(cluster: FakeCluster, framework: FakeFramework, log: pytest.LogCaptureFixture) -> list[str]:
    """Look once; return the lines."""
    await framework.settle()
    log.clear()
    debugger = Debugger(framework.scheduler)
    debugger.look()
    await cluster.clock.advance(10)
    await debugger.stop()
    return [record.getMessage() for record in log.records if record.name == LOGGER]


def filled(cluster: FakeCluster) -> FakeFramework:
    """Fill the cluster: bound, assumed by nobody, pending, gated, foreign, ended, going."""
    cluster.add_node("n1", allocatable={"cpu": "4", "memory": "1Gi"})
    cluster.add_node("n2", allocatable={"cpu": "1"})
    cluster.add_pod("bound", node_name="n1", requests={"cpu": "500m"})
    cluster.add_pod("large", requests={"cpu": "64"})
    cluster.add_pod("gated", scheduling_gates=["wait"])
    cluster.add_pod("foreign", scheduler_name="another")
    cluster.add_pod("ended", node_name="n1", status={"phase": "Succeeded"})
    return cluster.framework()


async def test_a_dump_has_a_line_for_each_node_and_each_pod_that_waits(
    cluster: FakeCluster, log: pytest.LogCaptureFixture
) -> None:
    """Sums as integers (CPU in thousandths), pods, and why a pod waits; then the comparison, which finds nothing."""
    assert await look(cluster, filled(cluster), log) == DUMP.splitlines()


async def test_differences_between_cache_and_api_server_are_logged(
    cluster: FakeCluster, log: pytest.LogCaptureFixture
) -> None:
    """What the API server has and the cache has not, and the other way round, nodes and pods, with kube's words."""
    framework = filled(cluster)
    await framework.settle()
    scheduler = framework.scheduler
    bound, large = cluster.pod("bound"), cluster.pod("large")
    extra, ghost = make_node("extra"), make_pod("ghost", node_name="extra")
    scheduler.cache.remove_pod(bound)
    scheduler.cache.remove_node(make_node("n2"))
    scheduler.cache.add_node(extra)
    scheduler.cache.add_pod(ghost)
    scheduler.queue.delete(large)
    found: list[str] = []
    try:
        lines = await look(cluster, framework, log)
        found = [line for line in lines if "mismatch" in line]
    finally:  # what is wrong here must not be what the fixture finds
        scheduler.cache.remove_pod(ghost)
        scheduler.cache.remove_node(extra)
        scheduler.cache.add_node(cluster.nodes()[1])
        scheduler.cache.add_pod(bound)
        scheduler.handlers.add_pod(large)
    missed = f"[default/bound({bound.uid}) default/large({large.uid})]"
    assert found == [
        "Cache mismatch missedNodes=[n2] redundantNodes=[extra]",
        f"Cache mismatch missedPods={missed} redundantPods=[default/ghost({ghost.uid})]",
        "Cache comparer finished mismatch=true",
    ]


async def test_a_change_on_its_way_is_no_mismatch(cluster: FakeCluster, log: pytest.LogCaptureFixture) -> None:
    """A change that the first list has and the cache has not yet is looked for again, a little later."""
    framework = filled(cluster)
    await framework.settle()
    scheduler = framework.scheduler
    scheduler.cache.remove_node(make_node("n2"))
    debugger = Debugger(scheduler)
    compared = asyncio.create_task(debugger.compare())
    await cluster.clock.advance(1)
    assert not compared.done()
    scheduler.cache.add_node(cluster.nodes()[1])
    await cluster.clock.advance(10)
    await compared
    assert "mismatch=false" in log.messages[-1]


async def test_without_an_answer_there_is_a_dump_and_a_line(
    cluster: FakeCluster, log: pytest.LogCaptureFixture
) -> None:
    """An API server that refuses the lists costs the comparison, not the look."""
    framework = filled(cluster)
    await framework.settle()
    cluster.server.faults.add(Fault(method="GET", path="/api/v1/pods$", status=403))
    lines = await look(cluster, framework, log)
    cluster.server.faults.clear()
    assert lines[0].startswith("Dump of cached NodeInfo")
    assert lines[-1].startswith("Cache comparer failed err=")


async def test_one_dump_at_a_time(cluster: FakeCluster, log: pytest.LogCaptureFixture) -> None:
    """A second request while a look is under way is answered by a line; later ones look again."""
    framework = filled(cluster)
    await framework.settle()
    debugger = Debugger(framework.scheduler)
    debugger.look()
    debugger.look()
    await cluster.clock.advance(10)
    debugger.look()
    await cluster.clock.advance(10)
    await debugger.stop()
    assert log.messages.count("A dump of cache and queue is under way already") == 1
    assert log.messages.count("Cache comparer finished mismatch=false") == 2


async def test_of_very_many_differences_the_number_is_logged(
    cluster: FakeCluster, log: pytest.LogCaptureFixture
) -> None:
    """A line stays a line: the first hundred names, and how many there are."""
    framework = filled(cluster)
    await framework.settle()
    for number in range(250):
        framework.scheduler.cache.add_node(make_node(f"x-{number:03d}"))
    found = [line for line in await look(cluster, framework, log) if "redundantNodes" in line]
    for number in range(250):
        framework.scheduler.cache.remove_node(make_node(f"x-{number:03d}"))
    assert len(found) == 1
    assert found[0].endswith(" x-099 ... 250 in all]")


@pytest.mark.slow
async def test_a_dump_of_a_large_cluster_does_not_block_the_loop(
    cluster: FakeCluster, log: pytest.LogCaptureFixture
) -> None:
    """2,000 nodes, 6,000 bound and 2,000 waiting pods: no step of dump and comparison takes over 50 ms."""
    # Planted: to have each object admitted takes most of the time of this test.
    plant(cluster, (node_manifest(f"n{number}", allocatable={"cpu": "4"}) for number in range(2000)))
    requests = {"cpu": "1"}
    bound = (pod_manifest(f"p{i}", node_name=f"n{i % 2000}", requests=requests) for i in range(6000))
    plant(cluster, bound)
    plant(cluster, (pod_manifest(f"w{number}", scheduling_gates=["wait"]) for number in range(2000)))
    framework = cluster.framework()
    await framework.settle()
    debugger = Debugger(framework.scheduler)
    holds: list[float] = []
    slow = slowness()
    looking = asyncio.create_task(debugger._look())
    while not looking.done():
        began = time.thread_time()
        await asyncio.sleep(0)
        holds.append(time.thread_time() - began)
    assert log.messages[-1] == "Cache comparer finished mismatch=false"
    assert len(log.messages) > 4000
    assert len(holds) > 4000 / _CHUNK
    # One may be the garbage collector's.
    assert sorted(holds)[-2] < 0.05 * max(slow, slowness()), sorted(holds)[-5:]

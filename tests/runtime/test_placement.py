"""The placement pipeline: which nodes are filtered, in which order, and which node is chosen."""

from __future__ import annotations

import gc
import random
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pyscheduler
from pyscheduler import CycleState, FilterPlugin, NodeInfo, Pod, PreFilterPlugin, PreFilterResult, Status
from pyscheduler.framework.diagnosis import FitError
from pyscheduler.framework.pod_info import PodInfo, QueuedPodInfo
from pyscheduler.runtime.cooperative_yield import run_now
from pyscheduler.runtime.placement import fits_on
from pyscheduler.scheduler.evaluation import evaluate
from pyscheduler.testing import FakeCluster, VirtualClock, make_pod, node_manifest
from tests.scheduler.plugins import Counting

if TYPE_CHECKING:
    from types import FrameType

    from pyscheduler import Nodes, NodeStatuses
    from pyscheduler.testing import FakeFramework


class Narrowing(PreFilterPlugin):
    """Narrows to the nodes n1 and n2 for pods labelled `narrow`."""

    def pre_filter(self, state: CycleState, pod: Pod, nodes: object) -> Any:
        if "broken" in pod.labels:
            raise RuntimeError("broken")
        return PreFilterResult(frozenset({"n1", "n2"})) if "narrow" in pod.labels else Status.skip()


class NotHere(FilterPlugin):
    """Refuses the node that a pod's label names."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return Status.unschedulable("not here") if pod.labels.get("not") == node.name else None


def config(percentage: int) -> str:
    """Return a configuration with Counting in it."""
    return f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: {percentage}
profiles:
- schedulerName: pyscheduler
  plugins: {{multiPoint: {{enabled: [{{name: Counting}}]}}}}
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("percentage", "nodes", "looked_at"),
    [
        pytest.param(0, 250, 250, id="0 means all"),
        pytest.param(100, 250, 250, id="100 means all"),
        pytest.param(10, 90, 90, id="few nodes are all looked at"),
        pytest.param(10, 250, 100, id="never fewer than a hundred"),
        pytest.param(60, 250, 150, id="a share"),
    ],
)
async def test_how_many_nodes_are_looked_at(cluster: FakeCluster, percentage: int, nodes: int, looked_at: int) -> None:
    """`percentageOfNodesToScore` bounds the search, and every node has its turn."""
    cluster.server.add(*(node_manifest(f"n{number:03d}") for number in range(nodes)))
    framework = cluster.framework(enable=[Counting], config=config(percentage))
    counting = framework.plugin("Counting")
    assert isinstance(counting, Counting)
    rounds = 5
    for number in range(rounds):
        await framework.schedule(f"p{number}")
    assert len(counting.calls) == looked_at * rounds
    calls = Counter(counting.calls)
    assert len(calls) == nodes
    assert max(calls.values()) - min(calls.values()) <= 1


async def test_a_nominated_node_is_looked_at_first_and_alone(cluster: FakeCluster) -> None:
    """If it fits the others are not asked; if it does not, they are, and the message counts each node once."""
    for number in range(4):
        cluster.add_node(f"n{number}")
    framework = cluster.framework(enable=[Counting, NotHere])
    counting = framework.plugin("Counting")
    assert isinstance(counting, Counting)
    status = {"nominatedNodeName": "n2"}
    assert (await framework.schedule("p", status=status)).node == "n2"
    assert counting.calls == ["n2"]
    result = await framework.schedule("q", status=status, labels={"not": "n2"})
    assert result.node in {"n0", "n1", "n3"}
    nowhere = await framework.schedule("r", status={"nominatedNodeName": "gone"}, requests={"cpu": "99"})
    assert nowhere.message.startswith("0/4 nodes are available: 4 Insufficient cpu. ")


async def test_pre_filter_narrows_the_search(cluster: FakeCluster) -> None:
    """Nodes that are left out are not asked, and blamed on who left them out; unknown names do no harm."""
    for number in range(4):
        cluster.add_node(f"n{number}", unschedulable=number == 2)
    framework = cluster.framework(enable=[Narrowing, Counting])
    assert (await framework.schedule("p", labels={"narrow": "yes"})).node == "n1"
    counting = framework.plugin("Counting")
    assert isinstance(counting, Counting)
    assert counting.calls == ["n1"]
    result = await framework.schedule("q", labels={"narrow": "yes"}, requests={"cpu": "99"})
    assert result.message == (
        "0/4 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable, "
        "2 node(s) didn't satisfy plugin(s) [Narrowing]. no new claims to deallocate, "
        "preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
    )
    queued = framework.scheduler.queue.get(result.pod.uid)
    assert queued is not None
    assert queued.unschedulable_plugins == {"Narrowing", "NodeResourcesFit", "NodeUnschedulable"}


class NeedsNodes(FilterPlugin):
    """A columnar filter that cannot answer for no nodes."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        assert nodes.pod_counts().max() >= 0
        return None


async def test_filters_do_not_run_without_nodes(cluster: FakeCluster) -> None:
    """If PreFilter leaves only nodes that do not exist, the pod is unschedulable, not in error."""
    cluster.add_node("other")
    framework = cluster.framework(enable=[Narrowing, NeedsNodes])
    result = await framework.schedule("p", labels={"narrow": "yes"})
    assert result.message.startswith("0/1 nodes are available: 1 node(s) didn't satisfy plugin(s) [Narrowing]. ")


async def test_a_promised_node_that_pre_filter_leaves_out_says_so_itself(cluster: FakeCluster) -> None:
    """It was looked at, so it is not among those that PreFilter alone speaks for; they name who refused it."""
    for number in range(4):
        cluster.add_node(f"n{number}", unschedulable=number == 3)
    framework = cluster.framework(enable=[Narrowing])
    await framework.start()
    scheduler = framework.scheduler
    scheduler.cache.update_snapshot(scheduler.snapshot)
    pod = make_pod("p", labels={"narrow": "yes"}, requests={"cpu": "99"}, status={"nominatedNodeName": "n3"})
    with pytest.raises(FitError) as caught:
        await scheduler.scheduling.pipeline.find_node(framework.profile, CycleState(), pod)
    assert str(caught.value) == (
        "0/4 nodes are available: 1 node(s) didn't satisfy plugin(s) [Narrowing NodeUnschedulable], "
        "1 node(s) were unschedulable, 2 Insufficient cpu."
    )
    diagnosis = caught.value.diagnosis
    assert diagnosis.unschedulable_plugins == {"Narrowing", "NodeResourcesFit", "NodeUnschedulable"}


async def test_equals_are_drawn_evenly(cluster: FakeCluster) -> None:
    """Among nodes of the highest score each is as likely as the others."""
    for number in range(4):
        cluster.add_node(f"n{number}")
    cluster.add_node("busy", labels={"worse": "yes"})
    cluster.add_pod("there", requests={"cpu": "3"}, node_name="busy")
    framework = cluster.framework()
    await framework.start()
    pipeline = framework.scheduler.scheduling.pipeline
    pipeline.tie_break.rng = random.Random(7)
    framework.scheduler.cache.update_snapshot(framework.scheduler.snapshot)
    pod = make_pod("p", requests={"cpu": "100m"})
    found = [await pipeline.find_node(framework.profile, CycleState(), pod) for _ in range(400)]
    drawn = Counter(placement.node_name for placement in found)
    assert drawn.keys() == {"n0", "n1", "n2", "n3"}
    assert min(drawn.values()) > 70


@pytest.mark.parametrize(
    ("node", "labels", "fits"),
    [
        pytest.param("n1", {}, True, id="the node passes the filters"),
        pytest.param("n3", {}, False, id="a filter rejects the node"),
        pytest.param("n0", {"narrow": "yes"}, False, id="PreFilter leaves the node out"),
        pytest.param("n2", {"narrow": "yes"}, True, id="PreFilter leaves the node in"),
        pytest.param("n1", {"broken": "yes"}, False, id="PreFilter fails"),
        pytest.param("gone", {}, False, id="there is no such node"),
    ],
)
async def test_fits_on_asks_about_one_node(cluster: FakeCluster, node: str, labels: dict[str, str], fits: bool) -> None:
    """PreFilter and Filter decide whether a pod fits on a given node; a plugin that fails means no."""
    for number in range(4):
        cluster.add_node(f"n{number}", unschedulable=number == 3)
    framework = cluster.framework(enable=[Narrowing], allow_plugin_errors=True)
    nodes = framework.nodes()
    assert fits_on(framework.profile, CycleState(), make_pod("p", labels=labels), nodes, node) is fits


async def test_an_evaluation_changes_no_later_choice(cluster: FakeCluster) -> None:
    """It breaks ties, and begins its search, apart from the pipeline of the scheduler."""
    for number in range(4):
        cluster.add_node(f"n{number}")
    framework = cluster.framework()
    await framework.start()
    pipeline = framework.scheduler.scheduling.pipeline
    before = pipeline.tie_break.rng.getstate(), pipeline.next_start
    evaluation = await evaluate(framework.scheduler, framework.profile, make_pod("p"))
    assert evaluation.feasible is not None
    assert (pipeline.tie_break.rng.getstate(), pipeline.next_start) == before


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "method",
    ["run_pre_filter", "find_feasible", "run_pre_score", "rank_nodes", "run_score", "run_reserve", "run_permit"],
)
def test_each_step_of_a_placement_is_called_in_one_module(method: str) -> None:
    """Cycles, trials, what-ifs and `explain` share the pipeline; none writes a step of its own."""
    root = Path(pyscheduler.__file__).parent
    call = re.compile(rf"profile\.{method}\(")
    callers = [
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if "testing" not in path.parts and call.search(path.read_text(encoding="utf-8"))
    ]
    assert len(callers) == 1, callers


_PODS = {
    "fits": make_pod("p", requests={"cpu": "100m"}),
    "fits nowhere": make_pod("p", requests={"cpu": "1000"}),
    "labels and ports": make_pod("p", node_selector={"zone": "z1"}, host_ports=[80]),
}


async def calls_of_cycles(nodes: int) -> dict[str, int]:
    """Count the Python functions called by whole scheduling cycles, the update of the snapshot included."""
    cluster = FakeCluster(clock=VirtualClock())
    cluster.server.add(*(node_manifest(f"n{number}", labels={"zone": f"z{number % 3}"}) for number in range(nodes)))
    framework = cluster.framework()
    await framework.start()
    found = {}
    for name, pod in _PODS.items():
        # The first pod that asks for a label makes its column.
        for _ in range(2):
            found[name] = calls_of_a_cycle(framework, pod)
    await cluster.close()
    return found


def calls_of_a_cycle(framework: FakeFramework, pod: Pod) -> int:
    """Run one cycle for a pod that the queue does not know; the loop would have its own turns counted."""
    scheduling = framework.scheduler.scheduling
    queued = QueuedPodInfo(pod_info=PodInfo.of(pod), enqueued_at=0.0)
    calls = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    gc.disable()
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        attempt = run_now(scheduling.run_scheduling_cycle(framework.profile, queued))
    finally:
        sys.setprofile(before)
        gc.enable()
    if attempt is not None:
        scheduling.undo(attempt)
    return calls


@pytest.mark.slow
async def test_a_cycle_calls_as_many_functions_on_any_cluster() -> None:
    """No Python function is called per node, from the snapshot to Permit, whether or not the pod fits."""
    assert await calls_of_cycles(100) == await calls_of_cycles(5000)

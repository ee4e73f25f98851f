"""RackPower: the estimate follows the snapshot, whatever happens to the pods of a rack."""

import pytest

from pyscheduler import ConfigError, CycleState, Node, PreBindPlugin, Status
from pyscheduler.framework import PodInfo, Trial
from pyscheduler.testing import check_plugin, make_pod
from rack_power.plugin import RackPower

RACK = "topology.kubernetes.io/rack"
#: 10 W for a core, 100 W for an idle node.
ARGS = {"wattsPerUnit": {"cpu": 10, "example.com/gpu": 300}, "idleWatts": 100, "budgets": {"r1": 230, "r2": 999}}


def start(cluster, *others, **args):
    """Return a framework with budgets of 230 W and 999 W; `args` replace some."""
    return cluster.framework(enable=[RackPower, *others], args={"RackPower": {**ARGS, **args}})


def add_nodes(cluster, **racks):
    """Add nodes with their racks."""
    for name, rack in racks.items():
        cluster.add_node(name, allocatable={"cpu": "16", "example.com/gpu": "4"}, labels={RACK: rack} if rack else {})


def test_all_nodes_of_a_rack_share_its_budget(pyscheduler_cluster):
    """Rack r1 has 30 W left beside its two idle nodes, and a pod on one node uses 20 W of them."""
    cluster = pyscheduler_cluster
    add_nodes(cluster, a="r1", b="r1", c="r2", d="")
    cluster.add_pod("there", node_name="a", requests={"cpu": "2"})
    framework = start(cluster)
    found = framework.run_filter(make_pod("p", requests={"cpu": "1500m"}))
    assert {name for name, status in found.items() if status is None} == {"c", "d"}
    assert found["b"].message == "node(s) were in a rack without power left"
    assert set(framework.run_filter(make_pod("p", requests={"cpu": "1"})).values()) == {None}
    assert framework.run_filter(make_pod("p", requests={"example.com/gpu": "3"}))["c"] is not None
    assert set(framework.run_filter(make_pod("p", requests={"memory": "1Gi"})).values()) == {None}


def test_racks_that_are_not_named_have_the_default_budget(pyscheduler_cluster):
    add_nodes(pyscheduler_cluster, a="r3")
    pod = make_pod("p", requests={"cpu": "2"})
    assert start(pyscheduler_cluster).run_filter(pod)["a"] is None
    assert start(pyscheduler_cluster, defaultBudget=110).run_filter(pod)["a"] is not None


async def test_a_deleted_pod_or_a_relabeled_node_wakes_a_pod(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    add_nodes(cluster, a="r1", b="r1")
    framework = start(cluster)
    await framework.schedule("first", requests={"cpu": "3"})
    await framework.schedule("light", requests={"memory": "1Gi"})
    waiting = await framework.schedule("second", requests={"cpu": "3"})
    assert not waiting.bound

    cluster.delete_pod("light")
    cluster.patch(Node, "a", {"metadata": {"labels": {"colour": "blue"}}})
    await cluster.clock.advance(30)
    assert framework.scheduler.queue.get(waiting.pod.uid).attempts == 1
    cluster.delete_pod("first")
    await cluster.clock.advance(30)
    assert framework.result("second").bound

    assert not (await framework.schedule("third", requests={"cpu": "1"})).bound
    cluster.patch(Node, "b", {"metadata": {"labels": {RACK: "r2"}}})
    await cluster.clock.advance(30)
    assert framework.result("third").node == "b"


class Late(PreBindPlugin):
    """Stand for anything that fails after Reserve: pod `a` gives its node up after ten seconds."""

    def pre_bind_pre_flight(self, state, pod, node_name):
        return None if pod.name == "a" else Status.skip()

    async def pre_bind(self, state, pod, node_name):
        await self.handle.clock.sleep(10)
        return Status.unschedulable("the disk is not ready")


async def test_a_failed_binding_gives_the_power_back(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    add_nodes(cluster, n1="r1", n2="r1")
    framework = start(cluster, Late)
    await framework.schedule("a", requests={"cpu": "3"})
    assert not (await framework.schedule("b", requests={"cpu": "3"})).bound
    await cluster.clock.advance(11)
    assert framework.result("b").bound


async def test_a_restarted_scheduler_knows_the_power_in_use(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    add_nodes(cluster, a="r1", b="r1")
    first = start(cluster)
    await first.schedule("p", requests={"cpu": "3"})
    await first.close()
    assert not (await start(cluster).schedule("q", requests={"cpu": "1"})).bound


def test_pods_that_a_trial_has_placed_count(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    add_nodes(cluster, a="r1", b="r1")
    framework = start(cluster)
    framework.nodes()
    plugin, snapshot, state = framework.plugin("RackPower"), framework.scheduler.snapshot, CycleState(Trial())
    first, second = (make_pod(name, requests={"cpu": "2"}) for name in ("p", "q"))
    plugin.pre_filter(state, second, snapshot.nodes)
    with snapshot.undo_at_end():
        snapshot.place(PodInfo.of(first), "a")
        assert plugin.filter_nodes(state, second, snapshot.nodes).passed().tolist() == [False, False]
    assert plugin.filter_nodes(state, second, snapshot.nodes) is None


@pytest.mark.parametrize(
    ("cpu", "left"),
    [
        pytest.param("1500m", 1, id="one victim is enough"),
        pytest.param("3", 2, id="no node alone gives back enough"),
    ],
)
async def test_preemption_looks_at_one_node_at_a_time(pyscheduler_cluster, cpu, left):
    """A search over both nodes at once would count what both give back, and evict a pod in vain."""
    cluster = pyscheduler_cluster
    add_nodes(cluster, a="r1", b="r1")
    for name, node in (("p", "a"), ("q", "b")):
        spec = {"terminationGracePeriodSeconds": 0}
        cluster.add_pod(name, node_name=node, requests={"cpu": "1500m"}, priority=0, spec=spec)
    framework = start(cluster)
    await framework.schedule("urgent", requests={"cpu": cpu}, priority=10)
    await cluster.clock.advance(30)
    assert framework.result("urgent").bound == (left == 1)
    assert len([pod for pod in cluster.pods() if pod.name != "urgent"]) == left


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param({}, "wattsPerUnit.*Required|Required.*wattsPerUnit", id="no watts"),
        pytest.param({"wattsPerUnit": {"cpu": -1}}, r"wattsPerUnit\[cpu\] must be between", id="negative"),
        pytest.param(
            {"wattsPerUnit": {}, "budgets": {"r1": "1kW"}}, r"expected a number.*args\.budgets\.r1", id="text"
        ),
    ],
)
def test_args_are_checked(pyscheduler_cluster, args, message):
    with pytest.raises(ConfigError, match=message):
        pyscheduler_cluster.framework(enable=[RackPower], args={"RackPower": args})


def draw(rng, draft):
    """Put nodes into racks that are soon full."""
    draft.node_labels[RACK] = ["r1", "r2"]


def test_the_contract_of_plugins():
    args = {"wattsPerUnit": {"cpu": 10}, "budgets": {"r1": 25}, "defaultBudget": 40}
    check_plugin(RackPower, args, draw=draw)

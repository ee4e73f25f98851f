"""LicenseCounts: the count is right whatever happens to the pods that hold licenses."""

from pathlib import Path

import pytest

from license_counts.plugin import LicenseCounts
from pyscheduler import ConfigError, CycleState, PreBindPlugin, Status
from pyscheduler.framework import PodInfo, Trial
from pyscheduler.testing import check_plugin, make_pod

SOLVER, MESHER = "license.example.com/solver", "license.example.com/mesher"
ARGS = {
    "LicenseCounts": {"totals": {SOLVER: 2, MESHER: 1}},
    "NodeResourcesFit": {"ignoredResourceGroups": ["license.example.com"]},
}


def start(cluster, *others):
    """Return a framework with two licenses of one kind and one of another."""
    return cluster.framework(enable=[LicenseCounts, *others], args=ARGS)


async def test_no_more_pods_run_than_there_are_licenses(pyscheduler_cluster):
    """Pods on different nodes count together; pods without licenses are not concerned."""
    cluster = pyscheduler_cluster
    cluster.add_node("n1", allocatable={"pods": "2"})
    cluster.add_node("n2", allocatable={"pods": "5"})
    framework = start(cluster)
    for name in ("a", "b"):
        assert (await framework.schedule(name, requests={SOLVER: "1"})).bound
    result = await framework.schedule("c", requests={SOLVER: "1"})
    assert result.message.startswith(f"0/2 nodes are available: 2 Insufficient {SOLVER} in the cluster.")
    assert (await framework.schedule("d", requests={MESHER: "1"})).bound
    assert (await framework.schedule("e", requests={"cpu": "1"})).bound


async def test_only_a_license_of_the_kind_wakes_a_pod(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    cluster.add_node("n1")
    framework = start(cluster)
    await framework.schedule("solver", requests={SOLVER: "2"})
    await framework.schedule("mesher", requests={MESHER: "1"})
    waiting = await framework.schedule("p", requests={SOLVER: "1"})

    cluster.delete_pod("mesher")
    await cluster.clock.advance(30)
    assert framework.scheduler.queue.get(waiting.pod.uid).attempts == 1
    cluster.delete_pod("solver")
    await cluster.clock.advance(30)
    assert framework.result("p").bound


async def test_a_node_that_is_deleted_gives_its_licenses_back(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    cluster.add_node("n1", allocatable={"pods": "1"})
    framework = start(cluster)
    await framework.schedule("a", requests={SOLVER: "2"})
    cluster.add_node("n2")
    await framework.schedule("b", requests={SOLVER: "2"})
    cluster.delete_node("n1")
    await cluster.clock.advance(30)
    assert framework.result("b").node == "n2"
    cluster.delete_pod("a")


class Slow(PreBindPlugin):
    """Stand for anything that fails after Reserve: pod `a` gives its node up after ten seconds."""

    def pre_bind_pre_flight(self, state, pod, node_name):
        return None if pod.name == "a" else Status.skip()

    async def pre_bind(self, state, pod, node_name):
        await self.handle.clock.sleep(10)
        return Status.unschedulable("the disk is not ready")


async def test_a_failed_binding_gives_the_license_back(pyscheduler_cluster):
    """A pod holds its license from Reserve on; with its node it gives the license up, and that wakes others."""
    cluster = pyscheduler_cluster
    cluster.add_node("n1")
    framework = start(cluster, Slow)
    await framework.schedule("a", requests={SOLVER: "2"})
    assert not (await framework.schedule("b", requests={SOLVER: "2"})).bound
    await cluster.clock.advance(9)
    assert not framework.result("b").bound
    await cluster.clock.advance(2)
    assert framework.result("b").bound


async def test_the_count_survives_a_restart(pyscheduler_cluster):
    """A new scheduler knows the licenses of bound pods, those that others bound included."""
    cluster = pyscheduler_cluster
    cluster.add_node("n1")
    first = start(cluster)
    await first.schedule("a", requests={SOLVER: "1"})
    await first.close()
    cluster.add_pod("b", node_name="n1", requests={SOLVER: "1"}, scheduler_name="other")
    assert not (await start(cluster).schedule("c", requests={SOLVER: "1"})).bound


def test_pods_that_a_trial_has_placed_count(pyscheduler_cluster):
    """A group cycle places its members on the snapshot; the next member sees their licenses."""
    cluster = pyscheduler_cluster
    cluster.add_node("n1")
    framework = start(cluster)
    framework.nodes()
    first, second = (make_pod(name, requests={SOLVER: "2"}) for name in ("a", "b"))
    plugin, snapshot = framework.plugin("LicenseCounts"), framework.scheduler.snapshot
    state = CycleState(Trial())
    assert plugin.pre_filter(state, second, snapshot.nodes) is None
    with snapshot.undo_at_end():
        snapshot.place(PodInfo.of(first), "n1")
        assert plugin.filter_nodes(state, second, snapshot.nodes) is not None
    assert plugin.filter_nodes(state, second, snapshot.nodes) is None


async def test_preemption_evicts_no_more_than_the_licenses_need(pyscheduler_cluster):
    """Each node is searched by itself: one victim gives the license back, and no pod of the other node is evicted."""
    cluster = pyscheduler_cluster
    cluster.add_node("n1")
    cluster.add_node("n2")
    at_once = {"terminationGracePeriodSeconds": 0}
    for name, node in (("a", "n1"), ("b", "n2")):
        cluster.add_pod(name, node_name=node, requests={SOLVER: "1"}, priority=0, spec=at_once)
    cluster.add_pod("bystander", node_name="n1", requests={"cpu": "1"}, priority=0)
    framework = start(cluster)
    await framework.schedule("urgent", requests={SOLVER: "1"}, priority=100)
    await cluster.clock.advance(60)
    assert framework.result("urgent").bound
    assert sorted(pod.name for pod in cluster.pods()) in (["a", "bystander", "urgent"], ["b", "bystander", "urgent"])


async def test_preemption_evicts_nobody_in_vain(pyscheduler_cluster):
    """Two licenses on two nodes: no node alone gives back both. A search over both nodes at once would evict a pod."""
    cluster = pyscheduler_cluster
    for name, node in (("a", "n1"), ("b", "n2")):
        cluster.add_node(node)
        cluster.add_pod(name, node_name=node, requests={SOLVER: "1"}, priority=0)
    framework = start(cluster)
    assert not (await framework.schedule("urgent", requests={SOLVER: "2"}, priority=100)).bound
    await cluster.clock.advance(30)
    assert [pod.name for pod in cluster.pods() if pod.metadata.deletion_timestamp] == []


def test_more_than_there_are_is_hopeless(pyscheduler_cluster):
    pyscheduler_cluster.add_node("n1")
    status = start(pyscheduler_cluster).run_pre_filter(make_pod("p", requests={SOLVER: "3"}))
    expected = Status.unresolvable(f"the cluster has only 2 of {SOLVER}")
    assert status == expected.with_plugin("LicenseCounts")


@pytest.mark.parametrize(
    ("totals", "message"),
    [
        pytest.param({"solver": 1}, r"totals\[solver\] must be named", id="no extended resource"),
        pytest.param({SOLVER: -1}, r"must not be negative", id="negative"),
        pytest.param({SOLVER: "two"}, r"expected an integer.*args\.totals\[.*solver", id="text"),
    ],
)
def test_args_are_checked(pyscheduler_cluster, totals, message):
    with pytest.raises(ConfigError, match=message):
        pyscheduler_cluster.framework(enable=[LicenseCounts], args={"LicenseCounts": {"totals": totals}})


def draw(rng, draft):
    """Let pods request licenses."""
    draft.pods += [{}, {"requests": {SOLVER: "1"}}, {"requests": {SOLVER: "2"}}, {"requests": {MESHER: "1"}}]


def test_the_contract_of_plugins():
    """The profile of the recipe, with fewer licenses."""
    profile = (Path(__file__).parents[1] / "profile.yaml").read_text().replace("solver: 20", "solver: 2")
    check_plugin(LicenseCounts, config=profile, draw=draw)

"""Cost: scores follow prices, discounts and the share of the node that a pod takes."""

import pytest

from cost_score.plugin import Cost
from pyscheduler import ConfigError
from pyscheduler.testing import check_plugin, make_pod

TYPE, CAPACITY = "node.kubernetes.io/instance-type", "karpenter.sh/capacity-type"
ARGS = {"prices": {"small": 1, "large": 8}, "discounts": {"spot": 0.5}, "unknownPrice": 4}


def scores(cluster, pod):
    """Return the plugin's scores by node."""
    found = cluster.framework(enable=[Cost], args={"Cost": ARGS}).run_score(pod)
    return {name: by_plugin["Cost"] for name, by_plugin in found.items()}


def test_the_cheapest_share_wins(pyscheduler_cluster):
    """A core of `large` costs 8/16, of `small` 1/4, and half of that on spot; a type without a price costs 4/4."""
    for name, kind, cpu, capacity in [
        ("small", "small", "4", "on-demand"),
        ("spot", "small", "4", "spot"),
        ("large", "large", "16", "on-demand"),
        ("odd", "odd", "4", "on-demand"),
    ]:
        cluster_labels = {TYPE: kind, CAPACITY: capacity}
        pyscheduler_cluster.add_node(name, allocatable={"cpu": cpu, "memory": "64Gi"}, labels=cluster_labels)
    pod = make_pod("p", requests={"cpu": "1"})
    assert scores(pyscheduler_cluster, pod) == {"spot": 88, "small": 75, "large": 50, "odd": 0}


def test_the_scarcest_resource_counts(pyscheduler_cluster):
    """A pod that takes all memory of a node pays for the whole node."""
    pyscheduler_cluster.add_node("little", allocatable={"cpu": "4", "memory": "4Gi"}, labels={TYPE: "small"})
    pyscheduler_cluster.add_node("much", allocatable={"cpu": "4", "memory": "32Gi"}, labels={TYPE: "small"})
    pod = make_pod("p", requests={"cpu": "100m", "memory": "4Gi"})
    assert scores(pyscheduler_cluster, pod) == {"little": 0, "much": 88}


def test_a_pod_without_requests_takes_one_place(pyscheduler_cluster):
    pyscheduler_cluster.add_node("few", allocatable={"pods": "10"}, labels={TYPE: "small"})
    pyscheduler_cluster.add_node("many", allocatable={"pods": "100"}, labels={TYPE: "small"})
    assert scores(pyscheduler_cluster, make_pod("p")) == {"few": 0, "many": 90}


async def test_equal_pods_share_answers_until_a_price_label_changes(pyscheduler_cluster):
    """With the cache on, a relabeled node has its new score at once."""
    from pyscheduler import Node

    cluster = pyscheduler_cluster
    cluster.add_node("a", labels={TYPE: "small"})
    cluster.add_node("b", labels={TYPE: "large"})
    framework = cluster.framework(enable=[Cost], args={"Cost": ARGS}, disable=["NodeResourcesBalancedAllocation"])
    assert not framework.profile.cache_obstacles
    assert (await framework.schedule("one", requests={"cpu": "100m"})).node == "a"
    cluster.patch(Node, "a", {"metadata": {"labels": {TYPE: "large"}}})
    cluster.patch(Node, "b", {"metadata": {"labels": {TYPE: "small"}}})
    assert (await framework.schedule("two", requests={"cpu": "100m"})).node == "b"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param({"prices": {"m5": -1}}, r"prices\[m5\] must be .*args", id="negative price"),
        pytest.param({"prices": {"m5": "1"}}, r"expected a number.*args\.prices\.m5", id="text"),
        pytest.param({"discounts": {"spot": 65}}, r"discounts\[spot\] must be a share", id="percent"),
    ],
)
def test_args_are_checked(pyscheduler_cluster, args, message):
    with pytest.raises(ConfigError, match=message):
        pyscheduler_cluster.framework(enable=[Cost], args={"Cost": args})


def draw(rng, draft):
    """Give nodes types with and without a price."""
    draft.node_labels[TYPE] = ["small", "large", "odd"]
    draft.node_labels[CAPACITY] = ["spot"]


def test_the_contract_of_plugins():
    check_plugin(Cost, ARGS, draw=draw)

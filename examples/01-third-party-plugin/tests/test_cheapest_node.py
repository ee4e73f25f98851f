"""CheapestNode on a fake cluster: no API server to reach, no time that passes by itself."""

import pytest

from cheapest_node.plugin import CheapestNode, CheapestNodeArgs
from pyscheduler.testing import FakeCluster, make_pod

PRICE = "example.com/hourly-price"


async def test_the_cheapest_node_wins(pyscheduler_cluster):
    """The pod runs on the cheapest node, although the default plugins prefer the other one."""
    cluster = pyscheduler_cluster
    cluster.add_node("dear", allocatable={"cpu": "64"}, labels={PRICE: "3.20"})
    cluster.add_node("cheap", allocatable={"cpu": "4"}, labels={PRICE: "0.10"})

    framework = cluster.framework(enable=[CheapestNode])
    result = await framework.schedule(make_pod("p", requests={"cpu": "1"}))

    assert result.node == "cheap"


async def test_a_full_node_is_not_cheap_enough(pyscheduler_cluster):
    """A preference never overrules a filter."""
    cluster = pyscheduler_cluster
    cluster.add_node("dear", allocatable={"cpu": "64"}, labels={PRICE: "3.20"})
    cluster.add_node("cheap", allocatable={"cpu": "4"}, labels={PRICE: "0.10"})

    framework = cluster.framework(enable=[CheapestNode])

    assert (await framework.schedule("big", requests={"cpu": "5"})).node == "dear"


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({"a": "1.00", "b": "4.00"}, {"a": 75, "b": 0}, id="in proportion to the price"),
        pytest.param({"a": "0", "b": "4.00"}, {"a": 100, "b": 0}, id="free"),
        pytest.param({"a": "1.00", "b": "ask"}, {"a": 99, "b": 0}, id="unreadable is unpriced"),
        pytest.param({"a": "1.00", "b": None}, {"a": 99, "b": 0}, id="no label is unpriced"),
        pytest.param({"a": "nan", "b": "inf"}, {"a": 100, "b": 0}, id="prices that cannot be"),
    ],
)
async def test_scores(pyscheduler_cluster: FakeCluster, labels: dict, expected: dict):
    """One extension point alone: nothing is scheduled."""
    for name, price in labels.items():
        pyscheduler_cluster.add_node(name, labels={PRICE: price} if price else {})

    scores = pyscheduler_cluster.framework(enable=[CheapestNode]).run_score(make_pod("p"))

    assert {name: by_plugin["CheapestNode"] for name, by_plugin in scores.items()} == expected


async def test_args(pyscheduler_cluster):
    """Args come in the spelling of the profile file."""
    pyscheduler_cluster.add_node("a", labels={"cloud/price": "2"})
    pyscheduler_cluster.add_node("b")

    args = {"CheapestNode": {"priceLabel": "cloud/price", "unpriced": 4}}
    framework = pyscheduler_cluster.framework(enable=[CheapestNode], args=args)

    assert framework.plugin("CheapestNode").args == CheapestNodeArgs(price_label="cloud/price", unpriced=4.0)
    assert framework.run_score(make_pod("p"))["a"]["CheapestNode"] == 50

"""Headroom: what passes, what does not, and what wakes a pod up again."""

import pytest

from pyscheduler import ConfigError
from pyscheduler.testing import check_plugin, make_pod
from small_plugins.headroom import NO_HEADROOM, Headroom, HeadroomOneByOne


@pytest.mark.parametrize("plugin", [Headroom, HeadroomOneByOne])
def test_both_forms_say_the_same(pyscheduler_cluster, plugin):
    cluster = pyscheduler_cluster
    cluster.add_node("free", allocatable={"cpu": "10"})
    cluster.add_node("used", allocatable={"cpu": "10"})
    cluster.add_pod("there", node_name="used", requests={"cpu": "7"})

    framework = cluster.framework(enable=[plugin], args={plugin.name: {"percent": 20}})

    assert framework.run_filter(make_pod("p", requests={"cpu": "1"})) == {"free": None, "used": None}
    statuses = framework.run_filter(make_pod("p", requests={"cpu": "1500m"}))
    assert statuses == {"free": None, "used": NO_HEADROOM.with_plugin(plugin.name)}


async def test_a_deleted_pod_makes_room(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    cluster.add_node("n1", allocatable={"cpu": "10"})
    cluster.add_pod("there", node_name="n1", requests={"cpu": "9"})
    framework = cluster.framework(enable=[Headroom])

    result = await framework.schedule("p", requests={"cpu": "500m"})
    assert result.message.startswith("0/1 nodes are available: 1 node(s) had no CPU headroom left.")

    cluster.delete_pod("there")
    await cluster.clock.advance(5)  # the backoff after a failed attempt
    assert framework.result("p").node == "n1"


def test_args_are_checked(pyscheduler_cluster):
    with pytest.raises(ConfigError, match="percent"):
        pyscheduler_cluster.framework(enable=[Headroom], args={"Headroom": {"percent": 101}})


def test_headroom_keeps_the_contract():
    check_plugin(Headroom, {"percent": 20}, histories=4)

"""Pairs: together or not at all."""

from pyscheduler.testing import make_pod
from small_plugins.pairs import PAIR, Pairs


async def test_the_first_waits_for_the_second(pyscheduler_cluster):
    pyscheduler_cluster.add_node("n1")
    framework = pyscheduler_cluster.framework(enable=[Pairs])

    first = await framework.schedule("first", labels={PAIR: "a"})
    assert (first.state, first.node) == ("waiting", "n1")

    assert (await framework.schedule("second", labels={PAIR: "a"})).bound
    assert framework.result("first").bound


async def test_patience_ends_and_the_partner_wakes_it_up(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Pairs], args={"Pairs": {"patience": "2m"}})
    await framework.schedule("first", labels={PAIR: "a"})

    await cluster.clock.advance(119)
    assert framework.result("first").state == "waiting"
    await cluster.clock.advance(1)
    assert framework.result("first").state == "pending"
    assert "rejected due to timeout after waiting 2m0s at plugin Pairs" in framework.result("first").message

    assert (await framework.schedule("second", labels={PAIR: "a"})).bound
    assert framework.result("first").bound


async def test_a_partner_that_is_gone_gives_nothing_away(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    cluster.add_node("n1", allocatable={"cpu": "1"})
    framework = cluster.framework(enable=[Pairs])
    await framework.schedule("first", labels={PAIR: "a"}, requests={"cpu": "1"})

    cluster.delete_pod("first")
    await framework.settle()

    assert framework.plugin("Pairs").pairs == {}
    assert (await framework.schedule("other", requests={"cpu": "1"})).bound


async def test_a_restart_in_the_middle_of_a_wait(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Pairs])
    assert (await framework.schedule("first", labels={PAIR: "a"})).state == "waiting"

    await framework.close()
    framework = cluster.framework(enable=[Pairs])
    await framework.start()

    await cluster.clock.advance(1)
    assert framework.result("first").state == "waiting"
    assert (await framework.schedule("second", labels={PAIR: "a"})).bound
    assert framework.result("first").bound


async def test_others_do_not_wait(pyscheduler_cluster):
    pyscheduler_cluster.add_node("n1")
    framework = pyscheduler_cluster.framework(enable=[Pairs])
    assert (await framework.schedule("plain")).bound
    assert framework.run_permit(make_pod("p", labels={PAIR: "a"}), "n1").timeout_seconds == 60

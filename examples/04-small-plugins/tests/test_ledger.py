"""Ledger: books that are right in the end, a stamp, a history, a page."""

from pyscheduler import CycleState, Status
from pyscheduler.testing import CHECKS, Fault, check_plugin, make_pod
from small_plugins.ledger import STAMP, Ledger


async def test_the_books_follow_the_pod(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Ledger])

    await framework.schedule("p", annotations={STAMP: ""})
    await framework.schedule("q", namespace="other")

    assert cluster.pod("p").annotations[STAMP] == "n1"
    assert cluster.pod("q", namespace="other").annotations == {}
    await cluster.clock.advance(120)
    assert framework.get_route("/ledger") == {"reserved": [], "bound": {"default": 1, "other": 1}, "history": [2, 2]}


async def test_one_extension_point_at_a_time(pyscheduler_cluster):
    pyscheduler_cluster.add_node("n1")
    framework = pyscheduler_cluster.framework(enable=[Ledger])
    ledger, pod, state = framework.plugin("Ledger"), make_pod("p"), CycleState()

    assert framework.run_reserve(pod, "n1", state) is None
    assert ledger.reserved == {pod.uid: "default"}
    assert framework.run_pre_bind_pre_flight(pod, "n1", state) == Status.skip()
    for _ in range(2):
        framework.run_unreserve(pod, "n1", state)
    assert ledger.reserved == {}


async def test_a_failure_that_is_meant(pyscheduler_cluster):
    pyscheduler_cluster.add_node("n1")
    framework = pyscheduler_cluster.framework(enable=[Ledger], allow_plugin_errors=True)
    framework.plugin("Ledger").bound = None

    assert (await framework.schedule("p")).bound
    assert [failure.point for failure in framework.plugin_errors] == ["PostBind"]


async def test_the_books_are_right_although_the_api_server_fails(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Ledger])
    fault = cluster.server.faults.add(Fault(method="PATCH", path="/pods/p$", status=403, times=1))

    refused = await framework.schedule("p", annotations={STAMP: ""})
    assert refused.state == "pending"
    assert framework.get_route("/ledger")["reserved"] == []
    assert fault.hits == 1

    await cluster.clock.advance(5)
    assert framework.result("p").bound


async def test_a_crash_between_two_writes(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Ledger])
    cluster.server.faults.add(Fault(method="POST", path="/binding", lose="request"))
    assert (await framework.schedule("p", annotations={STAMP: ""})).state == "pending"

    await framework.crash()
    cluster.server.faults.clear()
    framework = cluster.framework(enable=[Ledger])
    assert (await framework.schedule("p")).bound


def draw_stamps(rng, draft):
    draft.pod_annotations[STAMP] = [""]
    draft.pods.append({"requests": {"cpu": rng.choice(["100m", "1"])}})


def test_ledger_keeps_the_contract():
    # Without the check that needs a second process.
    checks = [check for check in CHECKS if check != "hash-seed"]
    check_plugin(Ledger, draw=draw_stamps, histories=4, checks=checks)

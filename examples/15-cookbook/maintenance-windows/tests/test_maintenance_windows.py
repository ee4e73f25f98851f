"""MaintenanceWindows in virtual time: which nodes are closed to which pods, and when a pod is retried."""

from datetime import UTC, datetime

import pytest

from maintenance_windows.plugin import FORMAT, MaintenanceWindows, parse_window
from pyscheduler import ConfigError
from pyscheduler.testing import FakeCluster, VirtualClock, check_plugin, make_pod

LABEL = "example.com/maintenance"
HOUR = 3600


def window(cluster: FakeCluster, begin_hours: float, end_hours: float) -> str:
    """Return a label value with a window that begins and ends so many hours from now."""
    moments = [cluster.clock.wall() + hours * HOUR for hours in (begin_hours, end_hours)]
    return "_".join(datetime.fromtimestamp(moment, UTC).strftime(FORMAT) for moment in moments)


def test_a_node_is_closed_as_long_as_the_pod_might_run_into_the_window(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    cluster.add_node("free")
    cluster.add_node("later", labels={LABEL: window(cluster, 3, 4)})
    cluster.add_node("soon", labels={LABEL: window(cluster, 1, 2)})
    cluster.add_node("now", labels={LABEL: window(cluster, -1, 1)})
    cluster.add_node("over", labels={LABEL: window(cluster, -2, -1)})
    cluster.add_node("odd", labels={LABEL: "tomorrow"})
    framework = cluster.framework(enable=[MaintenanceWindows], args={"MaintenanceWindows": {"expectedRuntime": "2h"}})

    statuses = framework.run_filter(make_pod("p"))
    assert {name for name, status in statuses.items() if status is None} == {"free", "later", "over"}
    assert statuses["odd"].message == "node(s) had an unreadable maintenance window"

    short = framework.run_filter(make_pod("short", spec={"activeDeadlineSeconds": 60}))
    assert {name for name, status in short.items() if status is None} == {"free", "later", "soon", "over"}


async def test_the_pod_is_retried_when_the_first_window_ends(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    cluster.add_node("n1", labels={LABEL: window(cluster, 0, 3)})
    cluster.add_node("n2", labels={LABEL: window(cluster, 0, 2)})
    framework = cluster.framework(enable=[MaintenanceWindows])

    result = await framework.schedule("p")
    assert "2 node(s) were close to or under maintenance" in result.message
    await cluster.clock.advance(2 * HOUR - 61)  # label values have no seconds
    assert framework.result("p").state == "pending"
    await cluster.clock.advance(62)
    assert framework.result("p").node == "n2"


async def test_a_window_that_is_moved_or_called_off_wakes_the_pod(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    cluster.add_node("n1", labels={LABEL: window(cluster, 0, 30)})
    framework = cluster.framework(enable=[MaintenanceWindows])
    assert not (await framework.schedule("p")).bound

    from pyscheduler import Node

    attempts = framework.scheduler.queue.get(framework.result("p").pod.uid).attempts
    cluster.patch(Node, "n1", {"metadata": {"labels": {"other": "label"}}})
    await cluster.clock.advance(20)
    assert framework.scheduler.queue.get(framework.result("p").pod.uid).attempts == attempts
    cluster.patch(Node, "n1", {"metadata": {"labels": {LABEL: None}}})
    await cluster.clock.advance(20)
    assert framework.result("p").bound


async def test_a_new_node_whose_window_ends_earlier_is_used_then(pyscheduler_cluster):
    """The hint lets the pod try a node that is closed, too, because only the attempt learns when it opens."""
    cluster = pyscheduler_cluster
    cluster.add_node("n1", labels={LABEL: window(cluster, 0, 30)})
    framework = cluster.framework(enable=[MaintenanceWindows])
    assert not (await framework.schedule("p")).bound
    cluster.add_node("n2", labels={LABEL: window(cluster, 0, 1)})
    await cluster.clock.advance(HOUR + 1)
    assert framework.result("p").node == "n2"


@pytest.mark.parametrize("text", ["", "20261124T0200Z", "20261124T0400Z_20261124T0200Z", "a_b_c", "_"])
def test_other_texts_are_no_window(text):
    assert parse_window(text) is None


def test_args_are_checked(pyscheduler_cluster):
    args = {"MaintenanceWindows": {"expectedRuntime": 7200}}
    with pytest.raises(ConfigError, match=r"a duration .* @ .*args\.expectedRuntime"):
        pyscheduler_cluster.framework(enable=[MaintenanceWindows], args=args)


def draw(rng, draft):
    """Give nodes windows that begin and end while a history runs."""
    clock = VirtualClock()
    moments = [datetime.fromtimestamp(clock.wall() + 60 * minute, UTC).strftime(FORMAT) for minute in range(4)]
    draft.node_labels[LABEL] = [f"{moments[0]}_{moments[1]}", f"{moments[1]}_{moments[3]}", "odd"]
    draft.pods += [{}, {"spec": {"activeDeadlineSeconds": 30}}]


def test_the_contract_of_plugins():
    check_plugin(MaintenanceWindows, {"expectedRuntime": "1m"}, draw=draw)

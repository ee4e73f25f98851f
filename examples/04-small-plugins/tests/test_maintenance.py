"""MaintenanceFilter: before the resource is defined, while an object is there, and after it is gone."""

from pyscheduler.testing import Step, check_plugin, make_pod
from small_plugins.maintenance import MAINTENANCES, Maintenance, MaintenanceFilter

CLOSED = {
    "apiVersion": "example.com/v1",
    "kind": "Maintenance",
    "metadata": {"name": "disk"},
    "spec": {"nodeName": "n1"},
}


def test_a_node_is_closed(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    cluster.add_node("n1")
    framework = cluster.framework(enable=[MaintenanceFilter])
    assert framework.run_filter(make_pod("p"))["n1"] is None

    cluster.serve(MAINTENANCES)
    cluster.add(CLOSED, Maintenance)
    assert framework.run_filter(make_pod("p"))["n1"].plugin == "MaintenanceFilter"


async def test_the_end_of_it_wakes_pods_up(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    cluster.serve(MAINTENANCES)
    cluster.add(CLOSED, Maintenance)
    cluster.add_node("n1")
    framework = cluster.framework(enable=[MaintenanceFilter])

    assert (await framework.schedule("p")).message.startswith("0/1 nodes are available: 1 node(s) were under maint")

    cluster.delete(Maintenance, "disk")
    await cluster.clock.advance(5)
    assert framework.result("p").bound


def draw_maintenances(rng, draft):
    manifest = {"apiVersion": "example.com/v1", "kind": "Maintenance", "metadata": {"name": "m"}}
    draft.setup.append(Step("add", {**manifest, "spec": {"nodeName": "n0"}}, Maintenance))
    draft.events.append(Step("patch", Maintenance, "m", {"spec": {"nodeName": rng.choice(["n1", "n9"])}}))
    draft.events.append(Step("delete", Maintenance, "m"))


def test_maintenance_keeps_the_contract():
    check_plugin(MaintenanceFilter, draw=draw_maintenances, histories=4)

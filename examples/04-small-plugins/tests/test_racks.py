"""Racks: a group runs in one rack, and in a quiet one."""

import pytest

from pyscheduler.podgroup import DIALECTS, DialectTable
from small_plugins.racks import RACK, QuietestRack, Racks

POD_GROUPS = DialectTable(DIALECTS).named("intree").kinds[0]
GATES = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: pyscheduler
    plugins:
      placementGenerate:
        disabled: [{name: "*"}]  # a profile has at most one plugin here
        enabled: [{name: Racks}]
      placementScore:
        disabled: [{name: "*"}]
        enabled: [{name: QuietestRack}]
"""


@pytest.fixture
def cluster(pyscheduler_cluster):
    if not pyscheduler_cluster.serves(POD_GROUPS):
        pyscheduler_cluster.serve(POD_GROUPS)
    for name, rack in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")]:
        pyscheduler_cluster.add_node(name, allocatable={"cpu": "2"}, labels={RACK: rack})
    pyscheduler_cluster.add_node("c1", allocatable={"cpu": "64"})
    return pyscheduler_cluster


def add_gang(cluster, name, members, cpu):
    manifest = {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "metadata": {"name": name}}
    manifest["metadata"]["namespace"] = "default"
    manifest["spec"] = {"schedulingPolicy": {"gang": {"minCount": members}}}
    cluster.add(manifest, POD_GROUPS.type)
    spec = {"schedulingGroup": {"podGroupName": name}}
    return [cluster.add_pod(f"{name}-{number}", requests={"cpu": cpu}, spec=spec).name for number in range(members)]


async def test_a_group_runs_in_the_rack_with_the_fewest_pods(cluster):
    cluster.add_pod("there", node_name="a1", requests={"cpu": "100m"})
    framework = cluster.framework(enable=[Racks, QuietestRack], config=CONFIG, feature_gates=GATES)
    members = add_gang(cluster, "g", 2, cpu="1500m")
    await framework.settle()
    assert sorted(framework.result(name).node for name in members) == ["b1", "b2"]


async def test_a_group_that_fits_in_no_rack_waits(cluster):
    framework = cluster.framework(enable=[Racks, QuietestRack], config=CONFIG, feature_gates=GATES)
    members = add_gang(cluster, "g", 3, cpu="1500m")
    await framework.settle()
    assert [framework.result(name).state for name in members] == ["pending"] * 3

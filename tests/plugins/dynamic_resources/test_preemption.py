"""Preemption, and trials of plugins, of pods with resource claims."""

from __future__ import annotations

import pytest

from pyscheduler.api import Pod, ResourceClaim
from pyscheduler.framework import (
    CycleState,
    Handle,
    NodeStatuses,
    Plugin,
    PodInfo,
    PostFilterPlugin,
    PostFilterResult,
    PreemptionRules,
    Status,
)
from pyscheduler.podgroup.wire import IN_TREE_PODGROUPS, InTreePodGroup
from pyscheduler.testing import FakeCluster
from tests.plugins.devices import (
    add,
    claim,
    device_class,
    resource_slice,
    taken_twice,
    using,
)
from tests.plugins.dynamic_resources.test_scheduling import ledger_of, set_status


class _FindDevices(PreemptionRules):
    keeps_bookings_of = ()


class Finder(PostFilterPlugin):
    """Preempts like DefaultPreemption, and finds the devices of victims."""

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self._preemptor = handle.preemptor(self.name, _FindDevices())

    async def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        return await self._preemptor.preempt(state, pod, statuses)


@pytest.mark.parametrize(
    ("enable", "disable", "victims"),
    [
        pytest.param([], [], set(), id="DefaultPreemption, as kube-scheduler"),
        pytest.param([Finder], ["DefaultPreemption"], {"low"}, id="a preemptor that finds devices"),
    ],
)
async def test_preemption_finds_the_device_of_a_victim_if_its_rules_say_so(
    cluster: FakeCluster, enable: list[type[Plugin]], disable: list[str], victims: set[str]
) -> None:
    """A pod lacks a CPU and a device, and one pod of lower priority has both."""
    cluster.add_node("n1", allocatable={"cpu": "1"})
    add(cluster, device_class(), resource_slice(), claim("c"), claim("d"))
    framework = cluster.framework(enable=enable, disable=disable)
    assert (await framework.schedule("low", requests={"cpu": "1"}, spec=using("c"))).bound
    before = dict(ledger_of(framework).allocated.devices)
    await framework.schedule("high", requests={"cpu": "1"}, priority=10, spec=using("d"))
    assert {pod.name for pod in cluster.pods() if pod.is_terminating} == victims
    assert ledger_of(framework).allocated.devices == before


@pytest.mark.parametrize(
    ("holders", "victims"),
    [pytest.param(0, {"low0", "low1"}, id="free devices"), pytest.param(1, set(), id="a device that a victim holds")],
)
async def test_a_gang_that_preempts_finds_free_devices_only(
    cluster: FakeCluster, holders: int, victims: set[str]
) -> None:
    """The search for victims takes CPUs of victims into account, and not their devices; it leaves no claim behind."""
    if not cluster.serves(IN_TREE_PODGROUPS):
        cluster.serve(IN_TREE_PODGROUPS)
    cluster.add_node("n1", allocatable={"cpu": "2"})
    names = ["c0", "c1", *(f"held{number}" for number in range(holders))]
    add(cluster, device_class(), resource_slice("n1", "gpu-0", "gpu-1"), *map(claim, names))
    gates = "GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true"
    framework = cluster.framework(feature_gates=gates)
    for number in range(2):
        spec = using(f"held{number}") if number < holders else {}
        assert (await framework.schedule(f"low{number}", requests={"cpu": "1"}, spec=spec)).bound
    before = dict(ledger_of(framework).allocated.devices)
    group = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup"}
    fields = {"schedulingPolicy": {"gang": {"minCount": 2}}, "priority": 10}
    cluster.add({**group, "metadata": {"name": "g", "namespace": "default"}, "spec": fields}, InTreePodGroup)
    for number in range(2):
        spec = {**using(f"c{number}"), "schedulingGroup": {"podGroupName": "g"}}
        cluster.add_pod(f"p{number}", requests={"cpu": "1"}, priority=10, spec=spec)
    await framework.settle()
    assert {pod.name for pod in cluster.pods() if pod.is_terminating} == victims
    assert ledger_of(framework).allocated.devices == before
    for name in victims:
        cluster.delete_pod(name)
    await cluster.clock.advance(15)
    assert [framework.result(f"p{number}").bound for number in range(2)] == [bool(victims)] * 2
    assert not taken_twice(cluster.objects(ResourceClaim))


async def test_a_trial_frees_a_device_once_all_its_users_are_evicted(cluster: FakeCluster) -> None:
    """Two pods share a claim; what becomes known of it during the trial counts afterwards."""
    cluster.add_node("n1")
    add(cluster, device_class(), resource_slice(), claim("c"), claim("d"))
    framework = cluster.framework()
    for name in ("p", "q"):
        assert (await framework.schedule(name, spec=using("c"))).bound
    other = PodInfo.of(cluster.add_pod("other", spec=using("d"), scheduler_name="nobody"))
    await framework.settle()
    async with framework.profile.handle.what_if() as trial:
        node = trial.snapshot.get("n1")
        assert node is not None
        pods = list(node.pods)
        trial.statement.evict(pods[0], "n1")
        assert trial.find_node(other) == ""
        with trial.statement.undo_at_end():
            trial.statement.evict(pods[1], "n1")
            assert trial.find_node(other) == "n1"
        assert trial.find_node(other) == ""
        trial.statement.evict(pods[1], "n1")
        set_status(cluster, "c", {"reservedFor": None})
        set_status(cluster, "c", {"allocation": None})
        await cluster.clock.advance(0)
    assert not ledger_of(framework).allocated.devices

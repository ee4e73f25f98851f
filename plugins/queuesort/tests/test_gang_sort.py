"""GangSort: the order in which pods are tried, and its args."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pyscheduler.framework import (
    ConfigError,
    CycleState,
    PermitPlugin,
    PodInfo,
    QueuedPodInfo,
    Status,
)
from pyscheduler.podgroup import DIALECTS, PodGroups, kinds_of
from pyscheduler.testing import FakeCluster, FakeFramework, make_pod
from pyscheduler_queuesort.args import GangSortArgs
from pyscheduler_queuesort.plugin import GangSort

API = "kubescheduler.config.k8s.io/v1"
ROWS = {dialect.name: dialect for dialect in DIALECTS}
LABEL = "scheduling.x-k8s.io/pod-group"
GANG = "gang.scheduling.koordinator.sh/"


class Order(PermitPlugin):
    """Takes down in which order pods are tried."""

    watches = kinds_of(DIALECTS)
    tried: list[str]

    def __init__(self, args: object = None, handle: Any = None) -> None:
        super().__init__(args, handle)
        self.tried = []
        self.groups = PodGroups.of(handle)

    def permit(self, state: CycleState, pod: Any, node_name: str) -> Status | None:
        self.tried.append(pod.name)
        return None


Start = Callable[..., FakeFramework]


@pytest.fixture
def cluster(pyscheduler_cluster: FakeCluster) -> FakeCluster:
    """Give a cluster with one node, which has room for all."""
    pyscheduler_cluster.add_node("node", allocatable={"cpu": "100"})
    return pyscheduler_cluster


@pytest.fixture
def framework(cluster: FakeCluster) -> Start:
    """Give what makes a scheduler that sorts by GangSort, with these args."""

    def make(**args: object) -> FakeFramework:
        plugins = {
            "queueSort": {"enabled": [{"name": "GangSort"}], "disabled": [{"name": "*"}]},
            "permit": {"enabled": [{"name": "Order"}]},
        }
        profile = {
            "schedulerName": "pyscheduler",
            "plugins": plugins,
            "pluginConfig": [{"name": "GangSort", "args": args}],
        }
        config = {"apiVersion": API, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}
        return cluster.framework(enable=[Order], config=json.dumps(config))

    return make


def add_group(cluster: FakeCluster, name: str, dialect: str = "sigs") -> None:
    """Create a PodGroup; it is as old as the clock says."""
    kind = ROWS[dialect].kinds[0]
    if not cluster.serves(kind):
        cluster.serve(kind)
    metadata = {"name": name, "namespace": "default"}
    manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": {"minMember": 1}}
    cluster.add(manifest, kind.type)


def add_pod(cluster: FakeCluster, name: str, group: str = "", **keywords: Any) -> None:
    """Create a pod, of a group of scheduler-plugins where one is named."""
    cluster.add_pod(name, labels={LABEL: group} if group else {}, **keywords)


def add_member(cluster: FakeCluster, name: str, gang: str, groups: str = "", **keywords: Any) -> None:
    """Create a pod of a gang that its pods declare."""
    annotations = {f"{GANG}name": gang, f"{GANG}min-available": "1", f"{GANG}groups": groups}
    cluster.add_pod(name, annotations=annotations, **keywords)


async def order_of(framework: FakeFramework) -> list[str]:
    """Start, and return the order in which the pods that are there were tried."""
    await framework.settle()
    order = framework.plugin("Order")
    assert isinstance(order, Order)
    return order.tried


async def test_members_of_a_group_stay_together(cluster: FakeCluster, framework: Start) -> None:
    """Groups whose pods arrive interleaved are tried one after the other, the older first; plain pods by time."""
    add_group(cluster, "red")
    await cluster.clock.advance(2.0)
    add_group(cluster, "blue")
    await cluster.clock.advance(2.0)
    add_pod(cluster, "plain")
    for number in range(3):
        add_pod(cluster, f"blue-{number}", "blue")
        add_pod(cluster, f"red-{number}", "red")
    expected = ["red-0", "red-1", "red-2", "blue-0", "blue-1", "blue-2", "plain"]
    assert await order_of(framework()) == expected


async def test_groups_of_the_same_time_are_not_mixed(cluster: FakeCluster, framework: Start) -> None:
    """At equal times the group counts before the pod's name."""
    for name in ("b", "a"):
        add_group(cluster, name)
        add_pod(cluster, f"2-{name}", name)
        add_pod(cluster, f"1-{name}", name)
    assert await order_of(framework()) == ["1-a", "2-a", "1-b", "2-b"]


@pytest.mark.parametrize("order", ["coscheduling", "gang"])
async def test_priority_is_compared_first(cluster: FakeCluster, framework: Start, order: str) -> None:
    """A pod of a group does not pass a pod of higher priority."""
    add_group(cluster, "g")
    add_pod(cluster, "low", "g")
    add_pod(cluster, "mate", "g", priority=3)
    add_pod(cluster, "high", priority=5)
    assert await order_of(framework(order=order)) == ["high", "mate", "low"]


async def test_pods_of_an_undeclared_group_are_sorted_as_plain_pods(cluster: FakeCluster, framework: Start) -> None:
    """Without the PodGroup or its CRD, pods are sorted by their own time."""
    add_pod(cluster, "b", "missing")
    add_pod(cluster, "a")
    assert sorted(await order_of(framework())) == ["a", "b"]


async def test_the_order_of_gangs(cluster: FakeCluster, framework: Start) -> None:
    """Gangs of a gang group share the time of the oldest, and are tried one after the other."""
    both = '["default/ps", "default/worker"]'
    add_member(cluster, "ps-0", "ps", both)
    await cluster.clock.advance(5.0)
    add_member(cluster, "alone-0", "alone")
    await cluster.clock.advance(5.0)
    add_member(cluster, "worker-0", "worker", both)
    add_member(cluster, "alone-1", "alone")
    add_member(cluster, "worker-1", "worker", both)
    expected = ["ps-0", "worker-0", "worker-1", "alone-0", "alone-1"]
    assert await order_of(framework(order="gang")) == expected


async def test_the_sub_priority_of_gangs(cluster: FakeCluster, framework: Start) -> None:
    """Koordinator's label orders pods of one priority; a value that is no number counts as 0."""
    for name, value in (("none", "x"), ("one", "1"), ("seven", "7")):
        cluster.add_pod(name, labels={"koordinator.sh/priority": value})
    assert await order_of(framework(order="gang")) == ["seven", "one", "none"]


async def test_failed_group_is_sorted_behind(cluster: FakeCluster, framework: Start) -> None:
    """Pods of a failed group are sorted by the time of the failure until the group passes Permit."""
    add_group(cluster, "a")
    await cluster.clock.advance(5.0)
    add_group(cluster, "b")
    made = framework()
    await made.start()
    order = made.plugin("Order")
    assert isinstance(order, Order)
    failed = next(state.id for state in order.groups.directory if state.id.name == "a")
    await cluster.clock.advance(5.0)
    order.groups.failed(failed)
    keys = {}
    for when in ("failed", "passed"):
        for name in ("a", "b"):
            info = QueuedPodInfo(pod_info=PodInfo.of(make_pod("p", labels={LABEL: name})), enqueued_at=0)
            sorter = made.plugin("GangSort")
            assert isinstance(sorter, GangSort)
            keys[when, name] = sorter.sort_key(info)
        order.groups.passed(failed)
    assert keys["failed", "a"] > keys["failed", "b"]
    assert keys["passed", "a"] < keys["passed", "b"]


@pytest.mark.parametrize(
    ("args", "key"),
    [
        pytest.param({}, None, id="off"),
        pytest.param({"backToBack": True}, ("default/g", "koordinator", 4), id="group"),
        pytest.param({"backToBack": True, "order": "gang"}, ("default/g,default/h", "koordinator", 4), id="gang group"),
    ],
)
async def test_popping_back_to_back(
    cluster: FakeCluster, framework: Start, args: dict[str, object], key: tuple[object, ...] | None
) -> None:
    """With `backToBack`, members of one priority are popped together; plain pods are not."""
    add_member(cluster, "p", "g", '["default/g", "default/h"]', priority=4)
    made = framework(**args)
    sorter, order = made.plugin("GangSort"), made.plugin("Order")
    assert isinstance(sorter, GangSort)
    assert isinstance(order, Order)
    order.groups.claim("Order", ["annotation"])
    await made.settle()
    infos = [QueuedPodInfo(pod_info=PodInfo.of(each), enqueued_at=0) for each in (cluster.pod("p"), make_pod("plain"))]
    assert [sorter.adjacency_key(info) for info in infos] == [key, None]


def test_unknown_order_is_an_error() -> None:
    """The error lists the supported values."""
    with pytest.raises(ValueError, match=r'order: Unsupported value: "fifo": supported values: "coscheduling", "gang"'):
        GangSortArgs(order="fifo")


async def test_error_for_an_unknown_order_names_the_field(framework: Start) -> None:
    """A configuration with such args does not start."""
    with pytest.raises(ConfigError, match=r"fifo.*pluginConfig"):
        framework(order="fifo")

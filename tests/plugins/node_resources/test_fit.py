"""NodeResourcesFit: what is left over, and what falls short."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from pyscheduler.api import Node, Pod
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import Code, ConfigError, CycleState, QueueingHint
from pyscheduler.framework.in_tree_args import NodeResourcesFitArgs, ScoringStrategy
from pyscheduler.plugins.node_resources.fit import NodeResourcesFit
from pyscheduler.testing.builders import make_node, make_pod

GPU = "example.com/gpu"
TAKEN = make_pod("q", node_name="n", requests={"cpu": "1", "memory": "1Gi", GPU: "1"})


def node_of(**allocatable: str) -> Node:
    """Make a node; `gpu` stands for the extended resource."""
    amounts = {GPU if name == "gpu" else name.replace("_", "-"): text for name, text in allocatable.items()}
    return make_node("n", allocatable={"cpu": "2", "memory": "2Gi", **amounts})


def status_of(
    pod: Pod,
    node: Node,
    pods: list[Pod],
    snapshot_of: Callable[..., Snapshot],
    args: NodeResourcesFitArgs | None = None,
) -> tuple[str, list[str]]:
    """Filter one node and return the code and the reasons in their order."""
    plugin, state, nodes = NodeResourcesFit(args), CycleState(), snapshot_of([node], pods).nodes
    assert plugin.pre_filter(state, pod, nodes) is None
    statuses = plugin.filter_nodes(state, pod, nodes)
    status = statuses.status(0) if statuses is not None else None
    return (status.code.label, list(status.reasons)) if status is not None else ("Success", [])


@pytest.mark.parametrize(
    ("requests", "allocatable", "expected"),
    [
        pytest.param({"cpu": "1001m"}, {}, ("Unschedulable", ["Insufficient cpu"]), id="a little too much"),
        pytest.param(
            {"cpu": "2001m"}, {}, ("UnschedulableAndUnresolvable", ["Insufficient cpu"]), id="even when empty"
        ),
        pytest.param(
            {"hugepages-2Mi": "2Mi", "memory": "2Gi", "cpu": "2"},
            {"pods": "1"},
            (
                "UnschedulableAndUnresolvable",
                ["Too many pods", "Insufficient cpu", "Insufficient memory", "Insufficient hugepages-2Mi"],
            ),
            id="all reasons at once",
        ),
    ],
)
def test_a_pod_fits_where_enough_is_left(
    requests: Mapping[str, str],
    allocatable: Mapping[str, str],
    expected: tuple[str, list[str]],
    snapshot_of: Callable[..., Snapshot],
) -> None:
    """Each resource that falls short is a reason; beyond the empty node, preemption is hopeless."""
    assert status_of(make_pod("p", requests=requests), node_of(**allocatable), [TAKEN], snapshot_of) == expected


@pytest.mark.parametrize(
    ("args", "fits"),
    [
        pytest.param(NodeResourcesFitArgs(ignored_resources=(GPU,)), True, id="by name"),
        pytest.param(NodeResourcesFitArgs(ignored_resource_groups=("example.com",)), True, id="by group"),
        pytest.param(NodeResourcesFitArgs(ignored_resource_groups=("example",)), False, id="a group is no prefix"),
        pytest.param(NodeResourcesFitArgs(ignored_resources=("cpu",)), False, id="another"),
    ],
)
def test_ignored_resources(args: NodeResourcesFitArgs, fits: bool, snapshot_of: Callable[..., Snapshot]) -> None:
    """What the profile ignores is not filtered by, as somebody else looks after it."""
    pod = make_pod("p", requests={GPU: "9"})
    assert (status_of(pod, node_of(), [], snapshot_of, args)[0] == "Success") is fits


def test_only_extended_resources_can_be_ignored(snapshot_of: Callable[..., Snapshot]) -> None:
    """CPU stays CPU, whatever the profile says."""
    args = NodeResourcesFitArgs(ignored_resources=("cpu", "hugepages-2Mi"))
    pod = make_pod("p", requests={"cpu": "9", "hugepages-2Mi": "2Mi"})
    assert status_of(pod, node_of(), [], snapshot_of, args)[1] == ["Insufficient cpu", "Insufficient hugepages-2Mi"]


def test_nodes_that_lack_the_same_share_one_status(snapshot_of: Callable[..., Snapshot]) -> None:
    """There are as many statuses as combinations of reasons, however many nodes there are."""
    nodes = snapshot_of(
        [
            make_node(f"n{number}", allocatable={"cpu": str(number % 3), "memory": f"{number % 2}Gi"})
            for number in range(60)
        ]
    ).nodes
    plugin, state, pod = NodeResourcesFit(), CycleState(), make_pod("p", requests={"cpu": "2", "memory": "1Gi"})
    plugin.pre_filter(state, pod, nodes)
    statuses = plugin.filter_nodes(state, pod, nodes)
    assert sorted((status.message, number) for status, number in statuses.counts()) == [
        ("Insufficient cpu", 20),
        ("Insufficient cpu, Insufficient memory", 20),
        ("Insufficient memory", 10),
    ]
    assert set(statuses.rows_with(Code.SUCCESS)) == {nodes.index(f"n{number}") for number in range(5, 60, 6)}


WAITING = make_pod("p", requests={"cpu": "1"})


def sized(name: str, cpu: str, memory: str = "1Gi", *, node_name: str = "n", nominated: str = "") -> Pod:
    """Make a pod that asks for so much."""
    requests, status = {"cpu": cpu, "memory": memory}, {"nominatedNodeName": nominated}
    return make_pod(name, node_name=node_name, requests=requests, status=status)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(sized("q", "1"), None, QueueingHint.QUEUE, id="deleted"),
        pytest.param(sized("q", "1", node_name="", nominated="n"), None, QueueingHint.QUEUE, id="nomination deleted"),
        pytest.param(sized("q", "1", node_name=""), None, QueueingHint.SKIP, id="a waiting pod deleted"),
        pytest.param(sized("q", "2"), sized("q", "1"), QueueingHint.QUEUE, id="less CPU"),
        pytest.param(sized("q", "1", "2Gi"), sized("q", "1"), QueueingHint.SKIP, id="less of what it does not ask for"),
        pytest.param(sized("q", "1"), sized("q", "1"), QueueingHint.SKIP, id="no less"),
        pytest.param(sized("q", "2", node_name=""), sized("q", "1", node_name=""), QueueingHint.SKIP, id="not placed"),
        pytest.param(
            sized("p", "2", node_name=""), sized("p", "1", node_name=""), QueueingHint.QUEUE, id="the pod itself"
        ),
    ],
)
def test_a_pod_that_gives_something_back_wakes_pods(old: Pod, new: Pod | None, expected: QueueingHint) -> None:
    """A pod helps that leaves its node, or gives back some of what the waiting pod asks for."""
    assert NodeResourcesFit().after_pod_change(WAITING, old, new) is expected


@pytest.mark.parametrize(
    ("requests", "old", "new", "expected"),
    [
        pytest.param({"cpu": "2"}, None, node_of(), QueueingHint.QUEUE, id="a new node, large enough"),
        pytest.param({"cpu": "3"}, None, node_of(), QueueingHint.SKIP, id="a new node, too small"),
        pytest.param({GPU: "1"}, None, node_of(), QueueingHint.SKIP, id="a new node without the resource"),
        pytest.param({}, None, node_of(pods="0"), QueueingHint.SKIP, id="a new node that takes no pods"),
        pytest.param({"cpu": "2"}, node_of(cpu="1"), node_of(), QueueingHint.QUEUE, id="grown"),
        pytest.param({GPU: "1"}, node_of(), node_of(gpu="1"), QueueingHint.QUEUE, id="grown in an extended resource"),
        pytest.param({"cpu": "2"}, node_of(memory="1Gi"), node_of(), QueueingHint.SKIP, id="grown elsewhere"),
        pytest.param({"cpu": "2"}, node_of(), node_of(), QueueingHint.SKIP, id="not grown"),
        pytest.param({}, node_of(pods="1"), node_of(), QueueingHint.QUEUE, id="takes more pods"),
        pytest.param({}, node_of(cpu="1"), node_of(), QueueingHint.SKIP, id="nothing asked for"),
    ],
)
def test_a_node_that_grows_wakes_pods(
    requests: Mapping[str, str], old: Node | None, new: Node, expected: QueueingHint
) -> None:
    """A node helps that, empty, could take the pod, and that is new or offers more of what the pod asks for."""
    plugin, pod = NodeResourcesFit(), make_pod("p", requests=requests)
    assert plugin.after_node_change(pod, old, new) is expected
    assert plugin.after_node_change(pod, old, new) is expected, "what the plugin remembers of the nodes is the same"


def test_an_unknown_strategy_is_a_configuration_error() -> None:
    """A profile whose strategy does not exist is refused when it is built."""
    with pytest.raises(ConfigError, match="scoring strategy Tetris is not supported"):
        NodeResourcesFit(NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type="Tetris")))

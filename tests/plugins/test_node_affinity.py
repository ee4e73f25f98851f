"""NodeAffinity: demands and wishes about nodes, the pod's and the profile's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.api import (
    Node,
    NodeAffinity as Affinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PreferredSchedulingTerm,
    SelectorError,
)
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import Code, ConfigError, CycleState, PreFilterResult, QueueingHint
from pyscheduler.framework.in_tree_args import NodeAffinityArgs
from pyscheduler.plugins.node_affinity import NodeAffinity
from pyscheduler.testing.builders import make_node, make_pod

NODES = [make_node("a1", labels={"zone": "a"}), make_node("a2", labels={"zone": "a", "disk": "ssd"}), make_node("b1")]


def term(key: str, *values: str, operator: str = "In") -> NodeSelectorTerm:
    """Make a term of one requirement on a label."""
    return NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(key=key, operator=operator, values=values),))


def added(*terms: NodeSelectorTerm, wishes: tuple[PreferredSchedulingTerm, ...] = ()) -> NodeAffinityArgs:
    """Make args that add demands and wishes to every pod."""
    required = NodeSelector(node_selector_terms=terms) if terms else None
    return NodeAffinityArgs(
        added_affinity=Affinity(
            required_during_scheduling_ignored_during_execution=required,
            preferred_during_scheduling_ignored_during_execution=wishes,
        )
    )


def named(*terms: list[list[str]]) -> Pod:
    """Make a pod with one affinity term per argument; each lists the names of one requirement after the other."""
    required = {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": names} for names in term]}
            for term in terms
        ]
    }
    return make_pod("p", affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})


def reasons(plugin: NodeAffinity, pod: Pod, snapshot: Snapshot) -> dict[str, str]:
    """Return why each node is refused; all of them are unresolvable."""
    state, nodes = CycleState(), snapshot.nodes
    plugin.pre_filter(state, pod, nodes)
    statuses = plugin.filter_nodes(state, pod, nodes)
    found = {} if statuses is None else {nodes.name(row): statuses.status(row) for row in range(len(nodes))}
    assert {status.code for status in found.values() if status} <= {Code.UNSCHEDULABLE_AND_UNRESOLVABLE}
    return {name: status.message for name, status in found.items() if status}


UNMATCHED = "node(s) didn't match Pod's node affinity/selector"
ENFORCED = "node(s) didn't match scheduler-enforced node affinity"


def test_a_pod_without_demands_is_skipped(snapshot_of: Callable[..., Snapshot]) -> None:
    """Nothing is worked out for pods that may run anywhere, unless the profile demands something."""
    nodes = snapshot_of(NODES).nodes
    assert NodeAffinity().pre_filter(CycleState(), make_pod("p"), nodes).is_skip
    assert NodeAffinity(added(term("zone", "a"))).pre_filter(CycleState(), make_pod("p"), nodes) is None


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param([[["a1"]]], {"a1"}, id="one name"),
        pytest.param([[["a1", "a2"], ["a2", "b1"]]], {"a2"}, id="requirements of a term are intersected"),
        pytest.param([[["a1"]], []], None, id="an alternative without names may be any node"),
    ],
)
def test_names_narrow_the_nodes(
    terms: list[list[list[str]]], expected: set[str] | None, snapshot_of: Callable[..., Snapshot]
) -> None:
    """Where every term names its nodes, filters look at no others."""
    result = NodeAffinity().pre_filter(CycleState(), named(*terms), snapshot_of(NODES).nodes)
    assert result == (PreFilterResult(frozenset(expected)) if expected is not None else None)


def test_contradictory_names_reject_the_pod(snapshot_of: Callable[..., Snapshot]) -> None:
    """Terms that no node can meet are reported once, not per node."""
    status = NodeAffinity().pre_filter(CycleState(), named([["a1"], ["b1"]]), snapshot_of(NODES).nodes)
    assert (status.code, status.reasons) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("pod affinity terms conflict",))


@pytest.mark.parametrize(
    ("args", "selector", "expected"),
    [
        pytest.param(added(term("disk", "ssd")), {}, {"a1": ENFORCED, "b1": ENFORCED}, id="the profile's"),
        pytest.param(
            added(term("disk", operator="DoesNotExist")),
            {"zone": "a"},
            {"a2": ENFORCED, "b1": UNMATCHED},
            id="both; the profile's is named first",
        ),
    ],
)
def test_demands_refuse_nodes(
    args: NodeAffinityArgs | None,
    selector: dict[str, str],
    expected: dict[str, str],
    snapshot_of: Callable[..., Snapshot],
) -> None:
    """The reason says whose demand it is."""
    assert reasons(NodeAffinity(args), make_pod("p", node_selector=selector), snapshot_of(NODES)) == expected


def test_filter_without_pre_filter(snapshot_of: Callable[..., Snapshot]) -> None:
    """A profile may disable PreFilter; Filter then works the demands out itself."""
    pod = make_pod("p", node_selector={"zone": "a"})
    statuses = NodeAffinity().filter_nodes(CycleState(), pod, snapshot_of(NODES).nodes)
    assert statuses.passed().sum() == 2


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(added(term("zone", operator="Near")), id="required"),
        pytest.param(
            added(wishes=(PreferredSchedulingTerm(weight=1, preference=term("zone", "x", operator="Gt")),)),
            id="preferred",
        ),
    ],
)
def test_bad_args_are_a_configuration_error(args: NodeAffinityArgs) -> None:
    """A profile whose addedAffinity does not parse is refused when it is built."""
    with pytest.raises(ConfigError, match="@ addedAffinity of plugin NodeAffinity"):
        NodeAffinity(args)


IN_A = make_pod("p", node_selector={"zone": "a"})


@pytest.mark.parametrize(
    ("args", "pod", "old", "new", "expected"),
    [
        pytest.param(None, IN_A, None, NODES[0], QueueingHint.QUEUE, id="a new node that matches"),
        pytest.param(None, IN_A, None, NODES[2], QueueingHint.SKIP, id="a new node that does not"),
        pytest.param(None, IN_A, NODES[2], NODES[0], QueueingHint.QUEUE, id="it matches now"),
        pytest.param(None, IN_A, NODES[0], NODES[1], QueueingHint.SKIP, id="it matched before"),
        pytest.param(None, IN_A, NODES[0], NODES[2], QueueingHint.SKIP, id="it matches no longer"),
        pytest.param(added(term("disk", "ssd")), IN_A, None, NODES[0], QueueingHint.SKIP, id="the profile forbids it"),
        pytest.param(added(term("disk", "ssd")), IN_A, None, NODES[1], QueueingHint.QUEUE, id="the profile allows it"),
    ],
)
def test_a_node_wakes_pods_that_it_matches_now(
    args: NodeAffinityArgs | None, pod: Pod, old: Node | None, new: Node, expected: QueueingHint
) -> None:
    """A change helps if the node did not match the pod's demands before and does now."""
    assert NodeAffinity(args).after_node_change(pod, old, new) is expected


@pytest.mark.parametrize(
    ("selector", "terms", "old", "new", "expected"),
    [
        pytest.param({}, ["x"], None, NODES[0], None, id="the only term cannot be read"),
        pytest.param({}, ["x", "a"], NODES[2], NODES[0], None, id="another term matches now, none did before"),
        pytest.param({}, ["x", "a"], None, NODES[0], QueueingHint.QUEUE, id="another term matches a new node"),
        pytest.param({}, ["x", "a"], NODES[0], NODES[1], QueueingHint.SKIP, id="another term matched before"),
        pytest.param({"disk": "ssd"}, ["x"], None, NODES[0], QueueingHint.SKIP, id="the selector decides it"),
    ],
)
def test_a_term_that_does_not_parse_leaves_the_hint_open(
    selector: dict[str, str], terms: list[str], old: Node | None, new: Node, expected: QueueingHint | None
) -> None:
    """The API server takes `Gt` with a value that is no number; where it hangs on that, the pod is tried again."""
    operators = {"x": "Gt", "a": "In"}
    alternatives = [
        {"matchExpressions": [{"key": "zone", "operator": operators[value], "values": [value]}]} for value in terms
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": alternatives}}
    pod = make_pod("p", node_selector=selector, affinity={"nodeAffinity": required})
    if expected is not None:
        assert NodeAffinity().after_node_change(pod, old, new) is expected
        return
    with pytest.raises(SelectorError, match="the value must be an integer"):
        NodeAffinity().after_node_change(pod, old, new)

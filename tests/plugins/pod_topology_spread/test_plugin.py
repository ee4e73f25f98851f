"""PodTopologySpread: which nodes it refuses and prefers, when it bows out, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyscheduler.api import Node, ObjectMeta, Pod, Service, ServiceSpec, TopologySpreadConstraint
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import ActionType, ClusterEvent, CycleState, NodeInfo, PodInfo, QueueingHint, Status
from pyscheduler.framework.in_tree_args import PodTopologySpreadArgs
from pyscheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from pyscheduler.testing.builders import make_node, make_pod
from tests.plugins.pod_topology_spread.spreading import ZONE, constraint_of, spread_pod, terminating
from tests.plugins.reading_handle import ReadingHandle

SnapshotOf = Callable[..., Snapshot]

SOFT = {"whenUnsatisfiable": "ScheduleAnyway"}
BAD = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Perhaps"}]}}
NODES = [make_node(name, labels={ZONE: zone}) for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"))]


def placed(*node_names: str, **keywords: Any) -> list[Pod]:
    """Place pods of `app: a` on nodes."""
    return [spread_pod(f"q{number}", node_name=name, **keywords) for number, name in enumerate(node_names)]


def refused(pod: Pod, snapshot: Snapshot) -> dict[str, Status]:
    """Return the status of each node that is refused."""
    plugin, state, view = PodTopologySpread(None, ReadingHandle(snapshot)), CycleState(), snapshot.nodes
    assert plugin.pre_filter(state, pod, view) is None
    statuses = plugin.filter_nodes(state, pod, view)
    found = [statuses.status(row) if statuses is not None else None for row in range(len(view))]
    return {view.name(row): status for row, status in enumerate(found) if status is not None}


@pytest.mark.parametrize(
    ("fields", "pods", "names"),
    [
        pytest.param({"labelSelector": {}}, placed("a1", "a1"), set(), id="an empty selector counts nobody"),
        pytest.param({"matchLabelKeys": ["absent"]}, placed("a1"), {"a1", "a2"}, id="a key that the pod lacks"),
    ],
)  # fmt: skip
def test_what_counts(fields: dict[str, Any], pods: list[Pod], names: set[str], snapshot_of: SnapshotOf) -> None:
    """A constraint refuses exactly these nodes."""
    pod = spread_pod("p", constraint_of(**fields), labels={"app": "a", "version": "2"})
    assert refused(pod, snapshot_of(NODES, pods)).keys() == names


@pytest.mark.parametrize(
    ("method", "fields", "message"),
    [
        pytest.param("pre_filter", {}, "get constraints from pod: obtaining pod's hard", id="hard"),
        pytest.param("pre_score", SOFT, "calculating preScoreState: obtaining pod's soft", id="soft"),
    ],
)
def test_a_selector_that_does_not_parse_is_an_error(
    method: str, fields: dict[str, str], message: str, snapshot_of: SnapshotOf
) -> None:
    """The error says where it comes from; the pod is not placed as if the constraint were not there."""
    snapshot = snapshot_of(NODES)
    plugin = PodTopologySpread(None, ReadingHandle(snapshot))
    status = getattr(plugin, method)(CycleState(), spread_pod("p", constraint_of(**fields, **BAD)), snapshot.nodes)
    assert status.is_error
    rest = ' topology spread constraints: "Perhaps" is not a valid label selector operator'
    assert status.message == message + rest


def test_match_label_keys_hang_on_their_gate(snapshot_of: SnapshotOf) -> None:
    """With MatchLabelKeysInPodTopologySpread off, pods of other versions count."""
    snapshot = snapshot_of(NODES, placed("a1"))
    pod = spread_pod("p", constraint_of(matchLabelKeys=["version"]), labels={"app": "a", "version": "2"})
    handle = ReadingHandle(snapshot)
    handle.feature_gates = {"MatchLabelKeysInPodTopologySpread": False}
    plugin, state = PodTopologySpread(None, handle), CycleState()
    assert plugin.pre_filter(state, pod, snapshot.nodes) is None
    assert plugin.filter_nodes(state, pod, snapshot.nodes) is not None


def test_what_ifs_follow_kube_schedulers_counting(snapshot_of: SnapshotOf) -> None:
    """AddPod and RemovePod do not ask whether a pod is being deleted, nor whether the selector is empty."""
    snapshot = snapshot_of(NODES)
    plugin, node = PodTopologySpread(None, ReadingHandle(snapshot)), snapshot.get("a1")
    for pod, other in [
        (spread_pod("p", constraint_of()), terminating(placed("a1")[0])),
        (spread_pod("p", constraint_of(labelSelector={})), placed("a1", labels={"x": "y"})[0]),
    ]:
        state = CycleState()
        plugin.pre_filter(state, pod, snapshot.nodes)
        plugin.add_pod(state, pod, PodInfo.of(other), node)
        assert plugin.filter_nodes(state, pod, snapshot.nodes).codes.tolist() == [2, 2, 0]
        plugin.remove_pod(state, pod, PodInfo.of(other), node)
        assert plugin.filter_nodes(state, pod, snapshot.nodes) is None


def test_what_ifs_on_nodes_that_do_not_count_change_nothing(snapshot_of: SnapshotOf) -> None:
    """A node that the pod may not use, one in no domain, one that the snapshot does not know, another namespace."""
    snapshot = snapshot_of([*NODES, make_node("bare")])
    plugin, state = PodTopologySpread(None, ReadingHandle(snapshot)), CycleState()
    pod = spread_pod("p", constraint_of(), node_selector={ZONE: "a"})
    plugin.pre_filter(state, pod, snapshot.nodes)
    other = PodInfo.of(placed("b1")[0])
    unknown = NodeInfo.of(make_node("new", labels={ZONE: "c"}))
    for node in (snapshot.get("b1"), snapshot.get("bare"), unknown, NodeInfo()):
        plugin.add_pod(state, pod, other, node)
    plugin.add_pod(state, pod, PodInfo.of(placed("a1", namespace="other")[0]), snapshot.get("a1"))
    anywhere, state_of_anywhere = spread_pod("p", constraint_of()), CycleState()
    plugin.pre_filter(state_of_anywhere, anywhere, snapshot.nodes)
    plugin.add_pod(state_of_anywhere, anywhere, other, unknown)
    some = snapshot.nodes.take(np.arange(3))
    assert plugin.filter_nodes(state, pod, some) is None
    assert plugin.filter_nodes(state_of_anywhere, anywhere, some) is None


def test_pods_are_not_signed_where_their_likes_matter() -> None:
    """Neither with constraints of their own nor with the profile's; without any they are."""
    pod, plain = spread_pod("p", constraint_of()), make_pod("q")
    unspread = PodTopologySpread(PodTopologySpreadArgs(defaulting_type="List"), ReadingHandle())
    assert unspread.sign_pod(plain) == ()
    assert unspread.sign_pod(pod).message == "pods with topology constraints are not signable"
    default = PodTopologySpread(None, ReadingHandle())
    assert default.sign_pod(plain).message == "pods with default topology constraints are not signable"


# --- waking pods ----------------------------------------------------------------------------------------------------

WAITING = spread_pod("p", constraint_of(), constraint_of(topologyKey="rack", nodeTaintsPolicy="Honor"))
TOLERANT = spread_pod(
    "p", *(constraint_of(nodeTaintsPolicy=policy) for policy in ("Honor", "Ignore")), tolerations=[{"key": "t"}]
)
COUNTED, UNCOUNTED = placed("a1")[0], placed("a1", labels={"app": "b"})[0]
QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, COUNTED, QUEUE, id="a pod that counts came"),
        pytest.param(COUNTED, None, QUEUE, id="or went"),
        pytest.param(None, UNCOUNTED, SKIP, id="a pod that does not count came"),
        pytest.param(UNCOUNTED, COUNTED, QUEUE, id="a pod begins to count"),
        pytest.param(COUNTED, COUNTED, SKIP, id="nothing changed"),
        pytest.param(None, spread_pod("other"), SKIP, id="a pod without a node"),
        pytest.param(None, spread_pod("other", status={"nominatedNodeName": "a1"}), QUEUE, id="a nominated pod"),
        pytest.param(None, placed("a1", namespace="other")[0], SKIP, id="another namespace"),
        pytest.param(WAITING, TOLERANT, QUEUE, id="the pod itself tolerates more"),
        pytest.param(COUNTED, placed("a1", tolerations=[{"key": "t"}])[0], SKIP, id="another pod tolerates more"),
    ],
)
def test_changes_of_pods_wake(old: Pod | None, new: Pod | None, expected: QueueingHint) -> None:
    """A pod that begins or ceases to count may even things out."""
    assert PodTopologySpread(None, ReadingHandle()).after_pod_change(WAITING, old, new) is expected


IN_ZONE = make_node("n", labels={ZONE: "a", "rack": "r"})
MOVED = make_node("n", labels={ZONE: "b", "rack": "r"})
TAINTED = make_node("n", labels={ZONE: "a", "rack": "r"}, taints=[{"key": "t", "effect": "NoSchedule"}])
RACKLESS = make_node("n", labels={ZONE: "a"})
RACKLESS_MOVED = make_node("n", labels={ZONE: "b"})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, IN_ZONE, QUEUE, id="a node in domains came"),
        pytest.param(IN_ZONE, None, QUEUE, id="or went"),
        pytest.param(None, RACKLESS, SKIP, id="a node that lacks a key came"),
        pytest.param(RACKLESS, None, SKIP, id="or went "),
        pytest.param(RACKLESS, IN_ZONE, QUEUE, id="it got the key"),
        pytest.param(IN_ZONE, RACKLESS, QUEUE, id="it lost the key"),
        pytest.param(IN_ZONE, MOVED, QUEUE, id="it changed domains"),
        pytest.param(IN_ZONE, TAINTED, QUEUE, id="its taints changed"),
        pytest.param(IN_ZONE, IN_ZONE, SKIP, id="nothing changed"),
        pytest.param(RACKLESS, RACKLESS_MOVED, SKIP, id="it is in no domain of both"),
    ],
)
def test_changes_of_nodes_wake(old: Node | None, new: Node | None, expected: QueueingHint) -> None:
    """A node that enters, leaves or changes its domains may even things out."""
    assert PodTopologySpread(None, ReadingHandle()).after_node_change(WAITING, old, new) is expected


def test_the_events_are_those_of_pods_and_nodes() -> None:
    """Allocatable amounts and the like are no concern."""
    pods, nodes = (each.event for each in PodTopologySpread(None, ReadingHandle()).events_to_register())
    assert pods.matches(ClusterEvent("AssignedPod", ActionType.UPDATE_POD_LABEL))
    assert not pods.matches(ClusterEvent("AssignedPod", ActionType.UPDATE_POD_SCALE_DOWN))
    assert nodes.matches(ClusterEvent("Node", ActionType.DELETE))
    assert not nodes.matches(ClusterEvent("Node", ActionType.UPDATE_NODE_ALLOCATABLE))


def test_listed_constraints_stand_in_for_missing_ones(snapshot_of: SnapshotOf) -> None:
    """With `defaultingType: List` a profile can forbid nodes to pods without constraints, if their owner is known."""
    service = Service(metadata=ObjectMeta(name="s", namespace="default"), spec=ServiceSpec(selector={"app": "a"}))
    snapshot = snapshot_of(NODES, placed("a1"))
    hard = TopologySpreadConstraint(max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule")
    args = PodTopologySpreadArgs(defaulting_type="List", default_constraints=(hard,))
    plugin, state = PodTopologySpread(args, ReadingHandle(snapshot, [service])), CycleState()
    assert plugin.pre_filter(state, spread_pod("p"), snapshot.nodes) is None
    assert plugin.filter_nodes(state, spread_pod("p"), snapshot.nodes).codes.tolist() == [2, 2, 0]
    assert plugin.pre_filter(CycleState(), make_pod("p", labels={"app": "b"}), snapshot.nodes).is_skip
    assert plugin.pre_score(CycleState(), spread_pod("p"), snapshot.nodes).is_skip

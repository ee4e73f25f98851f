"""PodTopologySpread: which nodes it refuses and prefers, when it bows out, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyscheduler.api import Node, ObjectMeta, Pod, Service, ServiceSpec, TopologySpreadConstraint
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import ActionType, ClusterEvent, Code, CycleState, NodeInfo, PodInfo, QueueingHint, Status
from pyscheduler.framework.plugin_args import PodTopologySpreadArgs
from pyscheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from pyscheduler.plugins.pod_topology_spread.scoring import normalize
from pyscheduler.testing.builders import make_node, make_pod
from tests.plugins.pod_topology_spread.spreading import HOST, ZONE, SpreadHandle, constraint_of, spread_pod, terminating

SnapshotOf = Callable[..., Snapshot]

SKEWED = "node(s) didn't match pod topology spread constraints"
MISSING = "node(s) didn't match pod topology spread constraints (missing required label)"
SOFT = {"whenUnsatisfiable": "ScheduleAnyway"}
BAD = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Perhaps"}]}}
NODES = [make_node(name, labels={ZONE: zone}) for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"))]


def placed(*node_names: str, **keywords: Any) -> list[Pod]:
    """Place pods of `app: a` on nodes."""
    return [spread_pod(f"q{number}", node_name=name, **keywords) for number, name in enumerate(node_names)]


def refused(pod: Pod, snapshot: Snapshot) -> dict[str, Status]:
    """Return the status of each node that is refused."""
    plugin, state, view = PodTopologySpread(None, SpreadHandle(snapshot)), CycleState(), snapshot.nodes
    assert plugin.pre_filter(state, pod, view) is None
    statuses = plugin.filter_nodes(state, pod, view)
    found = [statuses.status(row) if statuses is not None else None for row in range(len(view))]
    return {view.name(row): status for row, status in enumerate(found) if status is not None}


def scores(pod: Pod, snapshot: Snapshot, names: list[str] | None = None) -> list[dict[str, int]]:
    """Return raw and normalised scores of some nodes, all by default."""
    plugin, state, view = PodTopologySpread(None, SpreadHandle(snapshot)), CycleState(), snapshot.nodes
    if names is not None:
        view = view.take(np.array([view.index(name) for name in names], dtype=np.int64))
    assert plugin.pre_score(state, pod, view) is None
    raw = plugin.score_nodes(state, pod, view)
    normalized = raw.copy()
    plugin.normalize_scores(state, pod, normalized)
    return [{view.name(row): score for row, score in enumerate(each.tolist())} for each in (raw, normalized)]


def test_nodes_in_the_fuller_domain_are_refused(snapshot_of: SnapshotOf) -> None:
    """A pod more in zone a would be two ahead of zone b; preemption may help."""
    found = refused(spread_pod("p", constraint_of()), snapshot_of(NODES, placed("a1")))
    assert found.keys() == {"a1", "a2"}
    assert {(status.code, status.message) for status in found.values()} == {(Code.UNSCHEDULABLE, SKEWED)}


def test_a_node_without_the_label_is_refused_for_good(snapshot_of: SnapshotOf) -> None:
    """It is in no domain, and no preemption gives it a label."""
    found = refused(spread_pod("p", constraint_of()), snapshot_of([*NODES, make_node("bare")]))
    assert {name: (status.code, status.message) for name, status in found.items()} == {
        "bare": (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, MISSING)
    }


@pytest.mark.parametrize(
    ("fields", "pods", "names"),
    [
        pytest.param({}, [], set(), id="empty domains are even"),
        pytest.param({"maxSkew": 2}, placed("a1"), set(), id="within the skew"),
        pytest.param({"minDomains": 3, "maxSkew": 1}, placed("a1", "b1"), {"a1", "a2", "b1"}, id="too few domains"),
        pytest.param({"minDomains": 2, "maxSkew": 1}, placed("a1", "b1"), set(), id="domains enough"),
        pytest.param({}, placed("a1", namespace="other"), set(), id="pods of other namespaces do not count"),
        pytest.param({}, placed("a1", labels={"app": "b"}), set(), id="other pods do not count"),
        pytest.param({}, [terminating(each) for each in placed("a1")], set(), id="nor those being deleted"),
        pytest.param({"labelSelector": {}}, placed("a1", "a1"), set(), id="an empty selector counts nobody"),
        pytest.param({"labelSelector": None}, placed("a1", "a1"), set(), id="nor does none"),
        pytest.param({"labelSelector": {"matchLabels": {"app": "b"}}}, placed("a1", labels={"app": "b"}), set(),
                     id="a pod that is not one of those it counts adds nothing"),
        pytest.param({"topologyKey": HOST}, placed("a1"), {"a1"}, id="hosts as domains"),
        pytest.param({"matchLabelKeys": ["version"]}, placed("a1"), set(), id="other versions do not count"),
        pytest.param({"matchLabelKeys": ["absent"]}, placed("a1"), {"a1", "a2"}, id="a key that the pod lacks"),
    ],
)  # fmt: skip
def test_what_counts(fields: dict[str, Any], pods: list[Pod], names: set[str], snapshot_of: SnapshotOf) -> None:
    """A constraint refuses exactly these nodes."""
    pod = spread_pod("p", constraint_of(**fields), labels={"app": "a", "version": "2"})
    assert refused(pod, snapshot_of(NODES, pods)).keys() == names


@pytest.mark.parametrize(
    ("policy", "names"),
    [
        pytest.param({}, set(), id="affinity is honoured: the other zone does not count"),
        pytest.param({"nodeAffinityPolicy": "Ignore"}, {"a1", "a2"}, id="affinity ignored: the other zone is empty"),
    ],
)
def test_nodes_that_the_pod_demands_make_the_domains(
    policy: dict[str, str], names: set[str], snapshot_of: SnapshotOf
) -> None:
    """Under the policy Honor, two pods in the only zone that the pod may use are no skew."""
    pod = spread_pod("p", constraint_of(**policy), node_selector={ZONE: "a"})
    assert refused(pod, snapshot_of(NODES, placed("a1", "a2"))).keys() == names


def test_tainted_nodes_count_as_the_policy_says(snapshot_of: SnapshotOf) -> None:
    """By default an empty tainted zone holds pods back; under Honor only where the pod could use it."""
    tainted = make_node("c1", labels={ZONE: "c"}, taints=[{"key": "t", "effect": "NoSchedule"}])
    snapshot = snapshot_of([*NODES, tainted], placed("a1", "b1"))
    honoring = constraint_of(nodeTaintsPolicy="Honor")
    assert refused(spread_pod("p", constraint_of()), snapshot).keys() == {"a1", "a2", "b1"}
    assert refused(spread_pod("p", honoring), snapshot).keys() == set()
    tolerant = spread_pod("p", honoring, tolerations=[{"key": "t", "operator": "Exists"}])
    assert refused(tolerant, snapshot).keys() == {"a1", "a2", "b1"}


def test_every_hard_constraint_must_hold_and_the_first_broken_one_is_told(snapshot_of: SnapshotOf) -> None:
    """Nodes lacking any of the keys make no domains for the others either."""
    pod = spread_pod("p", constraint_of(), constraint_of(topologyKey="rack"))
    snapshot = snapshot_of([*NODES[:2], make_node("b1", labels={ZONE: "b", "rack": "r"})], placed("a1", "b1", "b1"))
    found = refused(pod, snapshot)
    assert {name: status.message for name, status in found.items()} == {"a1": MISSING, "a2": MISSING}


def test_pods_without_constraints_of_a_kind_are_skipped(snapshot_of: SnapshotOf) -> None:
    """PreFilter looks for hard constraints, PreScore for soft ones; without nodes there is nothing to score."""
    snapshot = snapshot_of(NODES)
    plugin = PodTopologySpread(None, SpreadHandle(snapshot))
    hard, soft, plain = spread_pod("h", constraint_of()), spread_pod("s", constraint_of(**SOFT)), make_pod("p")
    outcomes = [plugin.pre_filter(CycleState(), pod, snapshot.nodes) for pod in (hard, soft, plain)]
    assert [outcome is not None and outcome.is_skip for outcome in outcomes] == [False, True, True]
    outcomes = [plugin.pre_score(CycleState(), pod, snapshot.nodes) for pod in (hard, soft, plain)]
    assert [outcome is not None and outcome.is_skip for outcome in outcomes] == [True, False, True]


def test_emptier_domains_score_higher(snapshot_of: SnapshotOf) -> None:
    """One pod in zone a weighs log 4, since there are two zones; the empty zone gets 100."""
    raw, normalized = scores(spread_pod("p", constraint_of(**SOFT)), snapshot_of(NODES, placed("a1", "a1", "a1")))
    assert raw == {"a1": 4, "a2": 4, "b1": 0}
    assert normalized == {"a1": 0, "a2": 0, "b1": 100}


def test_only_domains_of_candidates_weigh(snapshot_of: SnapshotOf) -> None:
    """Where one zone is left, its pods weigh log 3."""
    pod, snapshot = spread_pod("p", constraint_of(**SOFT)), snapshot_of(NODES, placed("a1", "a1", "a1"))
    assert scores(pod, snapshot, ["a2", "a1"]) == [{"a2": 3, "a1": 3}, {"a2": 100, "a1": 100}]


def test_candidates_that_lack_a_key_score_nothing(snapshot_of: SnapshotOf) -> None:
    """They get 0 and do not move the others' scores; where all lack it, all get 0."""
    snapshot = snapshot_of([*NODES, make_node("bare")], placed("a1", "bare"))
    pod = spread_pod("p", constraint_of(**SOFT))
    assert scores(pod, snapshot)[1] == {"a1": 0, "a2": 0, "b1": 100, "bare": 0}
    assert scores(pod, snapshot, ["bare"]) == [{"bare": 0}, {"bare": 0}]


def test_a_wider_skew_waters_differences_down(snapshot_of: SnapshotOf) -> None:
    """Every node gets maxSkew less one on top."""
    raw, normalized = scores(spread_pod("p", constraint_of(**SOFT, maxSkew=5)), snapshot_of(NODES, placed("a1")))
    assert raw == {"a1": 5, "a2": 5, "b1": 4}
    assert normalized == {"a1": 80, "a2": 80, "b1": 100}


def test_scores_without_differences_are_full() -> None:
    """All zero becomes 100, also beside nodes that get none; nothing to score is fine."""
    given = np.zeros(3, dtype=np.int64)
    normalize(given, np.array([False, True, False]))
    assert given.tolist() == [100, 0, 100]
    normalize(np.zeros(0, dtype=np.int64), None)


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
    plugin = PodTopologySpread(None, SpreadHandle(snapshot))
    status = getattr(plugin, method)(CycleState(), spread_pod("p", constraint_of(**fields, **BAD)), snapshot.nodes)
    assert status.is_error
    rest = ' topology spread constraints: "Perhaps" is not a valid label selector operator'
    assert status.message == message + rest


def test_match_label_keys_hang_on_their_gate(snapshot_of: SnapshotOf) -> None:
    """With MatchLabelKeysInPodTopologySpread off, pods of other versions count."""
    snapshot = snapshot_of(NODES, placed("a1"))
    pod = spread_pod("p", constraint_of(matchLabelKeys=["version"]), labels={"app": "a", "version": "2"})
    handle = SpreadHandle(snapshot)
    handle.feature_gates = {"MatchLabelKeysInPodTopologySpread": False}
    plugin, state = PodTopologySpread(None, handle), CycleState()
    assert plugin.pre_filter(state, pod, snapshot.nodes) is None
    assert plugin.filter_nodes(state, pod, snapshot.nodes) is not None


def test_what_ifs_follow_kube_schedulers_counting(snapshot_of: SnapshotOf) -> None:
    """AddPod and RemovePod do not ask whether a pod is being deleted, nor whether the selector is empty."""
    snapshot = snapshot_of(NODES)
    plugin, node = PodTopologySpread(None, SpreadHandle(snapshot)), snapshot.get("a1")
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
    plugin, state = PodTopologySpread(None, SpreadHandle(snapshot)), CycleState()
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
    unspread = PodTopologySpread(PodTopologySpreadArgs(defaulting_type="List"), SpreadHandle())
    assert unspread.sign_pod(plain) == ()
    assert unspread.sign_pod(pod).message == "pods with topology constraints are not signable"
    default = PodTopologySpread(None, SpreadHandle())
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
    assert PodTopologySpread(None, SpreadHandle()).after_pod_change(WAITING, old, new) is expected


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
    assert PodTopologySpread(None, SpreadHandle()).after_node_change(WAITING, old, new) is expected


def test_the_events_are_those_of_pods_and_nodes() -> None:
    """Allocatable amounts and the like are no concern."""
    pods, nodes = (each.event for each in PodTopologySpread(None, SpreadHandle()).events_to_register())
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
    plugin, state = PodTopologySpread(args, SpreadHandle(snapshot, [service])), CycleState()
    assert plugin.pre_filter(state, spread_pod("p"), snapshot.nodes) is None
    assert plugin.filter_nodes(state, spread_pod("p"), snapshot.nodes).codes.tolist() == [2, 2, 0]
    assert plugin.pre_filter(CycleState(), make_pod("p", labels={"app": "b"}), snapshot.nodes).is_skip
    assert plugin.pre_score(CycleState(), spread_pod("p"), snapshot.nodes).is_skip

"""Columns against nodes: what a plugin answers for all nodes at once is what it would answer for each alone.

Each plugin's rule is written down here once more, for one node, in the plainest way; random clusters, seen whole and in
part, are then judged both ways.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from hypothesis import given, strategies as st

from pyscheduler.api import (
    Node,
    Pod,
    Taint,
    compile_preferred_terms,
    find_untolerated,
    host_ports,
    pod_requests,
    required_node_affinity,
    tolerates,
)
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import CycleState, NodeInfo, Nodes, Plugin, PodInfo, PreFilterPlugin, PreScorePlugin
from pyscheduler.framework.in_tree_args import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    RequestedToCapacityRatio,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from pyscheduler.framework.scoring import broken_linear
from pyscheduler.plugins.image_locality import ImageLocality
from pyscheduler.plugins.node_affinity import NodeAffinity
from pyscheduler.plugins.node_declared_features import NodeDeclaredFeatures
from pyscheduler.plugins.node_name import NodeName
from pyscheduler.plugins.node_ports import NodePorts
from pyscheduler.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from pyscheduler.plugins.node_resources.fit import NodeResourcesFit
from pyscheduler.plugins.node_unschedulable import NodeUnschedulable
from pyscheduler.plugins.taint_toleration import TaintToleration

MIB = 1024 * 1024
CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
RESOURCES = (
    ResourceSpec("cpu", 3),
    ResourceSpec("memory", 1),
    ResourceSpec("ephemeral-storage", 2),
    ResourceSpec("example.com/gpu", 5),
)
SHAPE = (UtilizationShapePoint(0, 2), UtilizationShapePoint(30, 10), UtilizationShapePoint(97, 0))


# --- random clusters ------------------------------------------------------------------------------------------------

KEYS = st.sampled_from(["zone", "disk", "rank"])
VALUES = st.sampled_from(["a", "b", "1", "2", "10", ""])
NODE_NAMES = [f"n{number}" for number in range(6)]
FEATURES = st.lists(
    st.sampled_from(["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "Other"]), unique=True
)


def optional(**entries: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    """Draw a mapping in which every entry may be missing."""
    return st.fixed_dictionaries({}, optional=entries)


TAINTS = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["t", "u", CORDONED.key]),
            "value": VALUES,
            "effect": st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
        }
    ),
    max_size=3,
)
TOLERATIONS = st.lists(
    optional(
        key=st.sampled_from(["t", "u", CORDONED.key, ""]),
        operator=st.sampled_from(["Exists", "Equal"]),
        value=VALUES,
        effect=st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule", ""]),
    ),
    max_size=3,
)
AMOUNTS = {
    "cpu": st.sampled_from(["0", "1m", "100m", "1", "1500m", "4"]),
    "memory": st.sampled_from(["0", "1", "64Mi", "200Mi", "1Gi"]),
    "ephemeral-storage": st.sampled_from(["0", "1Gi", "3Gi"]),
    "example.com/gpu": st.sampled_from(["0", "1", "3"]),
    "hugepages-2Mi": st.sampled_from(["0", "2Mi", "6Mi"]),
}
PORTS = st.lists(
    st.fixed_dictionaries(
        {"containerPort": st.just(1), "hostPort": st.sampled_from([0, 80, 443])},
        optional={
            "hostIP": st.sampled_from(["", "0.0.0.0", "10.0.0.1", "10.0.0.2"]),
            "protocol": st.sampled_from(["TCP", "UDP"]),
        },
    ),
    max_size=2,
)
IMAGES = st.sampled_from(["app", "app:v1", "registry:5000/db", "registry:5000/db:latest"])
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.just("c"), "image": IMAGES, "ports": PORTS, "resources": optional(requests=optional(**AMOUNTS))},
        optional={"restartPolicyRules": st.just([{"action": "RestartAllContainers"}])},
    ),
    min_size=1,
    max_size=2,
)
EXPRESSIONS = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {"key": KEYS, "operator": st.sampled_from(["In", "NotIn"]), "values": st.lists(VALUES, min_size=1)}
        ),
        st.fixed_dictionaries({"key": KEYS, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
        st.fixed_dictionaries(
            {
                "key": KEYS,
                "operator": st.sampled_from(["Gt", "Lt"]),
                "values": st.lists(st.sampled_from(["1", "9", "x"]), min_size=1, max_size=1),
            }
        ),
    ),
    max_size=2,
)
FIELDS = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.just("metadata.name"),
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(st.sampled_from(NODE_NAMES), min_size=1, max_size=1),
        }
    ),
    max_size=2,
)
TERMS = optional(matchExpressions=EXPRESSIONS, matchFields=FIELDS)
NODE_AFFINITY = optional(
    requiredDuringSchedulingIgnoredDuringExecution=st.fixed_dictionaries(
        {"nodeSelectorTerms": st.lists(TERMS, max_size=3)}
    ),
    preferredDuringSchedulingIgnoredDuringExecution=st.lists(
        st.fixed_dictionaries({"weight": st.integers(0, 100), "preference": TERMS.filter(lambda t: "x" not in str(t))}),
        max_size=3,
    ),
)
PODS = st.fixed_dictionaries(
    {
        "containers": CONTAINERS,
        "tolerations": TOLERATIONS,
        "nodeSelector": st.dictionaries(KEYS, VALUES, max_size=1),
        "affinity": optional(nodeAffinity=NODE_AFFINITY),
    },
    optional={
        "nodeName": st.sampled_from(NODE_NAMES),
        "hostNetwork": st.booleans(),
        "hostUsers": st.booleans(),
        "overhead": optional(cpu=AMOUNTS["cpu"], memory=AMOUNTS["memory"]),
        "volumes": st.lists(
            st.fixed_dictionaries({"name": st.just("v"), "image": optional(reference=IMAGES)}), max_size=1
        ),
    },
).map(lambda spec: msgspec.convert({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec}, Pod))


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    """Draw nodes with distinct names, in any order."""
    return [
        msgspec.convert(
            {
                "metadata": {"name": name, "labels": draw(st.dictionaries(KEYS, VALUES))},
                "spec": {"taints": draw(TAINTS), "unschedulable": draw(st.booleans())},
                "status": {
                    "allocatable": draw(optional(pods=st.sampled_from(["0", "1", "5"]), **AMOUNTS)),
                    "images": [
                        {"names": [image], "sizeBytes": draw(st.integers(0, 3000)) * MIB}
                        for image in draw(st.lists(IMAGES, unique=True, max_size=3))
                    ],
                    "declaredFeatures": sorted(draw(FEATURES)),
                },
            },
            Node,
        )
        for name in draw(st.lists(st.sampled_from(NODE_NAMES), unique=True, min_size=1))
    ]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Node], list[Pod]]:
    """Draw nodes, and pods on them."""
    drawn = draw(nodes())
    pods = [
        msgspec.convert(
            {
                "metadata": {"name": f"q{number}", "namespace": "ns", "uid": str(number)},
                "spec": {"containers": draw(CONTAINERS), "nodeName": draw(st.sampled_from(drawn)).name},
            },
            Pod,
        )
        for number in range(draw(st.integers(0, 4)))
    ]
    return drawn, pods


# --- the rules, for one node ----------------------------------------------------------------------------------------


def filter_unschedulable(pod: Pod, info: NodeInfo) -> list[str]:
    """Judge a cordoned node."""
    tolerated = any(tolerates(each, CORDONED) for each in pod.spec.tolerations)
    return ["node(s) were unschedulable"] if info.node.spec.unschedulable and not tolerated else []


def filter_name(pod: Pod, info: NodeInfo) -> list[str]:
    """Judge by the node's name."""
    fits = pod.node_name in {"", info.name}
    return [] if fits else ["node(s) didn't match the requested node name"]


def filter_taints(pod: Pod, info: NodeInfo) -> list[str]:
    """Judge by the node's taints."""
    taint = find_untolerated(info.node.spec.taints, pod.spec.tolerations)
    return ["node(s) had untolerated taint(s)"] if taint is not None else []


def filter_affinity(pod: Pod, info: NodeInfo) -> list[str]:
    """Judge by node selector and affinity."""
    fits = required_node_affinity(pod).matches(info.node.labels, info.name)
    return [] if fits else ["node(s) didn't match Pod's node affinity/selector"]


def filter_ports(pod: Pod, info: NodeInfo) -> list[str]:
    """Judge by the ports in use."""
    clash = any(info.used_ports.conflicts(*port) for port in host_ports(pod))
    return ["node(s) didn't have free ports for the requested pod ports"] if clash else []


def filter_features(pod: Pod, info: NodeInfo) -> list[str]:
    """Judge by what the kubelet can do."""
    needed = set()
    if any(container.restart_policy_rules for container in pod.spec.containers):
        needed.add("RestartAllContainersOnContainerExits")
    if pod.spec.host_network and pod.spec.host_users is False:
        needed.add("UserNamespacesHostNetworkSupport")
    return [] if needed <= info.declared_features else ["node(s) didn't match Pod's required features"]


def filter_fit(pod: Pod, info: NodeInfo) -> list[str]:
    """Judge by what is left."""
    reasons = ["Too many pods"] if len(info.pods) + 1 > info.allocatable.allowed_pods else []
    return reasons + [
        f"Insufficient {name}"
        for name, amount in pod_requests(pod).items()
        if amount > 0 and amount > info.allocatable.get(name) - info.requested.get(name)
    ]


def score_taints(pod: Pod, info: NodeInfo) -> int:
    """Count soft taints that are not tolerated."""
    soft = [each for each in info.node.spec.taints if each.effect == "PreferNoSchedule"]
    return sum(not any(tolerates(each, taint) for each in pod.spec.tolerations) for taint in soft)


def score_affinity(pod: Pod, info: NodeInfo) -> int:
    """Add up wishes."""
    wishes = pod.spec.affinity.node_affinity.preferred_during_scheduling_ignored_during_execution
    return compile_preferred_terms(wishes).score(info.node.labels, info.name)


def score_images(pod: Pod, info: NodeInfo, total: int) -> int:
    """Weigh images that are there."""
    names = [each.image for each in pod.spec.containers]
    names += [each.image.reference for each in pod.spec.volumes if each.image is not None]
    states = [info.image_states.get(name if ":" in name.split("/")[-1] else f"{name}:latest") for name in names]
    present = sum(int(state.size * (state.num_nodes / total)) for state in states if state is not None)
    most = 1000 * MIB * len(pod.spec.containers)
    return 100 * (max(23 * MIB, min(present, most)) - 23 * MIB) // (most - 23 * MIB)


def shares(pod: Pod, info: NodeInfo, *, plain: bool) -> list[tuple[int, int, int, int]]:
    """Return weight, allocatable, allocated and requested of each resource that counts."""
    asked = pod_requests(pod, fill_missing=not plain, pod_level=plain)
    found = []
    for each in RESOURCES:
        request, offered = asked.get(each.name, 0), info.allocatable.get(each.name)
        native = each.name in {"cpu", "memory"}
        used = (info.non_zero_requested if native and not plain else info.requested).get(each.name)
        if offered and (request or "/" not in each.name):
            found.append((each.weight, offered, used, used + request))
    return found


def score_least(pod: Pod, info: NodeInfo) -> int:
    """Average what is free."""
    parts = [(w, 0 if r > a else (a - r) * 100 // a) for w, a, _, r in shares(pod, info, plain=False)]
    return sum(w * s for w, s in parts) // max(sum(w for w, _ in parts), 1)


def score_most(pod: Pod, info: NodeInfo) -> int:
    """Average what is used."""
    parts = [(w, min(r, a) * 100 // a) for w, a, _, r in shares(pod, info, plain=False)]
    return sum(w * s for w, s in parts) // max(sum(w for w, _ in parts), 1)


def score_ratio(pod: Pod, info: NodeInfo) -> int:
    """Average what the shape makes of what is used."""
    line = [(point.utilization, 10 * point.score) for point in SHAPE]
    scores = [(w, broken_linear(line, 100 if r > a else r * 100 // a)) for w, a, _, r in shares(pod, info, plain=False)]
    parts = [(w, s) for w, s in scores if s > 0]
    return math.floor(sum(w * s for w, s in parts) / max(sum(w for w, _ in parts), 1) + 0.5)


def score_balance(pod: Pod, info: NodeInfo) -> int:
    """Measure how much the balance improves."""
    found = shares(pod, info, plain=True)
    after = balance([min(r / a, 1.0) for _, a, _, r in found])
    return 50 + (50 + after - balance([min(u / a, 1.0) for _, a, u, _ in found])) // 2


def balance(fractions: list[float]) -> int:
    """Return 100 less the standard deviation in percent, rounded as kube-scheduler rounds."""
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        mean = sum(fractions) / len(fractions)
        squares = 0.0
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / len(fractions))
    return int((1 - deviation) * 100)


# --- both ways ------------------------------------------------------------------------------------------------------


def strategy(type_: str) -> NodeResourcesFitArgs:
    """Make the args that choose a scoring strategy."""
    ratio = RequestedToCapacityRatio(shape=SHAPE)
    return NodeResourcesFitArgs(
        scoring_strategy=ScoringStrategy(type=type_, resources=RESOURCES, requested_to_capacity_ratio=ratio)
    )


BALANCED = NodeResourcesBalancedAllocationArgs(resources=RESOURCES)
SnapshotOf = Callable[..., Snapshot]


def views(data: st.DataObject, snapshot: Snapshot) -> Nodes:
    """Draw a view of the nodes: all of them, or some in any order."""
    rows = data.draw(st.one_of(st.none(), st.lists(st.sampled_from(range(len(snapshot.nodes))), unique=True)))
    return snapshot.nodes if rows is None else snapshot.nodes.take(np.array(rows, dtype=np.int64))


def cluster_of(data: st.DataObject, snapshot_of: SnapshotOf) -> Snapshot:
    """Draw a snapshot, part of whose pods came in a statement."""
    drawn, pods = data.draw(clusters())
    settled = data.draw(st.integers(0, len(pods)))
    snapshot = snapshot_of(drawn, pods[:settled])
    snapshot.checkpoint()
    for pod in pods[settled:]:
        snapshot.place(PodInfo.of(pod), pod.node_name)
    return snapshot


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        pytest.param(NodeUnschedulable, filter_unschedulable, id="NodeUnschedulable"),
        pytest.param(NodeName, filter_name, id="NodeName"),
        pytest.param(TaintToleration, filter_taints, id="TaintToleration"),
        pytest.param(NodeAffinity, filter_affinity, id="NodeAffinity"),
        pytest.param(NodePorts, filter_ports, id="NodePorts"),
        pytest.param(NodeDeclaredFeatures, filter_features, id="NodeDeclaredFeatures"),
        pytest.param(NodeResourcesFit, filter_fit, id="NodeResourcesFit"),
    ],
)
@given(pod=PODS, data=st.data())
def test_filters(
    kind: type[Plugin],
    rule: Callable[[Pod, NodeInfo], list[str]],
    pod: Pod,
    data: st.DataObject,
    snapshot_of: SnapshotOf,
) -> None:
    """Every node has the reasons that it has when judged alone; where PreFilter skips, no node has any."""
    view = views(data, cluster_of(data, snapshot_of))
    plugin, state = kind(None, SimpleNamespace(feature_gates={})), CycleState()
    outcome = plugin.pre_filter(state, pod, view) if isinstance(plugin, PreFilterPlugin) else None
    skipped = getattr(outcome, "is_skip", False)
    statuses = plugin.filter_nodes(state, pod, view) if not skipped else None
    found = [statuses.status(row) if statuses is not None else None for row in range(len(view))]
    assert [sorted(status.reasons) if status else [] for status in found] == [sorted(rule(pod, each)) for each in view]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kind", "args", "rule"),
    [
        pytest.param(TaintToleration, None, score_taints, id="TaintToleration"),
        pytest.param(NodeAffinity, None, score_affinity, id="NodeAffinity"),
        pytest.param(ImageLocality, None, score_images, id="ImageLocality"),
        pytest.param(NodeResourcesFit, strategy("LeastAllocated"), score_least, id="LeastAllocated"),
        pytest.param(NodeResourcesFit, strategy("MostAllocated"), score_most, id="MostAllocated"),
        pytest.param(
            NodeResourcesFit, strategy("RequestedToCapacityRatio"), score_ratio, id="RequestedToCapacityRatio"
        ),
        pytest.param(NodeResourcesBalancedAllocation, BALANCED, score_balance, id="BalancedAllocation"),
    ],
)
@given(pod=PODS, data=st.data())
def test_scores(
    kind: type[Plugin],
    args: object,
    rule: Callable[..., int],
    pod: Pod,
    data: st.DataObject,
    snapshot_of: SnapshotOf,
) -> None:
    """Every node has the score that it has when judged alone."""
    snapshot = cluster_of(data, snapshot_of)
    view = views(data, snapshot)
    plugin, state = kind(args, SimpleNamespace(feature_gates={}, snapshot=snapshot)), CycleState()
    if isinstance(plugin, PreScorePlugin) and plugin.pre_score(state, pod, view) is not None:
        return
    extra = (len(snapshot.nodes),) if kind is ImageLocality else ()
    assert plugin.score_nodes(state, pod, view).tolist() == [rule(pod, each, *extra) for each in view]

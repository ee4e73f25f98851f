"""PodTopologySpread against its rules written down once more, pod by pod and node by node, over random clusters."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from pyscheduler.api import (
    CompiledSelector,
    Node,
    ObjectMeta,
    Pod,
    Requirement,
    Service,
    ServiceSpec,
    compile_label_selector,
    find_untolerated,
    required_node_affinity,
)
from pyscheduler.cache.cache import Cache
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import CycleState, NodeInfo, Nodes, PodInfo
from pyscheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from pyscheduler.testing.builders import make_node
from tests.plugins.pod_topology_spread.spreading import HOST, ZONE, constraint_of, spread_pod, terminating
from tests.plugins.reading_handle import ReadingHandle

SnapshotOf = Callable[..., Snapshot]

MISSING: Final = "node(s) didn't match pod topology spread constraints (missing required label)"
SKEWED: Final = "node(s) didn't match pod topology spread constraints"
RACK: Final = "rack"
SYSTEM: Final = ((HOST, 3), (ZONE, 5))

APPS = st.sampled_from(["a", "a", "b"])
POD_LABELS = st.fixed_dictionaries({"app": APPS}, optional={"version": st.sampled_from(["1", "2"])})
SELECTORS = st.sampled_from(
    [
        {"matchLabels": {"app": "a"}},
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["b"]}]},
        {"matchExpressions": [{"key": "version", "operator": "DoesNotExist"}]},
        {},
        None,
    ]
)
POLICIES = st.sampled_from([None, "Honor", "Ignore"])
TAINTS = st.sampled_from(
    [(), (), ({"key": "t", "effect": "NoSchedule"},), ({"key": "t", "value": "v", "effect": "PreferNoSchedule"},)]
)
CONSTRAINTS = st.lists(
    st.fixed_dictionaries(
        {
            "maxSkew": st.sampled_from([1, 1, 1, 2]),
            "topologyKey": st.sampled_from([ZONE, ZONE, ZONE, HOST, RACK]),
            "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": SELECTORS,
        },
        optional={
            "minDomains": st.integers(1, 4),
            "nodeAffinityPolicy": POLICIES,
            "nodeTaintsPolicy": POLICIES,
            "matchLabelKeys": st.just(["version"]),
        },
    ),
    max_size=2,
)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    """Draw a node; most have a zone, and nearly all a hostname."""
    labels = {
        ZONE: draw(st.sampled_from(["z1", "z2", "z2", "", None])),
        HOST: draw(st.sampled_from([name, name, name, "", None])),
        RACK: draw(st.sampled_from(["r1", "r2", "r2", None])),
        "disk": draw(st.sampled_from(["ssd", "hdd"])),
    }
    # The builder names every host, so a node without hostname is made bare.
    node = make_node(name, taints=draw(TAINTS))
    metadata = {key: value for key, value in labels.items() if value is not None}
    return Node(metadata=ObjectMeta(name=name, uid=name, labels=metadata), spec=node.spec, status=node.status)


@st.composite
def placed_pods(draw: st.DrawFn, name: str, node_names: list[str]) -> Pod:
    """Draw a pod on some node, now and then one that is being deleted."""
    pod = spread_pod(
        name,
        namespace=draw(st.sampled_from(["default", "default", "other"])),
        labels=draw(POD_LABELS),
        node_name=draw(st.sampled_from(node_names)),
    )
    return terminating(pod) if draw(st.integers(0, 4)) == 0 else pod


@st.composite
def incoming_pods(draw: st.DrawFn) -> Pod:
    """Draw the pod to place."""
    return spread_pod(
        "incoming",
        *draw(CONSTRAINTS),
        labels=draw(POD_LABELS),
        node_selector=draw(st.sampled_from([None, None, {"disk": "ssd"}])),
        tolerations=draw(st.sampled_from([(), ({"key": "t", "operator": "Exists"},)])),
    )


# --- the rules ------------------------------------------------------------------------------------------------------


class Rule:
    """One constraint of the pod to place."""

    def __init__(self, pod: Pod, key: str, skew: int, selector: CompiledSelector, **others: Any) -> None:
        self.pod, self.key, self.skew, self.selector = pod, key, skew, selector
        self.min_domains = others.get("min_domains") or 1
        self.affinity = others.get("affinity") in {None, "Honor"}
        self.taints = others.get("taints") == "Honor"

    def includes(self, node: Node) -> bool:
        """Tell whether the policies include a node."""
        if self.affinity and not required_node_affinity(self.pod).matches(node.labels, node.name):
            return False
        return not self.taints or find_untolerated(node.spec.taints, self.pod.spec.tolerations) is None

    def counts(self, pod: Pod) -> bool:
        """Tell whether a placed pod counts."""
        if self.selector.is_empty or pod.is_terminating or pod.namespace != self.pod.namespace:
            return False
        return self.selector.matches(pod.labels)

    def on(self, info: NodeInfo) -> int:
        """Count on one node."""
        return sum(self.counts(each.pod) for each in info.pods)


def explicit(pod: Pod, action: str) -> list[Rule]:
    """Return the rules of a pod's own constraints that say `action`."""
    rules = []
    for each in pod.spec.topology_spread_constraints:
        if each.when_unsatisfiable != action:
            continue
        selector = compile_label_selector(each.label_selector)
        if each.label_selector is not None:
            own = [Requirement(key, "In", (pod.labels[key],)) for key in each.match_label_keys if key in pod.labels]
            selector = CompiledSelector.of([*selector.requirements, *own])
        rules.append(
            Rule(
                pod,
                each.topology_key,
                each.max_skew,
                selector,
                min_domains=each.min_domains,
                affinity=each.node_affinity_policy,
                taints=each.node_taints_policy,
            )
        )
    return rules


def complete(info: NodeInfo, rules: Iterable[Rule]) -> bool:
    """Tell whether a node has all keys."""
    return all(rule.key in info.node.labels for rule in rules)


def filtered(pod: Pod, rules: list[Rule], infos: list[NodeInfo], fired: Counter[str]) -> list[str]:
    """Return the reason of each node, "" where it passes."""
    domains = []
    for rule in rules:
        found: dict[str, int] = {}
        for info in infos:
            if complete(info, rules) and rule.includes(info.node):
                value = info.node.labels[rule.key]
                found[value] = found.get(value, 0) + rule.on(info)
        domains.append(found)
    reasons = []
    for info in infos:
        reason = ""
        for rule, found in zip(rules, domains, strict=True):
            if rule.key not in info.node.labels:
                reason = MISSING
                break
            least = min(found.values(), default=2**31 - 1)
            if len(found) < rule.min_domains:
                least = 0
                fired["too few domains"] += 1
            more = int(rule.selector.matches(pod.labels))
            if found.get(info.node.labels[rule.key], 0) + more - least > rule.skew:
                reason = SKEWED
                break
        fired[{"": "passed", MISSING: "missing", SKEWED: "skewed"}[reason]] += 1
        reasons.append(reason)
    return reasons


def scored(rules: list[Rule], candidates: list[NodeInfo], infos: list[NodeInfo], *, every: bool) -> list[list[int]]:
    """Return raw and normalised scores."""
    ignored = [every and not complete(info, rules) for info in candidates]
    kept = [info for info, out in zip(candidates, ignored, strict=True) if not out]
    raw = []
    for info, out in zip(candidates, ignored, strict=True):
        score = 0.0
        for rule in rules if not out else ():
            value = info.node.labels.get(rule.key)
            if rule.key == HOST:
                size, count = len(kept), rule.on(info)
            else:
                size = len({each.node.labels.get(rule.key, "") for each in kept})
                count = sum(
                    rule.on(each)
                    for each in infos
                    if each.node.labels.get(rule.key, "") == value
                    and rule.includes(each.node)
                    and (not every or complete(each, rules))
                )
            if value is not None:
                score += float(count) * math.log(size + 2) + float(rule.skew - 1)
        raw.append(math.floor(score + 0.5))
    counted = [score for score, out in zip(raw, ignored, strict=True) if not out]
    high, low = max(counted, default=0), min(counted, default=0)
    scale = [100 if high == 0 else 100 * (high + low - score) // high for score in raw]
    return [raw, [0 if out else score for score, out in zip(scale, ignored, strict=True)]]


# --- both ways ------------------------------------------------------------------------------------------------------


def reasons_of(plugin: PodTopologySpread, pod: Pod, view: Nodes, state: CycleState) -> list[str] | None:
    """Return the plugin's reasons after its PreFilter; None where that skips."""
    outcome = plugin.pre_filter(state, pod, view)
    if outcome is not None:
        assert outcome.is_skip
        return None
    return filter_reasons(plugin, pod, view, state)


def filter_reasons(plugin: PodTopologySpread, pod: Pod, view: Nodes, state: CycleState) -> list[str]:
    """Return the reasons of Filter alone."""
    statuses = plugin.filter_nodes(state, pod, view)
    found = [statuses.status(row) if statuses is not None else None for row in range(len(view))]
    return [status.message if status is not None else "" for status in found]


def check(plugin: PodTopologySpread, pod: Pod, snapshot: Snapshot, some: list[int], fired: Counter[str]) -> None:
    """Hold the plugin's answers against the rules."""
    infos, state = list(snapshot.nodes), CycleState()
    hard, soft = explicit(pod, "DoNotSchedule"), explicit(pod, "ScheduleAnyway")
    found = reasons_of(plugin, pod, snapshot.nodes, state)
    assert found == (filtered(pod, hard, infos, fired) if hard else None)
    view = snapshot.nodes.take(np.array(some, dtype=np.int64))
    if found is not None:
        assert filter_reasons(plugin, pod, view, state) == [found[row] for row in some]
    every = True
    if not pod.spec.topology_spread_constraints:
        app = CompiledSelector.of([Requirement("app", "In", ("a",))])
        soft = [Rule(pod, key, skew, app) for key, skew in SYSTEM] if pod.labels["app"] == "a" else []
        every = False
    status = plugin.pre_score(state, pod, view)
    assert (status is None) is bool(soft)
    if status is None:
        raw = plugin.score_nodes(state, pod, view)
        normalized = raw.copy()
        plugin.normalize_scores(state, pod, normalized)
        expected = scored(soft, [infos[row] for row in some], infos, every=every)
        assert [raw.tolist(), normalized.tolist()] == expected
        fired["scored" if every else "scored by default"] += len(some)
        fired["different"] += len(set(expected[0])) > 1


@pytest.mark.slow
def test_answers_are_those_of_the_rules_whatever_happened_before() -> None:
    """One plugin and one snapshot, followed through random changes, answer as a look at each pod and node does."""
    fired: Counter[str] = Counter()
    service = Service(
        metadata=ObjectMeta(name="s", namespace="default"),
        spec=ServiceSpec(selector={"app": "a"}),
    )

    @settings(max_examples=2 * settings.default.max_examples)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        cache, snapshot = Cache(), Snapshot()
        plugin = PodTopologySpread(None, ReadingHandle(snapshot, [service]))
        names = [f"n{number}" for number in range(data.draw(st.integers(2, 6), label="nodes"))]
        for name in names:
            cache.add_node(data.draw(nodes(name)))
        pods: dict[str, Pod] = {}
        for round_ in range(3):
            for number in range(data.draw(st.integers(2, 7), label="pods")):
                pod = data.draw(placed_pods(f"q{number}", names))
                if pod.uid in pods:
                    cache.remove_pod(pods[pod.uid])
                cache.add_pod(PodInfo.of(pod))
                pods[pod.uid] = pod
            if round_ and pods and data.draw(st.booleans(), label="one goes"):
                cache.remove_pod(pods.pop(next(iter(pods))))
            if round_ and data.draw(st.booleans(), label="a node changes"):
                cache.update_node(None, data.draw(nodes(names[0])))
            cache.update_snapshot(snapshot)
            some = data.draw(st.lists(st.sampled_from(range(len(names))), unique=True, min_size=1), label="some")
            check(plugin, data.draw(incoming_pods()), snapshot, some, fired)
        snapshot.check_invariants()

    run()
    for what in ("passed", "missing", "skewed", "too few domains", "scored", "scored by default", "different"):
        assert fired[what] > 0, fired


@pytest.mark.slow
def test_following_a_what_if_equals_looking_anew() -> None:
    """AddPod and RemovePod, then Filter, give what PreFilter and Filter give on the changed cluster; clones differ."""
    fired: Counter[str] = Counter()
    by_app = st.builds(
        lambda key, skew, domains, taints: constraint_of(
            topologyKey=key, maxSkew=skew, minDomains=domains, nodeTaintsPolicy=taints
        ),
        st.sampled_from([ZONE, HOST]),
        st.integers(1, 2),
        st.integers(1, 4),
        st.sampled_from(["Honor", "Ignore"]),
    )

    @settings(max_examples=5 * settings.default.max_examples // 2)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        cache, snapshot = Cache(), Snapshot()
        plugin = PodTopologySpread(None, ReadingHandle(snapshot))
        names = [f"n{number}" for number in range(data.draw(st.integers(1, 5)))]
        for name in names:
            cache.add_node(data.draw(nodes(name)))
        there = [
            PodInfo.of(data.draw(placed_pods(f"q{number}", names))) for number in range(data.draw(st.integers(0, 6)))
        ]
        # A pod that is being deleted is not counted, and yet taken off by RemovePod: so it is in kube-scheduler, too.
        there = [info for info in there if not info.pod.is_terminating]
        for info in there:
            cache.add_pod(info)
        cache.update_snapshot(snapshot)
        pod = spread_pod("incoming", *data.draw(st.lists(by_app, min_size=1, max_size=2)))
        state = CycleState()
        before = reasons_of(plugin, pod, snapshot.nodes, state)
        copy = state.clone()
        with snapshot.undo_at_end():
            for info in data.draw(st.lists(st.sampled_from(there), unique_by=id)) if there else []:
                snapshot.evict(info, info.pod.node_name)
                plugin.remove_pod(copy, pod, info, snapshot.get(info.pod.node_name))
                fired["removed"] += 1
            for number in range(data.draw(st.integers(0, 3))):
                info = PodInfo.of(spread_pod(f"new{number}", node_name=data.draw(st.sampled_from(names))))
                snapshot.place(info, info.pod.node_name)
                plugin.add_pod(copy, pod, info, snapshot.get(info.pod.node_name))
                fired["added"] += 1
            after = reasons_of(plugin, pod, snapshot.nodes, CycleState())
            assert filter_reasons(plugin, pod, snapshot.nodes, copy) == after
            fired["changed"] += before != after
        assert filter_reasons(plugin, pod, snapshot.nodes, state) == before
        assert reasons_of(plugin, pod, snapshot.nodes, CycleState()) == before

    run()
    assert min(fired["removed"], fired["added"], fired["changed"]) > 0, fired

"""InterPodAffinity against its rules written down once more, pod by pod and node by node, over random histories."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from pyscheduler.api import Node, Pod
from pyscheduler.cache.cache import Cache
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import AffinityTerm, CycleState, NodeInfo, PodInfo, Status
from pyscheduler.framework.in_tree_args import InterPodAffinityArgs
from pyscheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from pyscheduler.testing.builders import make_node
from tests.plugins.inter_pod_affinity.affine import HOST, ZONE, namespaces_of, pod_of, term
from tests.plugins.reading_handle import ReadingHandle

UNMET: Final = "node(s) didn't match pod affinity rules"
SHUNNED: Final = "node(s) didn't match pod anti-affinity rules"
SHUNNING: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
NAMESPACES: Final[Mapping[str, Mapping[str, str]]] = {"default": {}, "red": {"team": "r"}, "blue": {"team": "b"}}
NO_LABELS: Final[Mapping[str, str]] = {}

APPS = st.sampled_from(["a", "b"])
SELECTORS = st.one_of(
    st.none(),
    st.just({}),
    st.builds(lambda app: {"matchLabels": {"app": app}}, APPS),
    st.builds(lambda app: {"matchLabels": {"app": app}}, APPS),
    st.just({"matchExpressions": [{"key": "version", "operator": "Exists"}]}),
    st.just({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["b"]}]}),
)
REACHES = st.sampled_from(
    [
        {},
        {},
        {"namespaces": ["red"]},
        {"namespaceSelector": {}},
        {"namespaceSelector": {"matchLabels": {"team": "r"}}},
        {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["r"]}]}},
    ]
)
TERMS = st.builds(
    lambda key, selector, reach: term(key, labelSelector=selector, **reach),
    st.sampled_from([ZONE, ZONE, HOST, "rack"]),
    SELECTORS,
    REACHES,
)
WISHES = st.builds(
    lambda weight, each: {"weight": weight, "podAffinityTerm": each}, st.sampled_from([1, 3, 100]), TERMS
)
WANTED = st.fixed_dictionaries(
    {},
    optional={
        "near": st.lists(TERMS, max_size=2),
        "away": st.lists(TERMS, max_size=2),
        "rather_near": st.lists(WISHES, max_size=2),
        "rather_away": st.lists(WISHES, max_size=2),
    },
)
#: Many pods want nothing, or to be alone; others find one of each kind of term in their way.
HERMITS = st.builds(
    lambda key, selector: {"away": [term(key, labelSelector=selector)]}, st.sampled_from([ZONE, HOST]), SELECTORS
)
MODEST = st.one_of(st.just({}), HERMITS, WANTED)
#: Pods to place, so that each rule has its turn: some that want one thing, one that wants nothing, one anything.
INCOMING = (
    st.fixed_dictionaries({"near": st.lists(TERMS, min_size=1, max_size=2)}),
    st.fixed_dictionaries({"near": st.lists(TERMS, min_size=1, max_size=1), "away": st.lists(TERMS, max_size=1)}),
    st.fixed_dictionaries({"away": st.lists(TERMS, min_size=1, max_size=2)}),
    st.fixed_dictionaries({"rather_near": st.lists(WISHES, max_size=2), "rather_away": st.lists(WISHES, max_size=2)}),
    st.just({}),
    WANTED,
)
POD_LABELS = st.fixed_dictionaries({"app": APPS}, optional={"version": st.sampled_from(["1", "2"])})


@st.composite
def pods(draw: st.DrawFn, wanted: st.SearchStrategy[dict[str, Any]] = WANTED) -> Pod:
    """Draw a pod."""
    namespace = draw(st.sampled_from(["default", "default", "red", "blue", "unheard-of"]))
    return pod_of("incoming", namespace=namespace, labels=draw(POD_LABELS), **draw(wanted))


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    """Draw a node; most have a zone, some a rack."""
    labels = {ZONE: draw(st.sampled_from(["z1", "z2", "z2", "", None])), "rack": draw(st.sampled_from(["r1", None]))}
    return make_node(name, labels={key: value for key, value in labels.items() if value is not None})


ARGS = st.builds(
    lambda weight, ignore: InterPodAffinityArgs(
        hard_pod_affinity_weight=weight, ignore_preferred_terms_of_existing_pods=ignore
    ),
    st.sampled_from([0, 1, 50]),
    st.booleans(),
)


# --- the rules ------------------------------------------------------------------------------------------------------


class Model:
    """The rules for one pod to place among `infos`."""

    def __init__(self, pod: Pod, infos: Sequence[NodeInfo], args: InterPodAffinityArgs) -> None:
        self.pod, self.infos, self.args = pod, infos, args
        self.own = PodInfo.of(pod)
        self.namespace_labels = NAMESPACES.get(pod.namespace, NO_LABELS)

    def finds(self, own: AffinityTerm, other: Pod) -> bool:
        """Tell whether a term of the pod to place means another pod."""
        labels = NAMESPACES.get(other.namespace)
        selected = own.namespace_selector.is_empty or (labels is not None and own.namespace_selector.matches(labels))
        return (selected or other.namespace in own.namespaces) and own.selector.matches(other.labels)

    def is_meant(self, theirs: AffinityTerm) -> bool:
        """Tell whether a term of a placed pod means the pod to place."""
        return theirs.matches(self.pod, self.namespace_labels)

    def others(self, node: Node, key: str) -> list[PodInfo]:
        """Return the pods in the node's domain."""
        assert key in node.labels
        return [
            each
            for info in self.infos
            if info.node is not None and info.node.labels.get(key) == node.labels[key]
            for each in info.pods
        ]

    def refusal(self, node: Node) -> str | None:
        """Return why a node is refused."""
        if not self.meets_affinity(node):
            return UNMET
        for each in self.own.required_anti_affinity_terms:
            key = each.topology_key
            if key in node.labels and any(self.finds(each, other.pod) for other in self.others(node, key)):
                return SHUNNED
        for key in node.labels:
            for other in self.others(node, key):
                if any(each.topology_key == key and self.is_meant(each) for each in other.required_anti_affinity_terms):
                    return SHUNNING
        return None

    def meets_affinity(self, node: Node) -> bool:
        """Tell whether the pod's own affinity is met on a node."""
        wanted = self.own.required_affinity_terms
        if any(each.topology_key not in node.labels for each in wanted):
            return False

        def is_wanted(other: Pod) -> bool:
            return all(self.finds(each, other) for each in wanted)

        if all(any(is_wanted(other.pod) for other in self.others(node, each.topology_key)) for each in wanted):
            return True
        anybody = any(
            each.topology_key in info.node.labels and is_wanted(other.pod)
            for info in self.infos
            if info.node is not None
            for other in info.pods
            for each in wanted
        )
        return not anybody and is_wanted(self.pod)

    def has_filter(self) -> bool:
        """Tell whether the filter has anything to decide."""
        return bool(
            self.own.required_affinity_terms
            or self.own.required_anti_affinity_terms
            or any(self.refusal(info.node) == SHUNNING for info in self.infos if info.node is not None)
        )

    def scores(self) -> dict[str, int] | None:
        """Return the raw score of each node; None where nobody says anything."""
        wishes = [
            *((wish.term, wish.weight) for wish in self.own.preferred_affinity_terms),
            *((wish.term, -wish.weight) for wish in self.own.preferred_anti_affinity_terms),
        ]
        if self.args.ignore_preferred_terms_of_existing_pods and not wishes:
            return None
        sums: dict[str, Counter[str]] = defaultdict(Counter)
        spoken = False
        for info in self.infos:
            assert info.node is not None
            for other in info.pods:
                said = [(each, weight) for each, weight in wishes if self.finds(each, other.pod)]
                said += [(each, weight) for each, weight in self.said_by(other) if self.is_meant(each)]
                for each, weight in said:
                    if each.topology_key in info.node.labels:
                        sums[each.topology_key][info.node.labels[each.topology_key]] += weight
                        spoken = True
        if not spoken:
            return None
        return {
            info.name: sum(sums[key][value] for key, value in info.node.labels.items() if key in sums)
            for info in self.infos
            if info.node is not None
        }

    def said_by(self, other: PodInfo) -> list[tuple[AffinityTerm, int]]:
        """Return what counts of a placed pod's terms, and how much."""
        hard = self.args.hard_pod_affinity_weight
        return [
            *((each, hard) for each in other.required_affinity_terms if hard),
            *((wish.term, wish.weight) for wish in other.preferred_affinity_terms),
            *((wish.term, -wish.weight) for wish in other.preferred_anti_affinity_terms),
        ]


# --- the plugin -----------------------------------------------------------------------------------------------------


class History:
    """One plugin in a cluster to which things happen."""

    def __init__(self, args: InterPodAffinityArgs, fired: Counter[str]) -> None:
        self.cache, self.snapshot, self.fired = Cache(), Snapshot(), fired
        self.plugin = InterPodAffinity(args, ReadingHandle(self.snapshot, namespaces_of(NAMESPACES)))
        self.args = args
        self.nodes: dict[str, Node] = {}
        self.placed: list[Pod] = []
        self.serial = 0

    def happen(self, what: str, node: Node, pod: Pod) -> None:
        """Let one thing happen to the cluster."""
        self.serial += 1
        names = list(self.nodes)
        if what == "node" or not names:
            self.nodes[node.name] = node
            self.cache.add_node(node)
        elif what == "drop":
            self.cache.remove_node(self.nodes.pop(names[self.serial % len(names)]))
        elif what == "leave" and self.placed:
            self.cache.remove_pod(self.placed.pop(self.serial % len(self.placed)))
        else:
            placed = pod_of(
                f"p{self.serial}", names[self.serial % len(names)], namespace=pod.namespace, labels=dict(pod.labels)
            )
            info = PodInfo.of(pod).with_pod(placed)
            self.cache.add_pod(info)
            self.placed.append(placed)
        self.fired[what] += 1
        self.cache.update_snapshot(self.snapshot)

    def look(self, pod: Pod) -> None:
        """Hold the plugin's answers about a pod against the model's."""
        state = CycleState()
        model = Model(pod, list(self.snapshot.nodes), self.args)
        status = self.plugin.pre_filter(state, pod, self.snapshot.nodes)
        assert (status is None) == model.has_filter()
        if status is None:
            self.fired["filtered"] += 1
            self.compare(state, model)
            self.think(state, model)
            self.compare(state, model)
        else:
            assert isinstance(status, Status)
            assert status.is_skip
            self.fired["filter skipped"] += 1
            assert all(model.refusal(info.node) is None for info in model.infos if info.node is not None)
        self.score(state, model)

    def compare(self, state: CycleState, model: Model) -> None:
        """Compare the refusals of all nodes, and of each alone."""
        nodes = self.snapshot.nodes
        statuses = self.plugin.filter_nodes(state, model.pod, nodes)
        for row, info in enumerate(nodes):
            status = statuses.status(row) if statuses is not None else None
            assert info.node is not None
            expected = model.refusal(info.node)
            assert (status.reasons[0] if status is not None else None) == expected
            self.fired[expected or "passed"] += 1
            if expected is None and not model.others(info.node, HOST) and model.own.required_affinity_terms:
                self.fired["first of its group, or beside others"] += 1

    def think(self, state: CycleState, model: Model) -> None:
        """Add and remove pods in thought: the state then is what PreFilter from scratch would make of it."""
        thought = state.clone()
        with self.snapshot.undo_at_end():
            for number, placed in enumerate(self.placed):
                node = self.snapshot.get(placed.node_name)
                if node is None:
                    continue
                info = next(each for each in node.pods if each.pod.uid == placed.uid)
                target = self.snapshot.nodes.name(number % len(self.snapshot.nodes))
                self.snapshot.evict(info, placed.node_name)
                self.plugin.remove_pod(thought, model.pod, info, self.snapshot.get(placed.node_name))
                if number % 2:
                    self.snapshot.place(info, target)
                    self.plugin.add_pod(thought, model.pod, info, self.snapshot.get(target))
                    self.fired["moved in thought"] += 1
                else:
                    self.fired["removed in thought"] += 1
            self.compare(thought, Model(model.pod, list(self.snapshot.nodes), self.args))

    def score(self, state: CycleState, model: Model) -> None:
        """Compare the scores, raw and normalised."""
        nodes = self.snapshot.nodes
        expected = model.scores()
        status = self.plugin.pre_score(state, model.pod, nodes)
        assert (status is None) == (expected is not None)
        if expected is None:
            self.fired["score skipped"] += 1
            return
        raw = self.plugin.score_nodes(state, model.pod, nodes)
        assert {nodes.name(row): int(raw[row]) for row in range(len(nodes))} == expected
        low, high = min(expected.values()), max(expected.values())
        self.plugin.normalize_scores(state, model.pod, raw)
        assert {nodes.name(row): int(raw[row]) for row in range(len(nodes))} == {
            name: int(100.0 * ((each - low) / (high - low))) if high > low else 0 for name, each in expected.items()
        }
        self.fired["scored"] += 1
        self.fired["below zero"] += low < 0


STEP = st.sampled_from(["node", "node", "come", "come", "come", "leave", "drop"])


@pytest.mark.slow
def test_answers_are_those_of_the_rules_whatever_happened_before() -> None:
    """After each step of a random history, filter and scores for random pods are the model's; every rule fires."""
    fired: Counter[str] = Counter()

    @settings(max_examples=15 * settings.default.max_examples // 4)
    @given(data=st.data(), args=ARGS)
    def check(data: st.DataObject, args: InterPodAffinityArgs) -> None:
        history = History(args, fired)
        incoming = [data.draw(pods(wanted)) for wanted in INCOMING]
        for number, what in enumerate(data.draw(st.lists(STEP, min_size=5, max_size=14))):
            history.happen(what, data.draw(nodes(f"n{number}")), data.draw(pods(MODEST)))
            if len(history.snapshot.nodes):
                history.look(incoming[number % len(incoming)])
        for pod in incoming if len(history.snapshot.nodes) else ():
            history.look(pod)
        history.snapshot.check_invariants()

    check()
    rules = (
        *("node", "come", "leave", "drop", UNMET, SHUNNED, SHUNNING, "passed", "filtered", "filter skipped", "scored"),
        *("score skipped", "below zero", "moved in thought", "removed in thought"),
        "first of its group, or beside others",
    )
    assert min(fired[rule] for rule in rules) > 20, fired

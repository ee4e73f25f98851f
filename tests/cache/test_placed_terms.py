"""What placed pods want of others: each distinct term once, counted by node and kept up to date."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from pyscheduler.cache import placed_terms
from pyscheduler.framework import PodInfo
from pyscheduler.framework.affinity_terms import TermKind
from pyscheduler.testing.builders import make_pod

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.cache.snapshot import Snapshot
    from pyscheduler.framework import Nodes
    from tests.cache.conftest import World

APP: Final = {"app": "a"}
NO_LABELS: Final[Mapping[str, str]] = {}


def term(**fields: Any) -> dict[str, Any]:
    """Write a term about pods of `app: a` in one zone, but for what `fields` say."""
    return {"labelSelector": {"matchLabels": APP}, "topologyKey": "zone", **fields}


def affinity(*required: dict[str, Any], anti: bool = True, wishes: tuple[tuple[int, dict[str, Any]], ...] = ()) -> Any:
    """Write an affinity."""
    return {
        "podAntiAffinity" if anti else "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": list(required),
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": weight, "podAffinityTerm": each} for weight, each in wishes
            ],
        }
    }


def pod_of(name: str, node: str, terms: Any, **keywords: Any) -> PodInfo:
    """Make a pod with terms on a node."""
    return PodInfo.of(make_pod(name, uid=f"uid-{name}", node_name=node, affinity=terms, **keywords))


def told(nodes: Nodes, labels: Mapping[str, str] = APP, **others: Any) -> dict[tuple[TermKind, int, str], list[int]]:
    """Return the counts of the terms about pods with `labels`, by kind, weight and topology key."""
    namespace, namespace_labels = others.get("namespace", "default"), others.get("namespace_labels", NO_LABELS)
    return {
        (each.kind, each.weight, each.term.topology_key): each.counts.tolist()
        for each in nodes.terms_about(namespace, labels, namespace_labels)
    }


def test_a_view_of_some_nodes_counts_on_those(world: World) -> None:
    """Counts stand in the order of the view; a term of pods elsewhere is named all the same."""
    for name in "abc":
        world.node(name)
    for name, node in (("p", "a"), ("q", "c"), ("r", "c")):
        world.cache.add_pod(pod_of(name, node, affinity(term())))
    view = world.update().nodes.take(np.array([2, 1]))
    assert told(view) == {(TermKind.REQUIRED_ANTI_AFFINITY, 0, "zone"): [2, 0]}


def test_counts_may_not_be_written_to(world: World) -> None:
    """They belong to the snapshot."""
    world.node("a")
    world.cache.add_pod(pod_of("p", "a", affinity(term())))
    (found,) = world.update().nodes.terms_about("default", APP, NO_LABELS)
    with pytest.raises(ValueError, match="read-only"):
        found.counts[0] = 5


def test_answers_for_pods_with_many_labels_are_not_kept(world: World) -> None:
    """They are right, and worked out anew each time."""
    world.node("a")
    world.cache.add_pod(pod_of("p", "a", affinity(term())))
    nodes = world.update().nodes
    many = {**APP, **{f"l{number}": "x" for number in range(100)}}
    assert told(nodes, many) == told(nodes, APP) != {}
    assert len(world.snapshot._columns.placed_terms._answers) == 1


def test_terms_that_nobody_brings_are_forgotten(world: World) -> None:
    """Thousands of pods, each with a term of its own, come and go: few of their terms are kept, and few answers."""
    world.node("a")
    kept = world.snapshot._columns.placed_terms
    for number in range(500):
        info = pod_of(f"p{number}", "a", affinity(term(labelSelector={"matchLabels": {"app": f"{number}"}})))
        world.cache.add_pod(info)
        assert len(told(world.update().nodes, {"app": f"{number}"})) == 1
        world.cache.remove_pod(info.pod)
        assert not told(world.update().nodes, {"app": f"{number}"})
    assert len(kept._terms) < 200
    assert len(kept._answers) < 200
    assert not kept._held


def test_nothing_is_kept_where_no_pod_has_terms(world: World) -> None:
    """Plain pods cost a look at the nodes that changed."""
    world.node("a")
    world.bound("p", "a")
    nodes = world.update().nodes
    assert list(nodes.terms_about("default", APP, NO_LABELS)) == []
    kept = nodes._columns.placed_terms
    assert not kept._answers
    assert not kept._held


TERMS: Final = st.builds(
    lambda app, key, more: {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more},
    st.sampled_from(["a", "b"]),
    st.sampled_from(["zone", "host"]),
    st.sampled_from([{}, {"namespaces": ["other"]}, {"namespaceSelector": {"matchLabels": {"team": "t"}}}]),
)
AFFINITIES: Final = st.one_of(
    st.none(),
    st.builds(
        lambda required, wishes, anti: affinity(*required, anti=anti, wishes=tuple(wishes)),
        st.lists(TERMS, max_size=2),
        st.lists(st.tuples(st.sampled_from([1, 5]), TERMS), max_size=2),
        st.booleans(),
    ),
)
STEPS: Final = st.lists(
    st.tuples(st.sampled_from(["add", "add", "add", "node", "remove", "replace", "drop", "roll back"]), AFFINITIES),
    min_size=4,
    max_size=14,
)


def naive(snapshot: Snapshot, labels: Mapping[str, str], namespace: str, team: str) -> Counter[tuple[Any, ...]]:
    """Look at every term of every pod."""
    found: Counter[tuple[Any, ...]] = Counter()
    for node in snapshot.nodes:
        for info in node.pods:
            for kind, weight, each in (
                *((TermKind.REQUIRED_AFFINITY, 0, t) for t in info.required_affinity_terms),
                *((TermKind.REQUIRED_ANTI_AFFINITY, 0, t) for t in info.required_anti_affinity_terms),
                *((TermKind.PREFERRED_AFFINITY, w.weight, w.term) for w in info.preferred_affinity_terms),
                *((TermKind.PREFERRED_ANTI_AFFINITY, w.weight, w.term) for w in info.preferred_anti_affinity_terms),
            ):
                if each.matches(make_pod("x", namespace=namespace, labels=labels), {"team": team}):
                    found[kind, weight, each, node.name] += 1
    return found


def compare(snapshot: Snapshot, fired: Counter[str]) -> None:
    """Hold the answers about two kinds of pods against the naive ones."""
    nodes = snapshot.nodes
    for app, namespace, team in (("a", "default", "t"), ("b", "other", "u")):
        found: Counter[tuple[Any, ...]] = Counter()
        for each in nodes.terms_about(namespace, {"app": app}, {"team": team}):
            assert each.counts.any()
            for row in np.flatnonzero(each.counts).tolist():
                found[each.kind, each.weight, each.term, nodes.name(row)] += int(each.counts[row])
        expected = naive(snapshot, {"app": app}, namespace, team)
        assert found == expected
        fired["answers"] += bool(expected)
        fired["several on a node"] += any(count > 1 for count in expected.values())


class History:
    """A world to which things happen; after each, the answers are looked at."""

    def __init__(self, world: World, fired: Counter[str]) -> None:
        self.world = world
        self.fired = fired
        self.pods: dict[str, PodInfo] = {}
        self.serial = 0
        world.node("n0")
        world.update()

    def happen(self, what: str, terms: Any) -> None:
        """Let one thing happen."""
        self.serial += 1
        world, cache, pods = self.world, self.world.cache, self.pods
        names = list(world.snapshot.names)
        node = names[self.serial % len(names)]
        namespace = "other" if self.serial % 3 == 0 else "default"
        info = pod_of(f"p{self.serial}", node, terms, namespace=namespace)
        if what == "add":
            cache.add_pod(info)
            pods[info.pod.uid] = info
        elif what == "remove" and pods:
            cache.remove_pod(pods.popitem()[1].pod)
        elif what == "replace" and pods:
            old = next(iter(pods.values()))
            pods[old.pod.uid] = old.with_pod(old.pod)
            cache.update_pod(old.pod, pods[old.pod.uid])
        elif what == "node":
            world.node(f"n{self.serial}")
        elif what == "drop" and len(names) > 1:
            cache.remove_node(world.snapshot.get(node).node)
        elif what == "roll back":
            with world.update().undo_at_end():
                world.snapshot.place(info, node)
                compare(world.snapshot, self.fired)
        else:
            return
        self.fired[what] += 1
        compare(world.update(), self.fired)
        world.check()


@pytest.mark.slow
def test_answers_are_those_of_a_look_at_every_pod(make_world: type[World]) -> None:
    """After pods and nodes came and went in any order, with tight limits too, each count is the naive one."""
    fired: Counter[str] = Counter()

    @settings(max_examples=12 * settings.default.max_examples)
    @given(steps=STEPS, limits=st.sampled_from([(4096, 512, 64, 64), (4096, 512, 64, 1), (1, 1, 0, 1)]))
    def check(steps: list[tuple[str, Any]], limits: tuple[int, ...]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            for name, limit in zip(("_MAX_ANSWERS", "_MAX_ARRAYS", "_MAX_IDLE", "_MIN_CAPACITY"), limits, strict=True):
                patch.setattr(placed_terms, name, limit)
            history = History(make_world(), fired)
            for what, terms in steps:
                history.happen(what, terms)

    check()
    rules = ("add", "remove", "replace", "node", "drop", "roll back", "answers", "several on a node")
    assert min(fired[rule] for rule in rules) > 10, fired

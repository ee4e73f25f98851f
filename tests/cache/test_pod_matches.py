"""Pods that a selector matches, counted by node and kept up to date."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import hypothesis.strategies as st
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings

from pyscheduler.api import EVERYTHING, NOTHING, CompiledSelector, Requirement, selector_from_labels
from pyscheduler.framework import PodInfo
from pyscheduler.testing.builders import make_pod

if TYPE_CHECKING:
    from tests.cache.conftest import World

HERE: Final = frozenset({"default"})
BOTH: Final = frozenset({"default", "other"})
APP: Final = selector_from_labels({"app": "a"})
NOT_A: Final = CompiledSelector.of([Requirement("app", "NotIn", ("a",))])
SELECTORS: Final = (EVERYTHING, NOTHING, APP, NOT_A, selector_from_labels({"app": "a", "tier": "x"}))


def pod_of(name: str, node: str, *, terminating: bool = False, **keywords: object) -> PodInfo:
    """Make a pod on a node."""
    pod = make_pod(name, uid=f"uid-{name}", node_name=node, **keywords)
    if terminating:
        metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
        pod = msgspec.structs.replace(pod, metadata=metadata)
    return PodInfo.of(pod)


def test_a_view_of_some_nodes_counts_on_those(world: World) -> None:
    """The rows of a subset come in its order."""
    for number in range(4):
        world.node(f"n{number}")
        for index in range(number):
            world.bound(f"p{number}-{index}", f"n{number}", labels={"app": "a"})
    nodes = world.update().nodes
    view = nodes.take(np.array([3, 0, 2], dtype=np.int64))
    assert view.matching_pods(APP, HERE).tolist() == [3, 0, 2]


def test_statements_are_followed_and_undone(world: World) -> None:
    """What is placed in thought counts until it is rolled back."""
    world.node("a")
    stays = world.bound("p", "a", labels={"app": "a"})
    snapshot = world.update()
    count = snapshot.nodes.matching_pods
    assert count(APP, HERE).tolist() == [1]
    with snapshot.undo_at_end():
        snapshot.place(world.pod("q", "a", labels={"app": "a"}), "a")
        assert count(APP, HERE).tolist() == [2]
        snapshot.evict(stays, "a")
        assert count(APP, HERE).tolist() == [1]
    assert count(APP, HERE).tolist() == [1]


def test_answers_cannot_be_written_to(world: World) -> None:
    """They belong to the snapshot, and are the same array for whoever asks the same."""
    world.node("a")
    nodes = world.update().nodes
    answer = nodes.matching_pods(APP, HERE)
    assert nodes.matching_pods(APP, HERE) is answer
    with pytest.raises(ValueError, match="read-only"):
        answer[0] = 1


def test_a_forgotten_question_is_answered_anew(world: World) -> None:
    """Only so many answers are kept; the one not asked for longest goes, and its pods no longer know of it."""
    world.node("a")
    world.bound("p", "a", labels={"app": "a"})
    count = world.update().nodes.matching_pods
    first, kept = count(APP, HERE), count(EVERYTHING, HERE)
    for number in range(300):
        assert count(selector_from_labels({"app": f"{number}"}), HERE).tolist() == [0]
        assert count(EVERYTHING, HERE) is kept
    assert count(APP, HERE) is not first
    world.bound("q", "a", labels={"app": "a"})
    count = world.update().nodes.matching_pods
    assert [count(each, HERE).tolist() for each in (APP, EVERYTHING)] == [[2], [2]]


def test_answers_about_long_selectors_are_forgotten_by_their_size(world: World) -> None:
    """Few answers are kept about selectors with thousands of values."""
    world.node("a")
    world.cache.add_pod(pod_of("p", "a", labels={"app": "3-1"}))
    count = world.update().nodes.matching_pods
    for number in range(20):
        values = tuple(f"{number}-{i}" for i in range(10_000))
        selector = CompiledSelector.of([Requirement("app", "In", values)])
        assert count(selector, HERE).tolist() == [int(number == 3)]
    assert len(world.snapshot._columns.pod_matches._answers) < 6
    world.snapshot.check_invariants()


def test_answers_grow_with_the_cluster(world: World) -> None:
    """Questions asked of a small cluster are right when it has become a large one, and a small one again."""
    nodes = [world.node(f"n{number}") for number in range(3)]
    world.bound("p", "n1", labels={"app": "a"})
    assert world.update().nodes.matching_pods(APP, HERE).tolist() == [0, 1, 0]
    for number in range(3, 300):
        world.node(f"n{number}")
    world.bound("q", "n299", labels={"app": "a"})
    counts = world.update().nodes.matching_pods(APP, HERE).tolist()
    assert [row for row, count in enumerate(counts) if count] == [1, 299]
    world.cache.remove_node(nodes[0])
    view = world.update().nodes
    counts = view.matching_pods(APP, HERE)
    assert sorted(view.name(row) for row in np.flatnonzero(counts).tolist()) == ["n1", "n299"]


PODS = st.fixed_dictionaries(
    {
        "namespace": st.sampled_from(["default", "other"]),
        "labels": st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["a", "x"])),
        "terminating": st.booleans(),
    }
)
COMES = st.tuples(st.just("pod"), st.integers(0, 9), st.integers(0, 2), PODS)
STEPS = st.lists(
    st.one_of(
        COMES,
        COMES,
        COMES,
        st.tuples(st.just("gone"), st.integers(0, 9)),
        st.tuples(st.just("node"), st.integers(0, 4)),
        st.tuples(st.just("no node"), st.integers(0, 4)),
        st.tuples(st.just("ask"), st.just(EVERYTHING), st.just(BOTH), st.just(True)),
        st.tuples(st.just("ask"), st.sampled_from(SELECTORS), st.sampled_from([HERE, BOTH, None]), st.booleans()),
    ),
    min_size=10,
    max_size=40,
)


@pytest.mark.slow
def test_answers_follow_whatever_happens(make_world: type[World]) -> None:
    """After random changes every answer is what a look at each pod gives; all of them are asked often enough."""
    asked: Counter[str] = Counter()

    @settings(max_examples=4 * settings.default.max_examples)
    @given(steps=STEPS)
    def run(steps: list[tuple[object, ...]]) -> None:
        world = make_world()
        nodes = {name: world.node(name) for name in ("n0", "n1", "n2")}
        pods: dict[str, PodInfo] = {}
        for kind, *details in steps:
            name = f"p{details[0]}" if kind in {"pod", "gone"} else f"n{details[0]}"
            if kind == "pod":
                _, node, spec = details
                made = pod_of(name, f"n{node}", **spec)
                if name in pods:
                    world.cache.update_pod(pods[name].pod, made)
                else:
                    world.cache.add_pod(made)
                pods[name] = made
            elif kind == "gone" and name in pods:
                world.cache.remove_pod(pods.pop(name).pod)
            elif kind == "node":
                nodes[name] = world.node(name)
            elif kind == "no node" and name in nodes:
                world.cache.remove_node(nodes.pop(name))
            elif kind == "ask":
                selector, namespaces, terminating = details
                view = world.update().nodes
                found = view.matching_pods(selector, namespaces, terminating=terminating).tolist()
                naive = [
                    sum(
                        (namespaces is None or each.pod.namespace in namespaces)
                        and (terminating or not each.pod.is_terminating)
                        and selector.matches(each.pod.labels)
                        for each in info.pods
                    )
                    for info in view
                ]
                assert found == naive
                asked["any" if any(naive) else "none"] += 1
        world.update()
        world.check()

    run()
    assert min(asked["any"], asked["none"]) > 50, asked

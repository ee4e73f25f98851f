"""The equivalence cache: from the second pod of a class on, within bounds, and only where plugins promise reuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from pyscheduler.api import Pod
from pyscheduler.framework import (
    ConfigError,
    CycleState,
    FilterPlugin,
    NodeInfo,
    Nodes,
    NodeStatuses,
    PodInfo,
    Reuse,
    ScorePlugin,
    SignFragment,
    SignPlugin,
    Status,
)
from pyscheduler.runtime.equivalence_cache.classes import EquivalenceClasses
from pyscheduler.runtime.equivalence_cache.equivalence_key import equivalence_key
from pyscheduler.runtime.profile import Profile
from pyscheduler.testing.builders import make_node, make_pod
from tests.runtime.conftest import Kit

FULL = Status.unschedulable("full")


class Signing(SignPlugin):
    """Signs nothing in particular."""

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return ()


class Counting(FilterPlugin, ScorePlugin, Signing):
    """Refuses nodes with two pods or more, scores by pods; notes how many rows it is asked about each time."""

    reuse = Reuse.WHILE_AMOUNTS_STAY
    asked: list[int]
    score_by: int = 1

    def __init__(self, args: object, handle: Any) -> None:
        super().__init__(args, handle)
        self.asked = []

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        self.asked.append(len(nodes))
        return NodeStatuses.failing(nodes.pod_counts() >= 2, FULL)

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> np.ndarray[Any, np.dtype[np.int64]]:
        return nodes.pod_counts() * self.score_by


class Heir(Counting):
    """Inherits methods, and no promise."""


class Exempting(Counting):
    """Lets nothing be kept of pods whose name begins with "special"."""

    reuse = Reuse.WHILE_AMOUNTS_STAY

    def may_reuse(self, pod: Pod) -> bool:
        if pod.name == "special-broken":
            raise ValueError(pod.name)
        return not pod.name.startswith("special")


class Noting(Counting):
    """Depends on an annotation of the pod, which it declares."""

    reuse = Reuse.WHILE_AMOUNTS_STAY
    reuse_annotations = ("example.com/size",)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        self.asked.append(len(nodes))
        return NodeStatuses.failing(nodes.pod_counts() >= int(pod.annotations.get("example.com/size", "9")), FULL)


class Unsigned(FilterPlugin):
    """Judges nodes and cannot sign."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        return None


class OneByOne(FilterPlugin, Signing):
    """Judges one node at a time."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None


def search(kit: Kit, profile: Profile, name: str = "p", **keywords: Any) -> list[int]:
    """Run a cycle up to Score; return the totals."""
    pod, state, nodes = make_pod(name, **keywords), CycleState(), kit.snapshot.nodes
    assert profile.run_pre_filter(state, pod, nodes).status is None
    found = profile.find_feasible(state, pod, nodes)
    left = nodes if len(found.rows) == len(nodes) else nodes.take(found.rows)
    assert profile.run_pre_score(state, pod, left) is None
    totals = profile.rank_nodes(state, pod, left).totals
    return [int(total) for total in totals]


def place(kit: Kit, name: str, node: str) -> None:
    """Put a pod on a node."""
    kit.add_nodes(pods=[make_pod(name, node_name=node)])


def plugin_of(profile: Profile, name: str) -> Any:
    """Return the plugin."""
    return profile.plugins[name]


def test_plugins_are_asked_about_nodes_that_changed_only(kit: Kit) -> None:
    """The first two pods of a kind cost a look at all nodes, later ones a look at the node with one more pod."""
    kit.add_nodes("a", "b", "c")
    profile = kit.profile(Counting)
    for number in range(3):
        assert search(kit, profile, f"p{number}") == [0, 0, 0]
    place(kit, "x", "b")
    assert search(kit, profile) == [0, 1, 0]
    place(kit, "y", "b")
    assert search(kit, profile) == [0, 0]
    assert plugin_of(profile, "Counting").asked == [3, 3, 1, 1]


def test_nodes_as_full_as_others_before_are_not_asked_about(kit: Kit) -> None:
    """What was said of a node with one pod goes for the next that has one."""
    kit.add_nodes("a", "b", "c")
    profile = kit.profile(Counting)
    search(kit, profile)
    search(kit, profile)
    for number, node in enumerate("abc"):
        place(kit, f"x{number}", node)
        search(kit, profile)
    assert plugin_of(profile, "Counting").asked == [3, 3, 1]


def test_a_statement_and_its_rollback_are_changes_like_others(kit: Kit) -> None:
    """Pods that are placed in thought count while they are there."""
    kit.add_nodes("a", "b")
    profile = kit.profile(Counting)
    search(kit, profile)
    search(kit, profile)
    with kit.snapshot.undo_at_end():
        kit.snapshot.place(PodInfo.of(make_pod("x", node_name="a")), "a")
        assert search(kit, profile) == [1, 0]
    assert search(kit, profile) == [0, 0]


def test_refusals_come_with_their_status_and_plugin(kit: Kit) -> None:
    """A failure that is recalled reads like one that was worked out."""
    kit.add_nodes("a", "b", pods=[make_pod(f"x{i}", node_name="ab"[i % 2]) for i in range(4)])
    profile = kit.profile(Counting)
    answers = []
    for number in range(4):
        pod, state = make_pod(f"p{number}"), CycleState()
        profile.run_pre_filter(state, pod, kit.snapshot.nodes)
        statuses = profile.find_feasible(state, pod, kit.snapshot.nodes).statuses
        assert statuses is not None
        answers.append(dict(statuses.items()))
    assert answers == [{"a": FULL.with_plugin("Counting"), "b": FULL.with_plugin("Counting")}] * 4
    assert plugin_of(profile, "Counting").asked == [2, 2]


@pytest.mark.parametrize(
    ("classes", "name"),
    [
        pytest.param((Heir,), "Heir", id="no-promise"),
        pytest.param((Counting, Unsigned), "Counting", id="a-plugin-that-cannot-sign"),
        pytest.param((Counting, OneByOne), "Counting", id="a-filter-for-one-node-at-a-time"),
    ],
)
def test_nothing_is_kept_without_every_plugins_leave(kit: Kit, classes: Sequence[type], name: str) -> None:
    """Each pod costs a look at all nodes."""
    kit.add_nodes("a", "b")
    profile = kit.profile(*classes)
    for number in range(4):
        search(kit, profile, f"p{number}")
    assert plugin_of(profile, name).asked == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("classes", "lines"),
    [
        pytest.param((Counting,), [], id="none"),
        pytest.param(
            (Heir,),
            [
                (
                    "Equivalence cache leaves out a plugin profile=pyscheduler plugin=Heir "
                    'reason="is a subclass of Counting and does not declare reuse itself"'
                )
            ],
            id="subclass",
        ),
        pytest.param(
            (Counting, Unsigned, OneByOne),
            [
                (
                    "Equivalence cache is off profile=pyscheduler plugin=Unsigned "
                    'reason="judges nodes and does not inherit SignPlugin"'
                ),
                (
                    "Equivalence cache is off profile=pyscheduler plugin=OneByOne "
                    'reason="filters one node at a time (filter, not filter_nodes)"'
                ),
            ],
            id="off",
        ),
    ],
)
def test_start_logs_which_plugins_prevent_caching(
    kit: Kit, caplog: pytest.LogCaptureFixture, classes: Sequence[type], lines: list[str]
) -> None:
    """A profile logs each obstacle once, when the scheduler starts."""
    caplog.set_level("INFO")
    profile = kit.profile(*classes)
    assert not caplog.messages
    profile.start_background()
    search(kit, profile)
    assert caplog.messages == lines


def test_nominations_within_a_statement_leave_answers_cached(kit: Kit) -> None:
    """While a group is tried, nodes with nominated pods are filtered again only where nominations or pods changed."""
    kit.add_nodes("a", "b", "c", "d")
    kit.nominate(make_pod("member"), "a")
    kit.nominate(make_pod("other"), "b")
    profile = kit.profile(Counting)
    search(kit, profile)
    assert search(kit, profile) == [0, 0, 0, 0]
    asked = plugin_of(profile, "Counting").asked
    del asked[:]
    with kit.snapshot.undo_at_end():
        kit.snapshot.place(PodInfo.of(make_pod("member", node_name="a")), "a")
        assert search(kit, profile) == [1, 0, 0, 0]
        kit.snapshot.place(PodInfo.of(make_pod("next", node_name="b")), "b")
        # With the other pod, the node is full.
        assert search(kit, profile) == [1, 0, 0]
        assert search(kit, profile) == [1, 0, 0]
    assert search(kit, profile) == [0, 0, 0, 0]
    assert max(asked) <= 2, "never all four nodes"
    assert len(asked) <= 5


def test_a_plugin_exempts_pods_from_reuse(kit: Kit) -> None:
    """Of pods for which `may_reuse` is False, or fails, nothing is kept or recalled, though others ask the same."""
    kit.add_nodes("a", "b")
    profile = kit.profile(Exempting)
    plugin = plugin_of(profile, "Exempting")
    for name in ("p0", "p1", "p2"):
        search(kit, profile, name)
    assert plugin.asked == [2, 2]
    for name in ("special", "special-too", "special-broken"):
        search(kit, profile, name)
    assert plugin.asked == [2, 2, 2, 2, 2]
    search(kit, profile, "p3")
    assert plugin.asked == [2, 2, 2, 2, 2]


def test_pods_share_answers_if_their_declared_annotations_are_equal(kit: Kit) -> None:
    """Other annotations do not matter. A declared one separates pods, also from pods that do not have it."""
    kit.add_nodes("a", "b", pods=[make_pod("x", node_name="a")])
    profile = kit.profile(Noting)
    plugin = plugin_of(profile, "Noting")
    for number in range(3):
        annotations = {"example.com/size": "1", "example.com/number": str(number)}
        assert search(kit, profile, f"p{number}", annotations=annotations) == [0]
    assert plugin.asked == [2, 2]
    assert search(kit, profile, "q", annotations={"example.com/size": "2"}) == [1, 0]
    assert plugin.asked == [2, 2, 2]
    for number in range(3):
        assert search(kit, profile, f"r{number}", annotations={"example.com/number": str(number)}) == [1, 0]
    assert plugin.asked == [2] * 5


class OneText(Counting):
    """Gives a text in place of names."""

    reuse_annotations = "example.com/size"


def test_a_text_in_place_of_names_of_annotations_is_refused(kit: Kit) -> None:
    """It would be taken for the names of its letters."""
    with pytest.raises(ConfigError, match=r"has reuse_annotations = 'example.com/size'; write reuse_annotations = \("):
        kit.profile(OneText)


def test_scores_out_of_bounds_are_an_error_each_time(kit: Kit) -> None:
    """What cannot be kept is worked out, and complained about, for every pod."""
    kit.add_nodes("a", "b", pods=[make_pod("x", node_name="a")])
    profile = kit.profile(Counting)
    plugin_of(profile, "Counting").score_by = 1000
    for number in range(4):
        pod, state, nodes = make_pod(f"p{number}"), CycleState(), kit.snapshot.nodes
        profile.run_pre_filter(state, pod, nodes)
        profile.find_feasible(state, pod, nodes)
        profile.run_pre_score(state, pod, nodes)
        outcome = profile.rank_nodes(state, pod, nodes)
        assert outcome.status is not None
        assert "returns an invalid score 1000" in outcome.status.message


def test_pods_of_one_template_have_one_key() -> None:
    """Names, labels and the names of volumes are not part of it; what the pod asks for is."""
    volumes = [[{"name": f"token-{i}", "projected": {"sources": []}}] for i in range(2)]
    one = make_pod("a-1", requests={"cpu": "1"}, labels={"index": "1"}, spec={"volumes": volumes[0]})
    other = make_pod("a-2", requests={"cpu": "1"}, labels={"index": "2"}, spec={"volumes": volumes[1]}, priority=7)
    assert equivalence_key(one) == equivalence_key(other) is not None
    assert equivalence_key(one) != equivalence_key(make_pod("a-1", requests={"cpu": "2"}))


def test_pods_that_have_run_already_have_no_key() -> None:
    """What a resized pod counts for depends on its status."""
    status = {"containerStatuses": [{"name": "c0", "resources": {"requests": {"cpu": "2"}}}]}
    assert equivalence_key(make_pod("p", requests={"cpu": "1"}, status=status)) is None


def test_kinds_that_did_not_come_for_longest_are_forgotten() -> None:
    """Neither the number of kinds nor their bytes grow without bounds."""
    classes = EquivalenceClasses(max_classes=3)
    keys = [b"a", b"b", b"c", b"d", b"e"]
    for key in (*keys[:3], *keys[:3]):
        classes.of(key)
    assert len(classes) == 3
    assert classes.of(keys[0]) is not None
    classes.of(keys[3])
    classes.of(keys[4])
    assert classes.of(keys[0]) is not None
    assert classes.of(keys[1]) is None


def test_kinds_with_long_keys_are_forgotten_by_their_bytes() -> None:
    """A kind with a spec of a megabyte is forgotten when a few more of them came, whatever the number of kinds."""
    classes = EquivalenceClasses()

    def key(number: int) -> bytes:
        found = equivalence_key(make_pod("p", node_selector={str(number): "x" * 2**20}))
        assert found is not None
        return found

    for number in range(12):
        classes.of(key(number))
    assert classes.of(key(11)) is not None
    assert classes.of(key(0)) is None
    assert len(classes._classes) < 9


def test_large_memories_are_forgotten_first_come_first_gone(kit: Kit) -> None:
    """A memory that outgrows the bounds pushes out those not used for longest, never itself."""
    kit.add_nodes(*(make_node(f"n{number}") for number in range(100)))
    profile = kit.profile(Counting)
    assert profile.equivalence_cache is not None
    classes = profile.equivalence_cache.classes = EquivalenceClasses(max_bytes=3000)
    for cpu in range(1, 9):
        for _ in range(3):
            search(kit, profile, requests={"cpu": str(cpu)})
        assert 0 < classes.size <= 3000
    assert 1 <= len(classes) <= 5

"""PreFilter: rejections, skips, narrowing, and what-ifs."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import Pod
from pyscheduler.framework import (
    Code,
    CycleState,
    FilterPlugin,
    NodeInfo,
    Nodes,
    Plugin,
    PodInfo,
    PreFilterPlugin,
    PreFilterResult,
    Status,
)
from pyscheduler.testing import FakeCluster
from pyscheduler.testing.builders import make_pod


def plugin(name: str, answer: Any = None) -> type[Plugin]:
    """Make a PreFilter plugin that always gives `answer`, and writes down that it was asked."""

    class Made(PreFilterPlugin, FilterPlugin):
        asked = 0

        def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
            type(self).asked += 1
            return answer

        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
            return Status.unschedulable(f"{name} refuses")

        def add_pod(self, state: CycleState, pod: Pod, to_add: PodInfo, node: NodeInfo) -> Status | None:
            log.append((name, "add", to_add.pod.name, node.name))
            return None

        def remove_pod(self, state: CycleState, pod: Pod, to_remove: PodInfo, node: NodeInfo) -> Status | None:
            log.append((name, "remove", to_remove.pod.name, node.name))
            return None

    Made.name = name
    return Made


log: list[tuple[str, ...]] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    log.clear()


def only(*names: str) -> PreFilterResult:
    """Narrow to these nodes."""
    return PreFilterResult(frozenset(names))


def test_nothing_to_say_is_success(kit: Any) -> None:
    """None, a success and a result without nodes all mean: go on, with all nodes."""
    profile = kit.profile(plugin("A"), plugin("B", Status(Code.SUCCESS)), plugin("C", PreFilterResult()))
    outcome = profile.run_pre_filter(CycleState(), make_pod("p"), kit.snapshot.nodes)
    assert (outcome.result, outcome.status, outcome.narrowed_by) == (None, None, frozenset())


def test_a_rejection_lets_the_others_run(kit: Any) -> None:
    """Preemption will want what all plugins write; the last of several rejections counts."""
    classes = [plugin("A", Status.unschedulable("a")), plugin("B", Status.unschedulable("b")), plugin("C")]
    profile = kit.profile(*classes)
    outcome = profile.run_pre_filter(CycleState(), make_pod("p"), kit.snapshot.nodes)
    assert outcome.status == Status(Code.UNSCHEDULABLE, "b", plugin="B")
    assert [cls.asked for cls in classes] == [1, 1, 1]


def test_a_rejection_that_nothing_resolves_ends_the_phase(kit: Any) -> None:
    """UnschedulableAndUnresolvable outweighs an earlier plain rejection and stops the rest."""
    classes = [plugin("A", Status.unschedulable("a")), plugin("B", Status.unresolvable("b")), plugin("C")]
    profile = kit.profile(*classes)
    outcome = profile.run_pre_filter(CycleState(), make_pod("p"), kit.snapshot.nodes)
    assert outcome.status == Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "b", plugin="B")
    assert outcome.narrowed_by == frozenset()
    assert [cls.asked for cls in classes] == [1, 1, 0]


def test_a_plugin_that_skips_is_left_out_of_the_cycle(kit: Any) -> None:
    """After Skip neither the filter nor add_pod and remove_pod of the plugin are called."""
    kit.add_nodes("n1")
    profile = kit.profile(plugin("A", Status.skip()))
    state, pod = CycleState(), make_pod("p")
    assert profile.run_pre_filter(state, pod, kit.snapshot.nodes).status is None
    assert len(profile.find_feasible(state, pod, kit.snapshot.nodes).rows) == 1
    assert profile.run_add_pod(state.clone(), pod, PodInfo.of(make_pod("q")), kit.snapshot.nodes[0]) is None
    assert not log


def test_skips_do_not_outlive_their_cycle(kit: Any) -> None:
    """The next pod's cycle starts with all plugins."""
    kit.add_nodes("n1")
    profile = kit.profile(plugin("A", Status.skip()))
    pod = make_pod("p")
    profile.run_pre_filter(CycleState(), pod, kit.snapshot.nodes)
    assert not len(profile.find_feasible(CycleState(), pod, kit.snapshot.nodes).rows)


@pytest.mark.parametrize(
    ("answers", "left", "message"),
    [
        pytest.param([only("a", "b"), only("b", "c")], {"b"}, None, id="intersected"),
        pytest.param([None, only("a"), None], {"a"}, None, id="by one alone"),
        pytest.param(
            [only("a"), only("b")], set(), "node(s) didn't satisfy plugin(s) [P0 P1] simultaneously", id="none"
        ),
        pytest.param([only()], set(), "node(s) didn't satisfy plugin P0", id="none, by one alone"),
    ],
)
def test_nodes_are_narrowed(kit: Any, answers: list[Any], left: set[str], message: str | None) -> None:
    """Results are intersected; an empty one rejects the pod, in nobody's name but listing all who narrowed."""
    profile = kit.profile(*(plugin(f"P{number}", answer) for number, answer in enumerate(answers)))
    outcome = profile.run_pre_filter(CycleState(), make_pod("p"), kit.snapshot.nodes)
    assert outcome.result.node_names == left
    assert outcome.narrowed_by == {f"P{number}" for number, answer in enumerate(answers) if answer is not None}
    if message is None:
        assert outcome.status is None
    else:
        assert outcome.status == Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, message)


def test_nodes_must_be_a_set(kit: Any) -> None:
    """A list of names cannot be intersected; the plugin is told."""
    outcome = kit.profile(plugin("A", PreFilterResult(["a"]))).run_pre_filter(  # type: ignore[arg-type]  # the mistake
        CycleState(), make_pod("p"), kit.snapshot.nodes
    )
    assert outcome.status.code == Code.ERROR
    assert "returned list; expected a set of node names" in outcome.status.message


def test_an_empty_intersection_ends_the_phase(kit: Any) -> None:
    """Once no node is left the other plugins need not look."""
    last = plugin("C")
    profile = kit.profile(plugin("A", only("a")), plugin("B", only("b")), last)
    profile.run_pre_filter(CycleState(), make_pod("p"), kit.snapshot.nodes)
    assert last.asked == 0  # type: ignore[attr-defined]  # the test's own counter


def test_what_ifs_reach_all_plugins_in_order(kit: Any) -> None:
    """A pod put on or taken off a node in thought is told to every PreFilter plugin."""
    kit.add_nodes("n1")
    profile = kit.profile(plugin("A"), plugin("B"))
    state, pod, other = CycleState(), make_pod("p"), PodInfo.of(make_pod("q"))
    assert profile.run_add_pod(state, pod, other, kit.snapshot.nodes[0]) is None
    assert profile.run_remove_pod(state, pod, other, kit.snapshot.nodes[0]) is None
    assert log == [
        ("A", "add", "q", "n1"),
        ("B", "add", "q", "n1"),
        ("A", "remove", "q", "n1"),
        ("B", "remove", "q", "n1"),
    ]


@pytest.mark.parametrize("what", ["add_pod", "remove_pod"])
def test_a_failing_what_if_is_an_error(kit: Any, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """A rejection has no place in a what-if: it is reported as kube-scheduler reports it."""
    kit.add_nodes("n1")
    cls = plugin("A")
    monkeypatch.setattr(cls, what, lambda *_: Status.unschedulable("not like this"))
    profile = kit.profile(cls)
    run = getattr(profile, f"run_{what}")
    status = run(CycleState(), make_pod("p"), PodInfo.of(make_pod("q")), kit.snapshot.nodes[0])
    operation = {"add_pod": "AddPod", "remove_pod": "RemovePod"}[what]
    assert status.message == f'running {operation} on PreFilter plugin "A": not like this'
    assert (status.code, status.plugin) == (Code.ERROR, "A")


@pytest.mark.parametrize("declares", [True, False])
async def test_a_filter_may_say_that_it_counts_across_nodes(declares: bool, cluster: FakeCluster) -> None:
    """Then each node is looked at alone, without `add_pod` and `remove_pod` that do nothing."""

    class Sums(FilterPlugin):
        counts_across_nodes = declares

        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
            return None

    cluster.add_node("n1")
    framework, state = cluster.framework(enable=[Sums]), CycleState()
    assert framework.run_pre_filter(make_pod("p"), state) is None
    assert framework.profile.counts_across_nodes(state) is declares

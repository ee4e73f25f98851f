"""Filter: which nodes are left, and who was first to refuse the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

from pyscheduler.api import Pod
from pyscheduler.framework import (
    Code,
    CycleState,
    FilterPlugin,
    NodeInfo,
    Nodes,
    NodeStatuses,
    Plugin,
    PodInfo,
    PreFilterPlugin,
    StateKey,
    Status,
)
from pyscheduler.testing.builders import make_node, make_pod

REFUSALS = (None, Status.unschedulable("no"), Status.unresolvable("never"), Status.unschedulable("full", "busy"))
#: The pods that a what-if has put on the node, as the plugins below were told.
ADDED = StateKey[tuple[str, ...]]("added")


@attrs.define
class Judge:
    """What a plugin says of each node: `alone`, and with another pod's nomination on it, `crowded`."""

    name: str
    columnar: bool
    alone: Mapping[str, Status | None]
    crowded: Mapping[str, Status | None] = attrs.Factory(dict)

    def says(self, node: str, *, crowded: bool = False) -> Status | None:
        """Return the verdict on a node."""
        return self.crowded.get(node, self.alone.get(node)) if crowded else self.alone.get(node)

    def plugin(self, calls: list[tuple[str, str]]) -> type[Plugin]:
        """Make the plugin; calls of its one-node filter are noted as plugin and node."""
        judge = self

        class Base(PreFilterPlugin, FilterPlugin):
            name = judge.name

            def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
                return None

            def add_pod(self, state: CycleState, pod: Pod, to_add: PodInfo, node: NodeInfo) -> Status | None:
                assert to_add.pod.uid in {each.pod.uid for each in node.pods}, "told before it happened"
                state.write(ADDED, (*state.get(ADDED, ()), to_add.pod.name))
                return None

        class OneNode(Base):
            name = judge.name

            def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
                calls.append((judge.name, node.name))
                return judge.says(node.name, crowded=bool(state.get(ADDED)))

        class AllNodes(Base):
            name = judge.name

            def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
                calls.append((judge.name, "*"))
                statuses = NodeStatuses(len(nodes))
                for row in range(len(nodes)):
                    verdict = judge.says(nodes.name(row), crowded=bool(state.get(ADDED)))
                    if verdict is not None:
                        statuses.fail_row(row, verdict)
                return statuses if statuses.reason_ids.any() else None

        return AllNodes if self.columnar else OneNode


def columnar(name: str, alone: Mapping[str, Status | None] | None = None, **crowded: Status) -> Judge:
    """Make a judge that looks at all nodes at once."""
    return Judge(name, columnar=True, alone=alone or {}, crowded=crowded)


def scalar(name: str, alone: Mapping[str, Status | None] | None = None, **crowded: Status) -> Judge:
    """Make a judge that looks at one node at a time."""
    return Judge(name, columnar=False, alone=alone or {}, crowded=crowded)


NO = Status.unschedulable("no")


class Court:
    """A profile of judges over nodes called n0, n1, ..."""

    def __init__(self, kit: Any, nodes: int, *judges: Judge) -> None:
        self.kit = kit
        self.judges = judges
        self.calls: list[tuple[str, str]] = []
        self.pod = make_pod("p", priority=10)
        kit.add_nodes(*(make_node(f"n{number}") for number in range(nodes)))
        self.profile = kit.profile(*(judge.plugin(self.calls) for judge in judges))
        self.state = CycleState()
        self.profile.run_pre_filter(self.state, self.pod, kit.snapshot.nodes)

    def find(self, *, limit: int | None = None, start: int = 0) -> Any:
        """Search all nodes."""
        return self.profile.find_feasible(self.state, self.pod, self.kit.snapshot.nodes, limit=limit, start=start)

    def statuses(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Return the complete statuses: plugin and status by node."""
        found = self.profile.run_filters(self.state, self.pod, self.kit.snapshot.nodes)
        return said(found)


def said(statuses: NodeStatuses) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return plugin and reasons by name, of the nodes that fail."""
    return {name: (status.plugin, status.reasons) for name, status in statuses.items()}


def test_a_view_without_nodes_has_no_feasible_one(kit: Any) -> None:
    """Nothing is asked about no nodes, and nothing breaks."""
    outcome = Court(kit, 0, columnar("A"), scalar("B")).find()
    assert (len(outcome.rows), outcome.processed, len(outcome.statuses)) == (0, 0, 0)


def test_one_node_filters_see_only_what_columns_left(kit: Any) -> None:
    """Columnar plugins go first, whatever their place in the profile."""
    court = Court(kit, 3, scalar("A", {"n2": NO}), columnar("B", {"n0": NO}))
    assert court.find().rows.tolist() == [1]
    assert court.calls == [("B", "*"), ("A", "n1"), ("A", "n2")]


def test_columns_stop_when_no_node_is_left(kit: Any) -> None:
    """Plugins after the one that killed the last node are not asked."""
    court = Court(kit, 2, columnar("A", {"n0": NO}), columnar("B", {"n1": NO}), columnar("C"), scalar("D"))
    outcome = court.find()
    assert court.calls == [("A", "*"), ("B", "*")]
    assert said(outcome.statuses) == {"n0": ("A", ("no",)), "n1": ("B", ("no",))}


def test_statuses_can_be_read_by_node_name(kit: Any) -> None:
    """PostFilter plugins read statuses by name; nodes outside the view are absent."""
    court = Court(kit, 1, columnar("A", {"n0": NO}))
    statuses = court.find().statuses
    assert statuses.get("n0") == Status(Code.UNSCHEDULABLE, "no", plugin="A")
    assert statuses.get("n9") is statuses.absent


def test_a_limit_bounds_the_calls_of_one_node_filters(kit: Any) -> None:
    """With a hundred nodes and a limit of five, five nodes that pass are all that a slow plugin sees."""
    court = Court(kit, 100, scalar("A", {"n1": NO}))
    outcome = court.find(limit=5)
    assert outcome.rows.tolist() == [0, 2, 3, 4, 5]
    assert [node for _, node in court.calls] == ["n0", "n1", "n2", "n3", "n4", "n5"]


@pytest.mark.parametrize("kind", [columnar, scalar])
def test_an_error_ends_the_search(kit: Any, kind: Any) -> None:
    """A filter that answers with an error, on one node, fails the attempt."""
    court = Court(kit, 2, kind("A", {"n1": Status.from_error(ValueError("broken"))}))
    outcome = court.find()
    assert (outcome.status.code, outcome.status.plugin) == (Code.ERROR, "A")
    assert outcome.status.message == 'running "A" filter plugin: broken'
    statuses = court.profile.run_filters(court.state, court.pod, kit.snapshot.nodes)
    assert {status.code for _, status in statuses.items()} == {Code.ERROR}
    assert len(list(statuses.items())) == 2


def test_an_error_on_a_node_that_is_refused_already_is_none(kit: Any) -> None:
    """kube-scheduler would not have asked the later plugin about that node."""
    court = Court(kit, 2, columnar("A", {"n1": NO}), columnar("B", {"n1": Status.from_error(ValueError("broken"))}))
    outcome = court.find()
    assert outcome.status is None
    assert outcome.rows.tolist() == [0]


class Codes(FilterPlugin):
    """Sets codes and no reasons."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        statuses = NodeStatuses(len(nodes))
        statuses.codes[:] = Code.UNSCHEDULABLE
        statuses.codes[0] = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        return statuses


class Short(FilterPlugin):
    """Judges one node too few."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        return NodeStatuses(len(nodes) - 1)


def test_codes_without_reasons_refuse_all_the_same(kit: Any) -> None:
    """A plugin that fills in the array of codes alone is not taken for one that passes."""
    kit.add_nodes("n0", "n1")
    outcome = kit.profile(Codes).find_feasible(CycleState(), make_pod("p"), kit.snapshot.nodes)
    assert said(outcome.statuses) == {"n0": ("Codes", ()), "n1": ("Codes", ())}
    assert outcome.statuses.rows_with(Code.UNSCHEDULABLE_AND_UNRESOLVABLE).tolist() == [0]


def test_an_answer_of_another_length_is_an_error(kit: Any) -> None:
    """A plugin that judges another number of nodes than it was shown is not believed."""
    kit.add_nodes("n0", "n1")
    outcome = kit.profile(Short).find_feasible(CycleState(), make_pod("p"), kit.snapshot.nodes)
    assert "expected one status for each of 2 nodes, not 1" in outcome.status.message


# Nominated pods


@pytest.mark.parametrize(
    ("priority", "uid", "feasible"),
    [
        pytest.param(11, "", [0], id="of a higher priority"),
        pytest.param(10, "", [0], id="of the same priority"),
        pytest.param(9, "", [0, 1], id="of a lower priority"),
        pytest.param(10, "pod-default-p", [0, 1], id="the pod itself"),
    ],
)
@pytest.mark.parametrize("kind", [columnar, scalar])
def test_room_is_left_for_nominated_pods(kit: Any, kind: Any, priority: int, uid: str, feasible: list[int]) -> None:
    """A node must fit with the nominated pods on it that do not have to yield."""
    court = Court(kit, 2, kind("A", n1=NO))
    kit.nominate(make_pod("q", uid=uid, priority=priority), "n1")
    assert court.find().rows.tolist() == feasible
    kit.snapshot.check_invariants()


def test_only_nodes_with_nominated_pods_are_looked_at_twice(kit: Any) -> None:
    """A nomination elsewhere costs the other nodes nothing."""
    court = Court(kit, 50, scalar("A"))
    kit.nominate(make_pod("q", priority=10), "n7")
    kit.nominate(make_pod("r", priority=10), "gone")
    court.find()
    nodes = [node for _, node in court.calls]
    assert nodes.count("n7") == 2
    assert len(nodes) == 51


def test_a_failing_what_if_fails_the_attempt(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a plugin cannot follow the nominated pods, nobody knows what it would have said."""
    cls = columnar("A").plugin([])
    monkeypatch.setattr(cls, "add_pod", lambda *_: Status.from_error(ValueError("lost")))
    kit.add_nodes("n0")
    kit.nominate(make_pod("q", priority=10), "n0")
    outcome = kit.profile(cls).find_feasible(CycleState(), make_pod("p", priority=10), kit.snapshot.nodes)
    assert outcome.status.message == 'running AddPod on PreFilter plugin "A": lost'
    kit.snapshot.check_invariants()


@pytest.mark.parametrize("alone", [pytest.param(None, id="it passes alone"), pytest.param(NO, id="refused alone")])
@pytest.mark.parametrize("kind", [columnar, scalar])
def test_an_error_beside_nominated_pods_fails_the_attempt(kit: Any, kind: Any, alone: Status | None) -> None:
    """A filter that fails only with the nominated pods on the node has failed, whatever it says without them."""
    court = Court(kit, 1, Judge("A", kind is columnar, {"n0": alone}, {"n0": Status.from_error(ValueError("lost"))}))
    kit.nominate(make_pod("q", priority=10), "n0")
    assert court.find().status.message == 'running "A" filter plugin: lost'
    statuses = court.profile.run_filters(court.state, court.pod, kit.snapshot.nodes)
    assert statuses.status(0).code == Code.ERROR
    kit.snapshot.check_invariants()


def test_an_error_met_while_attributing_fails_the_attempt(kit: Any) -> None:
    """A one-node plugin that fails on a node which columns had refused already is in kube-scheduler's way first."""
    court = Court(kit, 1, scalar("A", {"n0": Status.from_error(ValueError("lost"))}), columnar("B", {"n0": NO}))
    assert court.find().status.message == 'running "A" filter plugin: lost'


@pytest.mark.parametrize("kind", [columnar, scalar])
def test_a_plugin_that_skips_is_not_asked(kit: Any, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After Skip in PreFilter neither form of the filter is called, nor is the plugin named."""
    calls: list[tuple[str, str]] = []
    skipping = kind("A", {"n0": NO}).plugin(calls)
    monkeypatch.setattr(skipping, "pre_filter", lambda *_: Status.skip())
    kit.add_nodes("n0")
    profile = kit.profile(skipping, scalar("B", {"n0": NO}).plugin(calls))
    state, pod = CycleState(), make_pod("p")
    profile.run_pre_filter(state, pod, kit.snapshot.nodes)
    assert said(profile.find_feasible(state, pod, kit.snapshot.nodes).statuses) == {"n0": ("B", ("no",))}
    assert calls == [("B", "n0")]


# Against a naive model

judges = st.lists(
    st.tuples(
        st.booleans(),
        st.lists(st.sampled_from(REFUSALS), min_size=6, max_size=6),
        st.lists(st.sampled_from(REFUSALS), min_size=6, max_size=6),
    ),
    max_size=4,
)


def first_refusal(judges: list[Judge], node: str, *, crowded: bool) -> tuple[str, tuple[str, ...]] | None:
    """Ask one judge after the other about one node, as kube-scheduler does."""
    for judge in judges:
        verdict = judge.says(node, crowded=crowded)
        if verdict is not None:
            return judge.name, verdict.reasons
    return None


@given(data=judges, crowded=st.sets(st.integers(0, 5)), start=st.integers(0, 5), limit=st.integers(1, 7))
def test_the_search_agrees_with_asking_node_by_node(
    new_kit: Any, data: list[Any], crowded: set[int], start: int, limit: int
) -> None:
    """Whatever the kinds of plugins, order, limit and nominations, the outcome is that of kube-scheduler's loop."""
    kit = new_kit()
    names = [f"n{number}" for number in range(6)]
    made = [
        Judge(f"P{number}", is_columnar, dict(zip(names, alone, strict=True)), dict(zip(names, full, strict=True)))
        for number, (is_columnar, alone, full) in enumerate(data)
    ]
    court = Court(kit, 6, *made)
    for number in crowded:
        kit.nominate(make_pod(f"q{number}", priority=10), names[number])
    verdicts = {}
    for number, name in enumerate(names):
        verdict = first_refusal(made, name, crowded=True) if number in crowded else None
        verdicts[name] = verdict or first_refusal(made, name, crowded=False)
    walk = [(start + step) % 6 for step in range(6)]
    feasible = [row for row in walk if verdicts[names[row]] is None][:limit]
    outcome = court.find(limit=limit, start=start)
    assert outcome.rows.tolist() == sorted(feasible)
    assert court.statuses() == {name: verdict for name, verdict in verdicts.items() if verdict is not None}
    if feasible:
        assert outcome.statuses is None
        # Everything before the first row that was not looked at is accounted for, and no feasible row beyond.
        seen = {walk[step] for step in range(outcome.processed)}
        assert set(feasible) <= seen
        assert {row for row in seen if verdicts[names[row]] is None} <= set(feasible)
    else:
        assert said(outcome.statuses) == verdicts
        assert outcome.processed == 6
    kit.snapshot.check_invariants()


@pytest.mark.parametrize(
    "judge",
    [
        pytest.param(columnar("A"), id="all pass"),
        pytest.param(scalar("A"), id="walked"),
        pytest.param(columnar("A", {"n0": NO}), id="some pass"),
        pytest.param(columnar("A", {"n0": NO, "n1": NO}), id="none passes"),
    ],
)
def test_rows_are_sixty_four_bit_integers(kit: Any, judge: Judge) -> None:
    """Rows index views, whose `take` wants int64."""
    assert Court(kit, 2, judge).find().rows.dtype == np.int64

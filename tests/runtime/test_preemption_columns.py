"""The search for victims in columns: it comes to what the search node by node comes to, to the last random draw.

Every preemption in random histories is decided twice on the same snapshot: with columns and with what is kept of
earlier pods, and without. What filters say, nodes looked at, victims, message, chosen node and draws are compared.
Among what happens: pods and nodes come, go and change, budgets are used up, others are nominated, and preemptors
of several kinds and priorities ask again and again.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from kube_objects.clock import LoopClock
from pyscheduler.api import KubeObject, Node, Pod, PodDisruptionBudget
from pyscheduler.cache.nominated_rows import NominatedRows
from pyscheduler.cache.view import NodeView
from pyscheduler.cluster.readonly_cluster import ReadOnlyCluster, objects_of
from pyscheduler.config.load import loads
from pyscheduler.framework import (
    PREEMPTION_FINDINGS,
    Candidate,
    CycleState,
    FilterPlugin,
    Nodes,
    NodeStatuses,
    PodInfo,
    PreemptionRules,
    Reuse,
    Status,
    Trial,
    TrialKind,
)
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.runtime.equivalence_cache.classes import EquivalenceClasses
from pyscheduler.runtime.equivalence_cache.nominated_filter_cache import NominatedFilterCache
from pyscheduler.runtime.preemption import columns as preemption_columns, node_shapes
from pyscheduler.runtime.preemption.columns import Outcomes, VictimColumns
from pyscheduler.runtime.preemption.dry_run import DryRun
from pyscheduler.runtime.preemption.node_shapes import NodeShapes
from pyscheduler.runtime.preemption.nominated_usage import NominatedUsage
from pyscheduler.runtime.preemption.search import Preemption
from pyscheduler.scheduler.assembly import build
from pyscheduler.testing import make_node, make_pod
from tests.runtime.test_preemption import make_budget

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: pyscheduler
  pluginConfig:
  - name: DefaultPreemption
    args: {{minCandidateNodesPercentage: {percentage}, minCandidateNodesAbsolute: {absolute}}}
  plugins: {{multiPoint: {{enabled: [{enabled}]}}}}
"""
DISK = {"name": "d", "gcePersistentDisk": {"pdName": "d"}}
ANTI = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}

#: What preemptors ask for; by what the search can go, where nothing else is in the way.
KINDS: dict[str, dict[str, Any]] = {
    "small": {"requests": {"cpu": "500m"}},
    "large": {"requests": {"cpu": "1500m", "memory": "1Gi"}},
    "tolerant": {"requests": {"cpu": "1"}, "spec": {"tolerations": [{"operator": "Exists"}]}},
    "choosy": {"requests": {"cpu": "1"}, "spec": {"nodeSelector": {"zone": "a"}}},
    "with a port": {"requests": {"cpu": "500m"}, "host_ports": (80,)},
    "with a disk": {"requests": {"cpu": "500m"}, "spec": {"volumes": [DISK]}},
    "apart": {
        "requests": {"cpu": "500m"},
        "spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [ANTI]}}},
    },
}


class Closed(FilterPlugin):
    """Refuses nodes by a label, in a way that seems to be worth a preemption; comes last, and is kept."""

    reuse = Reuse.WHILE_NODE_STAYS

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        """Look at the label."""
        column = nodes.labels("closed")
        return NodeStatuses.failing(column.ids == column.id_of("yes"), Status.unschedulable("node(s) were closed"))


class Grouped(PreemptionRules):
    """The default rules, but for how many pods of each app may go."""

    def __init__(self, allowed: dict[str, int], enough: int) -> None:
        self.allowed = allowed
        self.enough = enough

    def enough_candidates(self, num_nodes: int) -> int:
        """Return a number."""
        return min(self.enough, num_nodes)

    def group_budget(self, victim: Pod) -> tuple[str, int] | None:
        """Go by the label."""
        app = victim.metadata.labels.get("app", "")
        return (app, self.allowed[app]) if app in self.allowed else None


@attrs.frozen
class Known:
    """A lister that knows one pod."""

    pod: Pod

    def get(self, name: str, namespace: str) -> Pod:
        """Return it."""
        return self.pod


class PreemptionHistory:
    """A cluster with a history; whatever is decided is decided twice. `fired` says how often what happened."""

    def __init__(self, seed: int, fired: Counter[str]) -> None:
        self.rng = random.Random(seed)
        self.fired = fired
        self.number = 0
        self.pods: dict[str, PodInfo] = {}
        self.budgets: list[PodDisruptionBudget] = []
        self.groups: dict[str, int] = {}
        self.nominated: list[Pod] = []
        self.chosen: Candidate | None = None
        self.nodes: dict[str, Node] = {}

    async def begin(self) -> None:
        """Start a scheduler with one of several profiles."""
        closed = self.rng.random() < 0.3
        self.fired["a filter comes last"] += closed
        objects: dict[type[KubeObject], list[Any]] = {}
        registry = discover()
        registry.add("Closed", Closed)
        self.enough = self.rng.choice([1, 2, 3, 100])
        text = CONFIG.format(
            absolute=self.enough, percentage=self.rng.choice([0, 50]), enabled="{name: Closed}" if closed else ""
        )
        self.scheduler = build(
            loads(text, source="test"),
            ReadOnlyCluster(objects_of(objects)),
            LoopClock(),
            random.Random(self.rng.random()),
            registry=registry,
        )
        await self.scheduler.start()
        self.profile = self.scheduler.profiles["pyscheduler"]
        self.preemptor = self.profile.preemptors["DefaultPreemption"]
        if self.rng.random() < 0.3:
            rules = Grouped(self.groups, self.enough)
            self.preemptor._rules = rules
            self.preemptor._columns = VictimColumns(rules, self.profile.snapshot, self.profile.equivalence_key)
            self.fired["groups have budgets"] += 1
        self.columns = self.preemptor._columns
        self.preemptor._budgets = self.budgets
        # Whoever is nominated is believed to be there.
        self.scheduler.queue.nominator._find_pod = None
        self.preemptor.evict = self.evict  # type: ignore[method-assign]
        for _ in range(5):
            self.add_node()
        for _ in range(30):
            self.add_pod()

    async def evict(self, chosen: Candidate, pod: Pod) -> None:
        """Note who was chosen, and evict nobody."""
        self.chosen = chosen

    # What happens

    def _node(self, name: str) -> Node:
        rng = self.rng
        return make_node(
            name,
            allocatable={"cpu": rng.choice("223"), "memory": rng.choice(["2Gi", "16Gi"])},
            labels={"zone": rng.choice("ab"), "closed": rng.choice(["no", "no", "yes"])},
            taints=rng.choice([(), (), ({"key": "t", "effect": "NoSchedule"},)]),
        )

    def add_node(self) -> None:
        self.number += 1
        node = self.nodes[f"n{self.number}"] = self._node(f"n{self.number}")
        self.scheduler.cache.add_node(node)

    def change_node(self) -> None:
        name = self.rng.choice(sorted(self.nodes))
        old, new = self.nodes[name], self._node(name)
        self.nodes[name] = new
        self.scheduler.cache.update_node(old, new)

    def remove_node(self) -> None:
        if len(self.nodes) > 3:
            name = self.rng.choice(sorted(self.nodes))
            for info in [info for info in self.pods.values() if info.pod.node_name == name]:
                self.scheduler.cache.remove_pod(self.pods.pop(info.pod.uid).pod)
            self.scheduler.cache.remove_node(self.nodes.pop(name))

    def add_pod(self) -> None:
        rng = self.rng
        self.number += 1
        keywords: dict[str, Any] = {"requests": {"cpu": rng.choice(["250m", "500m", "500m", "1"])}}
        if rng.random() < 0.05:
            keywords = KINDS[rng.choice(["with a port", "with a disk", "apart"])]
            self.fired["a pod that others must look at"] += 1
        pod = make_pod(
            f"p{self.number}",
            node_name=rng.choice(sorted(self.nodes)),
            priority=rng.choice([-1, 0, 0, 0, 5, 30]),
            labels={"app": rng.choice("abc")},
            status=rng.choice([{}, {}, {}, *({"startTime": f"2026-01-01T00:00:1{each}Z"} for each in range(4))]),
            **keywords,
        )
        info = self.pods[pod.uid] = PodInfo.of(pod)
        self.scheduler.cache.add_pod(info)

    def crowd(self) -> None:
        """Fill a node with many that are alike, so that in which order they are spared depends on how many are."""
        name = self.rng.choice(sorted(self.nodes))
        status = self.rng.choice([{}, {}, {"startTime": "2026-01-01T00:00:11Z"}])
        for _ in range(self.rng.randrange(10, 20)):
            self.number += 1
            requests = {"cpu": self.rng.choice(["50m", "50m", "150m"])}
            priority = self.rng.choice([0, 0, 0, 0, 30])
            pod = make_pod(f"p{self.number}", node_name=name, priority=priority, status=status, requests=requests)
            info = self.pods[pod.uid] = PodInfo.of(pod)
            self.scheduler.cache.add_pod(info)

    def remove_pod(self) -> None:
        if self.pods:
            self.scheduler.cache.remove_pod(self.pods.pop(self.rng.choice(sorted(self.pods))).pod)

    def change_budgets(self) -> None:
        self.budgets[:] = [
            make_budget(f"b{app}", {"app": app}, allowed=self.rng.randrange(3))
            for app in "abc"
            if self.rng.random() < 0.3
        ]

    def change_groups(self) -> None:
        self.groups.clear()
        self.groups.update({app: self.rng.randrange(3) for app in "abc" if self.rng.random() < 0.4})

    def promise(self) -> None:
        self.number += 1
        pod = make_pod(
            f"q{self.number}",
            priority=self.rng.choice([5, 10, 20, 40]),
            status={"nominatedNodeName": self.rng.choice(sorted(self.nodes))},
            **KINDS[self.rng.choice(["small", "small", "large", "with a port"])],
        )
        self.nominated.append(pod)
        self.scheduler.queue.nominator.add(PodInfo.of(pod))

    def break_promises(self) -> None:
        for pod in self.nominated:
            self.scheduler.queue.nominator.delete(pod)
        self.nominated.clear()

    def think(self) -> None:
        """Change the snapshot in thought."""
        snapshot = self.scheduler.snapshot
        self.scheduler.cache.update_snapshot(snapshot)
        with snapshot.undo_at_end():
            for info in list(self.pods.values())[:3]:
                snapshot.evict(info, info.pod.node_name)

    # Deciding twice

    async def preempt(self) -> None:
        """Let a pod ask for room."""
        self.number += 1
        kind = self.rng.choice(["small", "small", "large", "large", *KINDS])
        pod = make_pod(f"w{self.number}", priority=self.rng.choice([0, 10, 10, 20, 40]), **KINDS[kind])
        self.scheduler.cache.update_snapshot(self.scheduler.snapshot)
        draws = self.preemptor._rng.getstate()
        aloud = self.rng.random() < 0.3
        counts_across_nodes = self.profile.counts_across_nodes
        one_by_one = self.rng.random() < 0.5
        self.preemptor._columns = None
        with pytest.MonkeyPatch.context() as patches:
            patches.setattr(self.profile, "counts_across_nodes", lambda state: one_by_one or counts_across_nodes(state))
            if self.profile.equivalence_cache is not None:
                patches.setattr(self.profile.equivalence_cache, "classes", EquivalenceClasses(max_classes=0))
            expected = await self._decide(pod, aloud=aloud)
        self.preemptor._columns = self.columns
        after = self.preemptor._rng.getstate()
        self.preemptor._rng.setstate(draws)
        actual = await self._decide(pod, aloud=aloud)
        assert actual == expected
        assert self.preemptor._rng.getstate() == after
        self.scheduler.snapshot.check_invariants()

    async def _decide(self, pod: Pod, *, aloud: bool) -> tuple[object, ...]:
        """Return all that comes of it, from the filters on."""
        self.chosen = None
        state = CycleState(Trial(TrialKind.EXPLAIN) if aloud else None)
        view = self.scheduler.snapshot.nodes
        evaluations = Counter(self.profile.evaluations())
        outcome = self.profile.run_pre_filter(state, pod, view)
        found = self.profile.find_feasible(state, pod, view)
        asked = Counter(self.profile.evaluations()) - evaluations
        if outcome.status is not None or found.statuses is None:
            return outcome.status, found.rows.tolist(), asked
        said = dict(found.statuses.items())
        self.preemptor._pods = Known(pod)  # type: ignore[assignment]
        result, status = await self.preemptor.preempt(state, pod, found.statuses)
        nominated = result.nominating_info.node_name if result is not None and result.nominating_info else None
        findings = state.get(PREEMPTION_FINDINGS)
        seen: tuple[object, ...] = ()
        if aloud and findings is not None:  # Only a trial notes each node.
            seen = (findings.candidates, findings.statuses, findings.best, findings.chosen)
        self.fired["chosen" if nominated else "hopeless"] += 1
        self.fired["chosen aloud"] += bool(aloud and nominated)
        return said, asked, nominated, status.code, status.message, self.chosen, seen


EVENTS = {
    PreemptionHistory.add_node: 0.3,
    PreemptionHistory.change_node: 0.5,
    PreemptionHistory.remove_node: 0.3,
    PreemptionHistory.add_pod: 4.0,
    PreemptionHistory.crowd: 0.1,
    PreemptionHistory.remove_pod: 3.2,
    PreemptionHistory.change_budgets: 0.7,
    PreemptionHistory.change_groups: 0.7,
    PreemptionHistory.promise: 1.0,
    PreemptionHistory.break_promises: 0.4,
    PreemptionHistory.think: 0.5,
    PreemptionHistory.preempt: 12.0,
}


def watch(monkeypatch: pytest.MonkeyPatch, fired: Counter[str]) -> None:
    """Count which ways the search goes."""
    look, learn, shapes = VictimColumns.look, VictimColumns._learn, VictimColumns._shapes
    best, dry_run = Outcomes.best, DryRun.look
    lined_up = NodeShapes._order_for
    draw, answered = Preemption._draw, NominatedFilterCache.answer

    async def looked(columns: VictimColumns, *args: Any, **keywords: Any) -> Outcomes | None:
        outcomes = await look(columns, *args, **keywords)
        fired["in columns" if outcomes is not None else "given up"] += 1
        return outcomes

    async def learned(columns: VictimColumns, *args: Any, **keywords: Any) -> bool:
        before = fired["dry runs"]
        answer = await learn(columns, *args, **keywords)
        fired["all known" if fired["dry runs"] == before else "something learned"] += 1
        return answer

    def shaped(columns: VictimColumns, run: DryRun, rows: Any, by_amounts: Any, usage: NominatedUsage) -> Any:
        found = shapes(columns, run, rows, by_amounts, usage)
        fired["by amounts"] += int(by_amounts.sum())
        fired["by themselves"] += int((~by_amounts).sum())
        fired["nominated to others"] += sum(row in usage.pods for row in rows.tolist())
        fired["protected"] += len(columns._protected_on(run, rows.tolist()))
        return found

    def ran(run: DryRun, names: Any) -> Any:
        fired["dry runs"] += 1
        return dry_run(run, names)

    def crowded(crowds: NominatedFilterCache, uid: str, nodes: NodeView, nominated: NominatedRows, ask: Any) -> Any:
        asked: dict[int, Any] = {}

        def asking(unknown: Any) -> Any:
            asked.update(unknown)
            return ask(unknown)

        answer = answered(crowds, uid, nodes, nominated, asking)
        fired["crowds known"] += len(nominated.pods) - len(asked)
        fired["crowds asked"] += len(asked)
        return answer

    def chosen(outcomes: Outcomes) -> Any:
        places = best(outcomes)
        fired["a violation is chosen"] += bool(places) and outcomes.candidate(places[0]).pdb_violations > 0
        fired["nobody to choose"] += not places
        return places

    def drawn(preemption: Preemption, among: Any) -> Any:
        fired["drawn among equals"] += len(among) > 1
        return draw(preemption, among)

    def lined(node_shapes: NodeShapes, row: int, priority: int) -> Any:
        found = lined_up(node_shapes, row, priority)
        fired["lined up otherwise"] += found.pods != node_shapes._pods[row]
        fired["of another shape"] += found.shape != node_shapes.shapes[row]
        return found

    monkeypatch.setattr(NodeShapes, "_order_for", lined)
    monkeypatch.setattr(VictimColumns, "look", looked)
    monkeypatch.setattr(VictimColumns, "_learn", learned)
    monkeypatch.setattr(VictimColumns, "_shapes", shaped)
    monkeypatch.setattr(DryRun, "look", ran)
    monkeypatch.setattr(NominatedFilterCache, "answer", crowded)
    monkeypatch.setattr(Outcomes, "best", chosen)
    monkeypatch.setattr(Preemption, "_draw", drawn)


@pytest.mark.slow
def test_columns_change_nothing_but_the_time_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Same nodes looked at, victims, message, choice and draws as node by node, whatever happens in between."""
    fired: Counter[str] = Counter()
    watch(monkeypatch, fired)
    # So that numbers are taken back now and then, and lines outgrow their arrays.
    monkeypatch.setattr(node_shapes, "_SPARE_IDS", 20)
    monkeypatch.setattr(node_shapes, "_MIN_WIDTH", 2)
    monkeypatch.setattr(preemption_columns, "_MIN_CHUNK", 2)

    async def play(seed: int) -> None:
        world = PreemptionHistory(seed, fired)
        await world.begin()
        for event in world.rng.choices(list(EVENTS), list(EVENTS.values()), k=100):
            answer = event(world)
            if answer is not None:
                await answer
            fired[event.__name__] += 1
        assert world.columns is not None
        fired["numbers taken back"] += world.columns._node_shapes.epoch

    @settings(max_examples=settings.default.max_examples, derandomize=True, deadline=None)
    @given(st.integers(0, 2**32))
    def play_any(seed: int) -> None:
        asyncio.run(play(seed))

    play_any()
    print(dict(sorted(fired.items())))  # noqa: T201 - how often each way was gone
    assert not [name for name in WAYS if fired[name] < 2]


WAYS = (
    "a filter comes last",
    "a pod that others must look at",
    "a violation is chosen",
    "all known",
    "by amounts",
    "by themselves",
    "chosen",
    "chosen aloud",
    "crowds asked",
    "crowds known",
    "drawn among equals",
    "groups have budgets",
    "hopeless",
    "in columns",
    "lined up otherwise",
    "nobody to choose",
    "numbers taken back",
    "of another shape",
    "nominated to others",
    "protected",
    "something learned",
)

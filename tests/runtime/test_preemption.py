"""The search for victims: against a naive search on random clusters, and rule by rule."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from kube_objects.clock import LoopClock
from pyscheduler.api import (
    KubeObject,
    LabelSelector,
    Node,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from pyscheduler.cluster.readonly_cluster import ReadOnlyCluster, objects_of
from pyscheduler.config.load import loads
from pyscheduler.framework import (
    PREEMPTION_FINDINGS,
    Candidate,
    Code,
    CycleState,
    FilterPlugin,
    Handle,
    NodeInfo,
    NodeStatuses,
    PodInfo,
    PostFilterPlugin,
    PreemptionFindings,
    PreemptionRules,
    PreFilterPlugin,
    Status,
    Trial,
    TrialKind,
)
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.runtime.preemption.search import Preemption, best_of
from pyscheduler.runtime.profile import Profile
from pyscheduler.scheduler.assembly import build
from pyscheduler.scheduler.scheduler import Scheduler
from pyscheduler.testing import FakeCluster, make_node, make_pod

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


class Follower(PreFilterPlugin, FilterPlugin):
    """Keeps an account of the pods it is told of, by node, and refuses where that is not what the node says."""

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Any) -> None:
        state.write(ACCOUNT, Account({info.name: {each.pod.uid for each in info.pods} for info in nodes}))

    def add_pod(self, state: CycleState, pod: Pod, to_add: PodInfo, node: NodeInfo) -> Status | None:
        if to_add.pod.metadata.labels.get("follow") == "no":
            return Status.from_error(ValueError("cannot follow"))
        state.read(ACCOUNT).pods[node.name].add(to_add.pod.uid)
        return None

    def remove_pod(self, state: CycleState, pod: Pod, to_remove: PodInfo, node: NodeInfo) -> Status | None:
        state.read(ACCOUNT).pods[node.name].remove(to_remove.pod.uid)
        return None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        told = state.read(ACCOUNT).pods[node.name]
        assert told == {each.pod.uid for each in node.pods}, "not told of a pod"
        return None


@attrs.define
class Account:
    pods: dict[str, set[str]]

    def clone(self) -> Account:
        return Account({name: set(pods) for name, pods in self.pods.items()})


ACCOUNT: Any = "Follower"


def make_budget(
    name: str, labels: dict[str, str], *, allowed: int, disrupted: tuple[str, ...] = ()
) -> PodDisruptionBudget:
    """Return a budget on the pods with these labels."""
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace="default", uid=name, resource_version="1"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=labels)),
        status=PodDisruptionBudgetStatus(disruptions_allowed=allowed, disrupted_pods=dict.fromkeys(disrupted)),
    )


@attrs.define
class Asked:
    """What a search came to."""

    findings: PreemptionFindings
    status: Status
    nominated: str | None
    scheduler: Scheduler


async def ask(
    pod: Pod,
    nodes: list[Node],
    pods: list[Pod],
    budgets: list[PodDisruptionBudget] | None = None,
    *,
    absolute: int = 100,
    percentage: int = 10,
    follow: bool = False,
    seed: int = 0,
    extenders: Sequence[Any] = (),
) -> Asked:
    """Let the pod be refused by the filters of the default profile, and search for victims."""
    objects: dict[type[KubeObject], list[Any]] = {Node: nodes, Pod: pods, PodDisruptionBudget: budgets or []}
    registry = discover()
    registry.add("Follower", Follower)
    scheduler = build(
        loads(
            CONFIG.format(absolute=absolute, percentage=percentage, enabled="{name: Follower}" if follow else ""),
            source="test",
        ),
        ReadOnlyCluster(objects_of(objects)),
        LoopClock(),
        random.Random(seed),
        registry=registry,
    )
    await scheduler.start()
    profile: Profile = scheduler.profiles["pyscheduler"]
    scheduler.cache.update_snapshot(scheduler.snapshot)
    view = scheduler.snapshot.nodes
    state = CycleState(Trial(TrialKind.EXPLAIN))
    outcome = profile.run_pre_filter(state, pod, view)
    assert outcome.status is None
    preemptor: Preemption = profile.preemptors["DefaultPreemption"]
    preemptor._extenders = extenders
    result, status = await preemptor.preempt(state, pod, profile.run_filters(state, pod, view))
    scheduler.snapshot.check_invariants()
    findings = state.read(PREEMPTION_FINDINGS)
    info = result.nominating_info if result is not None else None
    return Asked(findings, status, info.node_name if info is not None else None, scheduler)


def search(*args: Any, **keywords: Any) -> Asked:
    """Do the same outside of an event loop."""
    return asyncio.run(ask(*args, **keywords))


def victims(candidate: Candidate) -> list[str]:
    """Return the names of the victims."""
    return [info.pod.name for info in candidate.victims]


# --- against a naive search ---------------------------------------------------------------------


@st.composite
def clusters(draw: Any) -> tuple[Pod, list[Node], list[Pod], list[PodDisruptionBudget]]:
    """Draw a cluster in which CPU and host ports are short, and a pod that wants some."""
    nodes = [make_node(f"n{number}", allocatable={"cpu": str(draw(st.integers(1, 4)))}) for number in range(3)]
    pods = [
        make_pod(
            f"p{number}",
            node_name=draw(st.sampled_from([node.name for node in nodes])),
            requests={"cpu": f"{draw(st.integers(1, 9))}00m"},
            priority=draw(st.sampled_from([-5, 0, 0, 5, 20, 20])),
            labels={"app": draw(st.sampled_from("abc"))},
            host_ports=draw(st.sampled_from([(), (), (80,)])),
            status={"startTime": f"2026-01-01T00:00:{draw(st.integers(10, 14))}Z"},
        )
        for number in range(draw(st.integers(0, 12)))
    ]
    budgets = [
        make_budget(
            f"b{app}", {"app": app}, allowed=draw(st.integers(0, 2)), disrupted=draw(st.sampled_from([(), ("p1",)]))
        )
        for app in draw(st.sets(st.sampled_from("abc"), max_size=2))
    ]
    ports = draw(st.sampled_from([(), (80,)]))
    wanted = make_pod("wanted", requests={"cpu": f"{draw(st.integers(1, 30))}00m"}, priority=10, host_ports=ports)
    return wanted, nodes, pods, budgets


def milli(pod: Pod) -> int:
    """Return what the pod requests, in m."""
    return int(str(pod.spec.containers[0].resources.requests["cpu"]).removesuffix("m"))


def has_port(pod: Pod) -> bool:
    """Tell whether the pod wants the host port."""
    return bool(pod.spec.containers[0].ports)


def fits(pod: Pod, node: Node, there: list[Pod], freed: bool) -> bool:
    """Tell whether there is room; a port is taken unless somebody who had it went after the last who came."""
    room = int(node.status.allocatable["cpu"]) * 1000 - sum(milli(each) for each in there) >= milli(pod)
    return room and not (has_port(pod) and not freed and any(has_port(each) for each in there))


def naive(
    pod: Pod, node: Node, pods: list[Pod], budgets: list[PodDisruptionBudget], fired: Counter[str]
) -> tuple[list[str], int] | None:
    """Return victims and violations on one node, None where it is of no use."""
    there = [each for each in pods if each.node_name == node.name]
    lower = [each for each in there if each.priority < pod.priority]
    left = [each for each in there if each not in lower]
    freed = any(has_port(each) for each in lower)
    if not lower or not fits(pod, node, left, freed):
        fired["hopeless"] += 1
        return None
    lower.sort(key=lambda each: (-each.priority, each.status.start_time))
    allowed = {budget.name: budget.status.disruptions_allowed for budget in budgets}
    protected = []
    for each in lower:
        bad = False
        for budget in budgets:
            matches = budget.name == f"b{each.metadata.labels['app']}"
            if matches and each.name not in budget.status.disrupted_pods:
                allowed[budget.name] -= 1
                bad = bad or allowed[budget.name] < 0
        if bad:
            protected.append(each)
    gone, violations = [], 0
    for each in [*protected, *(each for each in lower if each not in protected)]:
        before = freed
        left.append(each)
        freed = freed and not has_port(each)
        if fits(pod, node, left, freed):
            fired["spared"] += 1
            continue
        left.remove(each)
        freed = before or has_port(each)
        gone.append(each)
        violations += each in protected
        fired["violation"] += each in protected
    gone.sort(key=lambda each: (-each.priority, each.status.start_time))
    fired["candidate"] += 1
    fired["port freed for who shares it"] += has_port(pod) and any(has_port(each) for each in left)
    return [each.name for each in gone], violations


@pytest.mark.slow
def test_the_search_finds_what_a_naive_one_finds() -> None:
    """Victims, their order and violations on every node; whether nodes are looked at together or one by one."""
    fired: Counter[str] = Counter()

    @settings(max_examples=15 * settings.default.max_examples // 2, derandomize=True)
    @given(clusters())
    def compare(cluster: tuple[Pod, list[Node], list[Pod], list[PodDisruptionBudget]]) -> None:
        pod, nodes, pods, budgets = cluster
        together = search(pod, nodes, pods, budgets)
        alone = search(pod, nodes, pods, budgets, follow=True)
        assert [victims(each) for each in together.findings.candidates.values()] == [
            victims(each) for each in alone.findings.candidates.values()
        ]
        assert together.findings.statuses == alone.findings.statuses
        seen = {*together.findings.candidates, *together.findings.statuses}
        expected = {node.name: naive(pod, node, pods, budgets, fired) for node in nodes if node.name in seen}
        found = {name: (victims(each), each.pdb_violations) for name, each in together.findings.candidates.items()}
        assert found == {name: each for name, each in expected.items() if each is not None}
        fired["nothing to look at"] += not seen

    compare()
    names = ("hopeless", "spared", "candidate", "violation", "port freed for who shares it", "nothing to look at")
    assert all(fired[name] >= 3 for name in names), fired


# --- which node ---------------------------------------------------------------------------------


def candidate(name: str, *priorities: int, violations: int = 0, started: str = "00:00:00") -> Candidate:
    """Return a candidate with victims of these priorities, started at that time of a day."""
    pods = [
        make_pod(f"{name}-{number}", priority=priority, status={"startTime": f"2026-01-01T{started}Z"})
        for number, priority in enumerate(priorities)
    ]
    return Candidate(node_name=name, victims=tuple(map(PodInfo.of, pods)), pdb_violations=violations)


@pytest.mark.parametrize(
    ("candidates", "best"),
    [
        pytest.param([candidate("a", 1, violations=1), candidate("b", 9, 9)], "b", id="fewest violations"),
        pytest.param([candidate("a", 5), candidate("b", 4, 4, 4)], "b", id="lowest highest priority"),
        pytest.param([candidate("a", 5, 1), candidate("b", 5, 2)], "a", id="lowest sum of priorities"),
        pytest.param([candidate("a", -9, -9), candidate("b", -9)], "b", id="a victim costs, whatever its priority"),
        pytest.param([candidate("a", 5), candidate("b", 5, started="00:00:01")], "b", id="latest start"),
        pytest.param([candidate("a", 5, 5), candidate("b", 5, 5)], "ab", id="equals are all left"),
        pytest.param([], "", id="nobody"),
    ],
)
def test_the_best_node_is_the_one_that_costs_least(candidates: list[Candidate], best: str) -> None:
    """Each rule decides only where those before it leave several."""
    assert "".join(each.node_name for each in best_of(candidates, 0.0)) == best


def test_a_victim_that_was_not_started_starts_now() -> None:
    """It counts as the youngest, so that its node is the best."""
    waiting = Candidate(node_name="w", victims=(PodInfo.of(make_pod("w", priority=5)),))
    assert best_of([candidate("a", 5, started="23:00:00"), waiting], 2e9) == [waiting]


@pytest.mark.parametrize(
    ("statuses", "gone"),
    [
        pytest.param([{}, {}, {}], ["p0"], id="not started"),
        pytest.param([{"startTime": "2026-01-01T00:00:00Z"}] * 3, ["p2"], id="started together"),
        pytest.param([{}, {"startTime": "2026-01-01T00:00:00Z"}, {}], ["p0"], id="one was started"),
    ],
)
def test_who_of_equals_has_to_go(statuses: list[dict[str, str]], gone: list[str]) -> None:
    """The last on the node that was started; of pods that no kubelet has seen yet the first."""
    node = make_node("n", allocatable={"cpu": "3"})
    pods = [
        make_pod(f"p{number}", node_name="n", requests={"cpu": "1"}, status=status)
        for number, status in enumerate(statuses)
    ]
    asked = search(make_pod("w", priority=1, requests={"cpu": "1"}), [node], pods)
    assert asked.findings.chosen is not None
    assert victims(asked.findings.chosen) == gone


# --- how many nodes -----------------------------------------------------------------------------


def crowd(number: int) -> tuple[list[Node], list[Pod]]:
    """Return nodes with one pod each that can be evicted."""
    nodes = [make_node(f"n{each}", allocatable={"cpu": "1"}) for each in range(number)]
    return nodes, [make_pod(f"p{each}", node_name=f"n{each}", requests={"cpu": "1"}) for each in range(number)]


WANTED = make_pod("wanted", requests={"cpu": "1"}, priority=10)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("absolute", "percentage", "found"),
    [
        pytest.param(7, 0, 7, id="an absolute number"),
        pytest.param(1, 10, 20, id="a percentage, if that is more"),
        pytest.param(500, 10, 200, id="not more than there are"),
    ],
)
def test_the_search_ends_when_enough_were_found(absolute: int, percentage: int, found: int) -> None:
    """As many candidates as the args ask for, and no node looked at in vain."""
    asked = search(WANTED, *crowd(200), absolute=absolute, percentage=percentage)
    assert len(asked.findings.candidates) == found
    assert not asked.findings.statuses


def test_where_the_search_begins_is_drawn() -> None:
    """Other seeds look at other nodes; the same seed at the same."""
    first, again, other = (
        list(search(WANTED, *crowd(100), absolute=5, percentage=0, seed=seed).findings.candidates) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_the_search_goes_on_until_one_violates_no_budget() -> None:
    """Candidates that violate a budget are enough only beside one that does not."""
    nodes, pods = crowd(30)
    pods = [
        make_pod(pod.name, node_name=pod.node_name, requests={"cpu": "1"}, labels={"app": "a"}) for pod in pods[:-1]
    ]
    pods.append(make_pod("free", node_name="n29", requests={"cpu": "1"}))
    asked = search(WANTED, nodes, pods, [make_budget("b", {"app": "a"}, allowed=0)], absolute=2, percentage=0)
    assert "n29" in asked.findings.candidates
    assert len(asked.findings.candidates) == 3
    assert asked.nominated == "n29"


# --- what is said -------------------------------------------------------------------------------


def test_nobody_to_evict_clears_the_nomination() -> None:
    """Each node's reason is counted, those that were not worth a look as such."""
    nodes, pods = crowd(2)
    pods[1] = make_pod("p1", node_name="n1", requests={"cpu": "1"}, priority=10)
    nodes.append(make_node("off", unschedulable=True))
    nodes.append(make_node("n4", allocatable={"cpu": "1"}))
    pods.append(make_pod("p4", node_name="n4", requests={"cpu": "500m"}, priority=10))
    pods.append(make_pod("p5", node_name="n4", requests={"cpu": "500m"}))
    del nodes[0], pods[0]
    asked = search(WANTED, nodes, pods)
    assert asked.status.code is Code.UNSCHEDULABLE
    assert asked.status.message == (
        "0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling."
    )
    assert asked.nominated == ""


def test_a_plugin_that_cannot_follow_costs_its_node_only() -> None:
    """The node has an error; it is the whole search's only where no other node is left."""
    nodes, pods = crowd(2)
    pods = [
        pods[0],
        make_pod("p1", node_name="n1", requests={"cpu": "1"}, labels={"follow": "no"}),
    ]
    asked = search(WANTED, nodes, pods, follow=True)
    assert asked.nominated == "n0"
    assert asked.findings.statuses["n1"].is_error
    failed = search(WANTED, nodes[1:], pods[1:], follow=True)
    assert failed.status.is_error
    assert "cannot follow" in failed.status.message
    assert failed.nominated is None


async def test_a_pod_that_is_gone_is_an_error() -> None:
    """Only who merely asks may ask about a pod that does not exist."""
    asked = await ask(WANTED, *crowd(1))
    assert asked.status.is_success
    preemptor = asked.scheduler.profiles["pyscheduler"].preemptors["DefaultPreemption"]
    result, status = await preemptor.preempt(CycleState(), WANTED, NodeStatuses(0))
    assert (result, status.message) == (None, 'pod "wanted" not found')


async def test_an_empty_cluster_is_an_error() -> None:
    """There is nothing to search in."""
    asked = await ask(WANTED, [], [])
    assert asked.status.message == "no nodes available"


# --- extenders ----------------------------------------------------------------------------------


@attrs.define
class Scripted:
    """An extender that answers as it is told."""

    answer: Any
    ignorable: bool = False
    name: str = "scripted"
    supported: bool = True
    interested: bool = True
    asked: list[list[str]] = attrs.Factory(list)

    def supports_preemption(self) -> bool:
        """Say so."""
        return self.supported

    def is_interested(self, pod: Pod) -> bool:
        """Say so."""
        return self.interested

    def process_preemption(self, pod: Pod, candidates: Any, snapshot: Any) -> Any:
        """Answer, and note what was asked."""
        self.asked.append(sorted(candidates))
        return self.answer(candidates)


def breaks(candidates: Any) -> Any:
    """Fail."""
    raise OSError("no answer")


async def only_n1(candidates: Any) -> Any:
    """Leave one node, after a while."""
    await asyncio.sleep(0)
    return {"n1": candidates["n1"]}


def without_victims(candidates: Any) -> Any:
    """Forget the victims of one node."""
    return {**candidates, "n0": attrs.evolve(candidates["n0"], victims=())}


@pytest.mark.parametrize(
    ("extenders", "nominated", "message"),
    [
        pytest.param([Scripted(only_n1)], "n1", "", id="drops a node"),
        pytest.param([Scripted(only_n1), Scripted(dict)], "n1", "", id="one after the other"),
        pytest.param([Scripted(lambda _: {})], None, "no candidate node for preemption", id="drops all"),
        pytest.param([Scripted(breaks)], None, "no answer", id="fails"),
        pytest.param([Scripted(breaks, ignorable=True), Scripted(only_n1)], "n1", "", id="fails and does not matter"),
        pytest.param(
            [Scripted(without_victims)],
            None,
            'expected at least one victim pod on node "n0"',
            id="forgets victims",
        ),
        pytest.param([Scripted(without_victims, ignorable=True)], "n1", "", id="forgets victims and does not matter"),
        pytest.param([Scripted(breaks, supported=False), Scripted(only_n1)], "n1", "", id="does not preempt"),
        pytest.param([Scripted(breaks, interested=False), Scripted(only_n1)], "n1", "", id="does not care"),
    ],
)
async def test_extenders_have_a_say(extenders: list[Scripted], nominated: str | None, message: str) -> None:
    """Each is shown what those before it left, if it has to do with the pod; one that matters can end the search."""
    asked = await ask(WANTED, *crowd(2), extenders=extenders)
    assert (asked.nominated, asked.status.message) == (nominated, message)
    assert asked.status.is_error == (nominated is None and message != "no candidate node for preemption")
    assert all(each.asked == [] for each in extenders if not (each.supported and each.interested))
    if len(extenders) == 2 and extenders[0].answer is only_n1:
        assert extenders[1].asked == [["n1"]]


@pytest.mark.slow
async def test_the_loop_turns_while_many_nodes_are_looked_at() -> None:
    """A search among thousands of nodes never holds the loop for long; others run in between."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    nodes, _ = crowd(3000)
    # No two of them are alike.
    pods = [make_pod(f"p{each}", node_name=f"n{each}", requests={"cpu": f"{each % 1000 + 1}m"}) for each in range(3000)]
    pods += [make_pod(f"q{each}", node_name=f"n{each}", priority=each // 1000) for each in range(3000)]
    counting = asyncio.create_task(count())
    asked = await ask(make_pod("w", requests={"cpu": "2"}, priority=10), nodes, pods)
    before = turns
    asked = await ask(WANTED, nodes, pods, absolute=3000)
    counting.cancel()
    assert len(asked.findings.candidates) == 3000
    assert turns - before >= 5


class Plain(PostFilterPlugin):
    """Preempts by the default rules, and declares nothing."""

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        handle.preemptor(self.name, PreemptionRules())

    def post_filter(self, state: CycleState, pod: Pod, statuses: NodeStatuses) -> tuple[None, Status]:
        return None, Status.unschedulable("no room")


def test_a_preemptor_declares_what_it_needs(cluster: FakeCluster) -> None:
    """A plugin that preempts watches budgets and may delete pods, without a word in its class."""
    framework = cluster.framework(enable=[Plain], disable=["DefaultPreemption"])
    needs = {
        (resource, verb)
        for need in framework.scheduler.needs()
        for resource in need.rule.resources
        for verb in need.rule.verbs
        if need.who == "Plain"
    }
    assert needs == {
        ("poddisruptionbudgets", "list"),
        ("poddisruptionbudgets", "watch"),
        ("pods", "get"),
        ("pods", "delete"),
        ("pods/status", "patch"),
    }
    assert Plain.watches == ()

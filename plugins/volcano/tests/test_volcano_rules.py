"""Rules of the preset `volcano`, one by one, on clusters of a few pods."""

from __future__ import annotations

import random
from pkgutil import resolve_name
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import settings

from pyscheduler.api import ObjectMeta, ResourceQuota, ResourceQuotaStatus
from pyscheduler_batch.contract import Claim, Preemptable, Tasks
from pyscheduler_batch.model.priority_queue import PriorityQueue
from pyscheduler_batch.model.session import EnabledPolicy
from pyscheduler_batch.model.tasks import Job, Task, TaskState
from pyscheduler_batch.systems import presets
from pyscheduler_kube_batch.session import KubeBatchSession
from pyscheduler_lab.simulation.batch_cases.preset_import import system_of
from pyscheduler_lab.simulation.batch_cases.runs import Run, open_session
from pyscheduler_volcano.binpack import resource_weights
from pyscheduler_volcano.policy import VolcanoPolicy
from pyscheduler_volcano.quota_limits import QuotaLimits
from pyscheduler_volcano.status import gang_condition, group_phase

GIB = 1024**3
DEFAULT = [["priority", "gang", "conformance"], ["overcommit", "drf", "predicates", "proportion", "nodeorder"]]


def node(name: str, cpu: int = 4000, pods: int = 10) -> dict[str, Any]:
    """Make a node."""
    return {"name": name, "allocatable": {"cpu": cpu, "memory": 64 * GIB, "pods": pods}}


def group(name: str, minimum: int = 1, **fields: Any) -> dict[str, Any]:
    """Make a group in queue q that was enqueued."""
    return {"name": name, "queue": "q", "minMember": minimum, "phase": "Inqueue", **fields}


def pods(of: str, count: int, cpu: int = 1000, at: str = "", **fields: Any) -> list[dict[str, Any]]:
    """Make pods of a group; with `at` they run on that node."""
    place = {"state": "Running", "node": at} if at else {"state": "Pending"}
    requests = {"cpu": cpu} if cpu else {}
    return [{"name": f"{of}x{i}", "group": of, "requests": requests, **place, **fields} for i in range(count)]


def start(
    groups: list[dict[str, Any]],
    members: list[dict[str, Any]],
    *,
    actions: tuple[str, ...] = ("allocate",),
    tiers: list[list[Any]] | None = None,
    nodes: list[dict[str, Any]] | None = None,
    queues: list[dict[str, Any]] | None = None,
    now: float = 0.0,
    which: str = "volcano",
) -> Run:
    """Open a session; plugins are names, or mappings with switches and arguments."""
    named = [[each if isinstance(each, dict) else {"name": each} for each in tier] for tier in tiers or DEFAULT]
    return open_session(
        which,
        {
            "configuration": {"actions": list(actions), "tiers": named},
            "nodes": nodes or [node("n")],
            "queues": queues or [{"name": "q"}],
            "podGroups": groups,
            "pods": members,
            "now": now,
        },
    )


def job_of(run: Run, name: str) -> Job:
    """Return a job of a run."""
    return run.tables.jobs[f"ns/{name}"]


def states(run: Run, name: str) -> list[str]:
    """Return the states of a job's tasks."""
    return [task.state.name for task in job_of(run, name).tasks.values()]


# Gang and allocate.


def test_a_gang_that_does_not_fit_leaves_nothing_behind() -> None:
    """Five of six fit: nothing is bound, the room is free for the next job, and the condition counts what misses."""
    run = start(
        [group("big", 6), group("small", 1, created=1)], pods("big", 6) + pods("small", 2), nodes=[node("n", 5000)]
    )
    run.act()
    assert sorted(run.effects.bound) == ["smallx0", "smallx1"]
    assert states(run, "big") == ["PENDING"] * 6
    condition = gang_condition(job_of(run, "big"), run.session)
    assert condition is not None
    assert (condition.type, condition.reason) == ("Unschedulable", "NotEnoughResources")
    assert condition.message.startswith("6/6 tasks in gang unschedulable: pod group is not ready")


def test_two_gangs_never_share_room_for_one() -> None:
    """Two gangs of four, room for four: the first in order gets all, the other nothing."""
    run = start([group("a", 4), group("b", 4, created=1)], pods("a", 4) + pods("b", 4))
    run.act()
    assert len(run.effects.bound) == 4
    assert {name[0] for name in run.effects.bound} == {"a"}


def test_members_beyond_the_minimum_wait_for_other_gangs() -> None:
    """A ready job goes back to its queue: the other job's minimum comes before the first job's extra members."""
    run = start(
        [group("elastic", 2), group("other", 1, created=1)],
        pods("elastic", 4) + pods("other", 1),
        nodes=[node("n", 3000)],
        tiers=[["gang"], ["predicates"]],
    )
    run.act()
    assert sorted(run.effects.bound) == ["elasticx0", "elasticx1", "otherx0"]


@pytest.mark.parametrize(("minimums", "is_ready"), [({"worker": 2, "ps": 1}, True), ({"worker": 1, "ps": 2}, False)])
def test_roles_have_minimums_of_their_own(minimums: dict[str, int], *, is_ready: bool) -> None:
    """A job whose roles miss their minimum is not valid, and nothing of it is placed."""
    members = pods("g", 2, role="worker") + [
        {**each, "name": f"ps{i}"} for i, each in enumerate(pods("g", 1, role="ps"))
    ]
    run = start([group("g", 3, minTaskMember=minimums)], members)
    refusal = run.session.gates.job_valid(job_of(run, "g"))
    run.act()
    assert bool(run.effects.bound) == is_ready
    assert (refusal is None) == is_ready
    if refusal is not None:
        assert refusal.reason == "NotEnoughPodsOfTask"


def test_minimums_by_role_do_not_count_if_they_exceed_the_job() -> None:
    """With roles that add up to more than minMember only minMember counts."""
    run = start([group("g", 1, minTaskMember={"worker": 5})], pods("g", 1, role="worker"))
    run.act()
    assert list(run.effects.bound) == ["gx0"]


@pytest.mark.parametrize(("role", "second"), [("worker", "big"), ("", "small")])
def test_a_node_that_refuses_a_task_is_closed_to_its_role(role: str, second: str) -> None:
    """A task that would fit does not get a node that refused an earlier, larger task of the same role and turn."""
    members = [
        *pods("g", 1, 2000, role=role),
        {**pods("g", 1, 1000, role=role)[0], "name": "gx1"},
        *pods("old", 1, 1000, at="small"),
    ]
    run = start(
        [group("g", 2), group("old")],
        members,
        nodes=[node("small", 2000), node("big", 8000)],
        tiers=[["priority", "gang"], ["predicates", "binpack"]],
    )
    run.act()
    names = run.session.nodes.names
    assert {uid: names[row] for uid, row in run.effects.bound.items()} == {"gx0": "big", "gx1": second}


@pytest.mark.parametrize("which", ["volcano", "kube-batch"])
def test_a_task_waits_for_leaving_pods_that_filters_mind(which: str) -> None:
    """Where a filter minds a pod that is being deleted, for example its host port, the task is promised, not bound."""
    leaving = [{**pods("old", 1, at="n")[0], "state": "Terminating"}]
    members = leaving + pods("g", 1) + [{**pods("free", 1, cpu=0)[0]}]
    tiers = [["priority", "gang"], ["predicates"]]
    groups = [group("old"), group("g"), group("free")]

    def outcome(*, minds: bool) -> tuple[dict[str, int], list[str]]:
        run = start(groups, members, actions=("allocate", "backfill"), tiers=tiers, which=which)
        run.session.placer.feasible_now = lambda task, node: not minds
        run.act()
        return run.effects.bound, states(run, "g")

    assert outcome(minds=False) == ({"gx0": 0, "freex0": 0}, ["BINDING"])
    assert outcome(minds=True) == ({}, ["PIPELINED"])


# Victims.


def _tasks(run: Run, name: str) -> Tasks:
    return Tasks.of(list(job_of(run, name).tasks.values()))


def test_gang_gives_up_only_the_surplus() -> None:
    """Volcano counts down to the minimum; kube-batch compares each task with the same count."""
    groups = [group("g", 2), group("claim", 1)]
    members = pods("g", 3, at="n") + pods("claim", 1)
    run = start(groups, members)
    claim = Claim(job_of(run, "claim"))
    assert run.policies["gang"].preemptable(claim, _tasks(run, "g")).tolist() == [True, False, False]
    tiers = [["priority", "gang"], ["drf", "predicates", "proportion", "nodeorder"]]
    old = start(groups, members, which="kube-batch", tiers=tiers)
    claim = Claim(job_of(old, "claim"))
    assert old.policies["gang"].preemptable(claim, _tasks(old, "g")).tolist() == [True, True, True]


def test_priority_compares_jobs_and_within_a_job_tasks() -> None:
    """Lower jobs are victims; of the own job, tasks with lower priority; a pod without priority counts as 1."""
    members = pods("low", 1, at="n") + pods("high", 1, at="n")
    members += [{**pods("high", 1, at="n")[0], "name": "zero", "priority": 0}]
    members += [{**pods("high", 1)[0], "name": "claim"}]
    run = start([group("low", priority=1), group("high", priority=5)], members)
    high = job_of(run, "high")
    claim = Claim(high, high.tasks["claim"])
    found = Tasks.of([job_of(run, "low").tasks["lowx0"], high.tasks["highx0"], high.tasks["zero"]])
    assert run.policies["priority"].preemptable(claim, found).tolist() == [True, False, True]


def test_critical_pods_are_never_victims() -> None:
    """Conformance leaves out critical pods, and preempt takes the others."""
    groups = [group("low"), group("high", priority=10)]
    tiers = [["priority", "conformance", "gang"], ["predicates"]]
    members = pods("low", 4, at="n") + pods("high", 1)
    run = start(groups, members, actions=("preempt",), tiers=[["priority", "conformance"], ["predicates"]])
    for task in list(job_of(run, "low").tasks.values())[1:]:
        task.critical = True
    mask = run.policies["conformance"].preemptable(Claim(job_of(run, "high")), _tasks(run, "low"))
    assert mask.tolist() == [True, False, False, False]
    run = start(groups, members, actions=("preempt",), tiers=tiers)
    for task in list(job_of(run, "low").tasks.values())[1:]:
        task.critical = True
    run.act()
    assert run.effects.evicted == ["lowx0"]
    assert run.effects.nominated == {"highx0": 0}


@pytest.mark.parametrize(("policy", "evicted"), [("Never", 0), ("PreemptLowerPriority", 1)])
def test_preemption_policy_never_is_honoured(policy: str, evicted: int) -> None:
    """A pod with preemptionPolicy Never evicts nobody."""
    members = pods("low", 4, at="n") + pods("high", 1, preemptionPolicy=policy)
    tiers = [["priority", "gang"], ["predicates"]]
    run = start([group("low"), group("high", priority=10)], members, actions=("preempt",), tiers=tiers)
    run.act()
    assert len(run.effects.evicted) == evicted


class _Answers(VolcanoPolicy, Preemptable):
    """Answers with a fixed mask."""

    def __init__(self, *mask: int) -> None:
        super().__init__()
        self.name = f"answers{mask}"  # type: ignore[misc]  # each has a name of its own
        self._mask = np.array(mask, dtype=np.bool_)

    def preemptable(self, claim: Claim, tasks: Tasks) -> np.ndarray:
        return self._mask


@pytest.mark.parametrize(
    ("tiers", "volcano", "kube_batch"),
    [
        pytest.param([[(1, 1, 0), (0, 1, 1)]], [0, 1, 0], [0, 1, 0], id="intersection within a tier"),
        pytest.param([[(0, 0, 0)], [(1, 1, 1)]], [1, 1, 1], [0, 0, 0], id="empty: next tier, or veto"),
        pytest.param([[(1, 0, 0), (0, 1, 0), (0, 1, 1)]], [0, 1, 1], [0, 0, 0], id="afresh after no intersection"),
        pytest.param([[(1, 0, 0), (0, 0, 0), (0, 1, 1)]], [0, 0, 0], [0, 0, 0], id="an empty answer ends the tier"),
        pytest.param([[(1, 0, 0)], [(0, 1, 0)]], [1, 0, 0], [1, 0, 0], id="the first tier decides"),
    ],
)
def test_tiers_combine_victims(tiers: list[list[tuple[int, ...]]], volcano: list[int], kube_batch: list[int]) -> None:
    """Volcano asks the next tier where kube-batch lets an empty answer veto."""
    run = start([group("g", 1)], pods("g", 3, at="n"))
    policies = [[EnabledPolicy(_Answers(*mask)) for mask in tier] for tier in tiers]
    for kind, expected in ((type(run.session), volcano), (KubeBatchSession, kube_batch)):
        session = kind(
            axis=run.tables.axis,
            nodes=run.tables.nodes,
            queues=run.tables.queues,
            jobs=run.tables.jobs,
            tiers=policies,
            placer=run.session.placer,
            effects=run.effects,
            now=0.0,
        )
        assert session.victims.preemptable(Claim(job_of(run, "g")), _tasks(run, "g")).tolist() == list(
            map(bool, expected)
        )


# Gates.


def test_a_closed_queue_gets_nothing_but_best_effort_pods() -> None:
    """Allocate refuses; backfill does not ask queues."""
    closed = [{"name": "q", "state": "Closed"}]
    members = [*pods("g", 1), {**pods("g", 1, cpu=0)[0], "name": "free"}]
    run = start([group("g", 1)], members, actions=("allocate", "backfill"), queues=closed)
    run.act()
    assert list(run.effects.bound) == ["free"]
    assert run.session.reasons["ns/g"] == {"QueueClosed": "queue q is not open"}


def test_a_job_that_a_closed_queue_does_not_enqueue_says_so() -> None:
    """Its `minResources` would fit: its users have to look at the queue, not at room."""
    closed = [{"name": "q", "state": "Closed"}]
    waiting = group("g", 1, phase="Pending", minResources={"cpu": 1000})
    run = start([waiting], pods("g", 1), actions=("enqueue", "allocate"), queues=closed)
    run.act()
    assert run.session.reasons["ns/g"] == {"QueueClosed": "queue q is not open"}


@pytest.mark.parametrize("phase", ["Inqueue", "Pending"])
@pytest.mark.parametrize(
    ("queues", "culprit"),
    [
        pytest.param([{"name": "q"}], 'in any queue: queue "root" does not exist; create it', id="no root"),
        pytest.param(
            [{"name": "q"}, {"name": "r", "parent": "root"}],
            'in any queue: queue "root" does not exist; create it',
            id="no root above a queue",
        ),
        pytest.param(
            [{"name": "root"}, {"name": "q"}, {"name": "other", "parent": "lost"}],
            'queue "other" is below the queue "lost", which does not exist; create it, or change the parent',
            id="no parent",
        ),
        pytest.param(
            [{"name": "root"}, {"name": "q"}, {"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}],
            'queue "a" is in or below a cycle of queues; change the parent of one of them; queue "b" is in',
            id="a cycle of queues",
        ),
        pytest.param(
            [{"name": "root"}, {"name": "q"}, {"name": "below", "parent": "q"}],
            'queue "q" has child queues, but also the jobs ns/g; put them into a queue without children',
            id="a job in an inner queue",
        ),
    ],
)
def test_a_broken_tree_holds_all_jobs(queues: list[dict[str, Any]], culprit: str, phase: str) -> None:
    """Nothing is scheduled, and each job says which queue is wrong, and how; a sound tree schedules."""
    tiers = [["gang"], ["predicates", {"name": "capacity", "enableHierarchy": True}]]
    one = group("g") | {"phase": phase, "minResources": {"cpu": 1000}}
    run = start([one], pods("g", 1), actions=("enqueue", "allocate"), queues=queues, tiers=tiers)
    run.act()
    assert not run.effects.bound
    assert culprit in run.session.reasons["ns/g"]["QueueTreeBroken"]
    sound = start([group("g")], pods("g", 1), queues=[{"name": "root"}, {"name": "q"}], tiers=tiers)
    sound.act()
    assert list(sound.effects.bound) == ["gx0"]


def test_overcommit_reserves_what_it_lets_in() -> None:
    """With factor 1.5 a cluster of 4 cores lets in 6; a factor below 1 counts as 1.2."""
    groups = [group(f"g{i}", phase="Pending", minResources={"cpu": 2000}, created=i) for i in range(4)]
    for factor, admitted in ((1.5, 3), (0.5, 2)):
        overcommit = {"name": "overcommit", "arguments": {"overcommit-factor": factor}}
        run = start(groups, [], actions=("enqueue",), tiers=[["gang", overcommit]])
        run.act()
        assert sum(job.phase == "Inqueue" for job in run.tables.jobs.values()) == admitted
        who = ", ".join(f"ns/g{number}" for number in range(admitted))
        text = f"resource in cluster is overused: overused cpu, reserved by enqueued groups: {who}"
        assert run.session.reasons["ns/g3"] == {"ClusterOverused": text}


def test_resourcequota_counts_what_the_namespace_uses_and_what_it_lets_in() -> None:
    """Each quota must have room for the resources that it names, beside jobs that were let in before."""
    groups = [group(f"g{i}", phase="Pending", minResources={"cpu": 2000}, created=i) for i in range(3)]
    run = start(groups, [], actions=("enqueue",), tiers=[["gang", "resourcequota"]])
    for number in range(3):
        job_of(run, f"g{number}").min_amounts = {"cpu": 2000.0, "requests.cpu": 2.0}
    roomy = ResourceQuotaStatus(hard={"cpu": "100", "services": "0"}, used={"cpu": "1"})
    tight = ResourceQuotaStatus(hard={"requests.cpu": "5"}, used={"requests.cpu": "1"})
    limits = QuotaLimits()
    for number, status in enumerate((roomy, tight, ResourceQuotaStatus())):
        limits.put(ResourceQuota(metadata=ObjectMeta(name=str(number), namespace="ns"), status=status))
    run.session.quotas = limits.tightest
    run.act()
    assert [job_of(run, f"g{number}").phase for number in range(3)] == ["Inqueue", "Inqueue", "Pending"]
    message = (
        "resource quota insufficient, requested: map[requests.cpu:2], used: map[requests.cpu:1], "
        "limited: map[requests.cpu:5]"
    )
    assert run.session.reasons["ns/g2"] == {"ResourceQuota": message}


def test_sla_lets_a_job_in_once_its_time_is_over() -> None:
    """A job that overcommit would refuse passes in an earlier tier after its waiting time."""
    sla = {"name": "sla", "arguments": {"sla-waiting-time": "1h30m"}}
    groups = [group("g", phase="Pending", minResources={"cpu": 9000}, created=100)]
    for now, phase in ((5499.0, "Pending"), (5500.0, "Inqueue")):
        run = start(groups, [], actions=("enqueue",), tiers=[[sla], ["overcommit"]], now=now)
        run.act()
        assert job_of(run, "g").phase == phase
    two = start([group("late", created=50), group("soon", created=90)], [], tiers=[[sla]])
    job_of(two, "soon").waiting_time = 1.0
    assert two.session.orders.job_less(job_of(two, "soon"), job_of(two, "late"))


def test_binpack_weights() -> None:
    """A negative weight counts as 1; resources are listed by name."""
    arguments = {"binpack.cpu": -2, "binpack.resources": "a.b/c, x", "binpack.resources.a.b/c": 7}
    assert resource_weights(arguments) == {"cpu": 1, "memory": 1, "a.b/c": 7, "x": 1}


# Order and bookkeeping.


def test_task_order_reads_the_index_in_the_name() -> None:
    """Members job-task-2 and job-task-10 are placed by number; names without an index by age."""
    names = ["g-w-10", "g-w-2", "g-w-1"]
    members = [{**each, "name": name} for each, name in zip(pods("g", 3), names, strict=True)]
    run = start([group("g")], members)
    ordered = run.session.orders.sorted_tasks(job_of(run, "g").tasks.values())
    assert [task.uid for task in ordered] == ["g-w-1", "g-w-2", "g-w-10"]


def test_priority_queue_pops_in_order() -> None:
    """With keys that do not change it is a sort; an empty one raises."""
    rng = random.Random(7)
    for _ in range(50):
        items = [rng.randint(0, 9) for _ in range(rng.randint(0, 20))]
        queue: PriorityQueue[int] = PriorityQueue(lambda left, right: left < right, items)
        assert [queue.pop() for _ in range(len(queue))] == sorted(items)
        with pytest.raises(IndexError):
            queue.pop()


def test_kept_figures_equal_fresh_ones() -> None:
    """Whatever statements do, kept fits, sums and shares equal those of the tables."""
    rng = random.Random(3)
    members = pods("a", 6, at="n") + pods("b", 6) + pods("c", 3, cpu=0)
    nodes = [node("n", 8000), node("m", 8000)]
    run = start([group("a"), group("b"), group("c")], members, nodes=nodes)
    session, books, tables = run.session, run.session.books, run.tables
    everyone = [task for job in books.jobs for task in job.tasks.values()]
    checked = 0
    for _ in range(60):
        statement = session.statement()
        for _ in range(rng.randint(1, 6)):
            _change(statement, rng.choice(everyone), rng)
        if rng.random() < 0.5:
            statement.rollback(rng.randint(0, len(statement.changes)))
        if rng.random() < 0.3:
            session.commit(statement)
        for task in everyone:
            assert np.array_equal(session.places.fits_now(task), session.scale.fits(task.request, tables.nodes.idle))
            assert np.array_equal(
                session.places.fits_later(task), session.scale.fits(task.request, tables.nodes.future)
            )
        for row, job in enumerate(books.jobs):
            active = [task.request for task in job.tasks.values() if task.state.name in _HELD]
            assert np.allclose(books.allocated[row], np.sum(active, axis=0) if active else 0.0)
            pending = sum(task.uid in books.best_effort and task.state.name == "PENDING" for task in job.tasks.values())
            assert books.pending_best_effort[row] == pending
            assert run.policies["drf"].share(job) == pytest.approx(
                float(np.max(books.allocated[row] / np.where(session.total > 0, session.total, np.inf)))
            )
        assert np.allclose(tables.queues.allocated[0], books.allocated.sum(axis=0))
        checked += 1
    assert checked == 60


_HELD = {"ALLOCATED", "BINDING", "BOUND", "RUNNING", "PIPELINED"}


def _change(statement: Any, task: Task, rng: random.Random) -> None:
    if task.state == TaskState.PENDING:
        (statement.allocate if rng.random() < 0.6 else statement.pipeline)(task, rng.randrange(2))
    elif task.state == TaskState.RUNNING:
        statement.evict(task, action="preempt")
    elif task.state in {TaskState.ALLOCATED, TaskState.PIPELINED}:
        statement.unplace(task)


@pytest.mark.parametrize(
    ("counts", "phase", "unschedulable", "expected"),
    [
        ({"RUNNING": 2}, "Inqueue", False, "Running"),
        ({"RUNNING": 1}, "Inqueue", True, "Unknown"),
        ({"BINDING": 2}, "Inqueue", False, "Inqueue"),
        ({"BINDING": 2}, "Running", False, "Pending"),
        ({"SUCCEEDED": 1, "FAILED": 1}, "Running", False, "Completed"),
        ({"RUNNING": 1, "FAILED": 1}, "Running", False, "Running"),
        ({}, "", False, "Pending"),
    ],
)
def test_phases(counts: dict[str, int], phase: str, *, unschedulable: bool, expected: str) -> None:
    """The phase of a group with minimum 2 at the end of a session."""
    run = start([group("g", 2)], pods("g", 1))
    job = job_of(run, "g")
    job.phase = phase
    job.counts = [counts.get(state.name, 0) for state in TaskState]
    assert group_phase(job, is_unschedulable=unschedulable) == expected


@pytest.mark.parametrize("name", ["volcano", "kube-batch"])
def test_presets_name_classes_that_exist(name: str) -> None:
    """Each action and policy of a preset can be imported and has the name that files use; defaults are known names."""
    tables = system_of(name)
    for key, path in {**tables.actions, **tables.policies}.items():
        assert resolve_name(path).name == key
    assert resolve_name(tables.session).__name__.endswith("Session")
    assert name in presets()


def test_missing_names_of_volcano_are_those_without_a_class() -> None:
    """Messages do not offer them; `predicates` and the like have a class or are built in."""
    tables, known = system_of("volcano"), presets()["volcano"]
    assert {*known.known_actions, *known.known_policies} - {*tables.actions, *tables.policies} == known.missing


def test_equal_nodes_are_chosen_by_the_seed() -> None:
    """The same seed repeats all choices; another seed spreads otherwise."""

    def places(seed: int) -> list[int]:
        nodes = [node(f"n{i}") for i in range(8)]
        run = start([group("g")], pods("g", 8), nodes=nodes, tiers=[["gang"], ["predicates"]])
        run.session.rng = random.Random(seed)
        run.act()
        return list(run.effects.bound.values())

    assert places(1) == places(1)
    assert len({tuple(places(seed)) for seed in range(5)}) > 1


# Memory of searches.


def _rivals(seed: int) -> dict[str, Any]:
    """Make a full cluster of gangs, and look-alike gangs that want room."""
    rng = random.Random(seed)
    nodes = [node(f"n{i}") for i in range(rng.randint(2, 5))]
    queues = [
        {"name": name, "created": at, "weight": rng.randint(1, 3), "deserved": {"cpu": rng.choice((0, 4000, 9000))}}
        for at, name in enumerate("abc")
    ]
    groups, members = [], []
    for i, each in enumerate(nodes):
        for k in range(2):
            name = f"r{i}{k}"
            groups.append({**group(name, rng.randint(1, 2), phase="Running", priority=rng.choice((0, 5)), created=i)})
            groups[-1]["queue"] = rng.choice("abc")
            members += pods(name, 2, at=each["name"], created=rng.randint(0, 9))
    for i in range(rng.randint(3, 8)):
        size = rng.randint(1, 2)
        groups.append(group(f"w{i}", size, priority=rng.choice((0, 5)), created=20 + i))
        groups[-1]["queue"] = rng.choice("abc")
        members += pods(f"w{i}", size, cpu=rng.choice((1000, 3000)))
    policy = rng.choice(("proportion", "capacity"))
    tiers = [["priority", "gang"], ["drf", "predicates", policy, "nodeorder"]]
    return {
        "nodes": nodes,
        "queues": queues,
        "groups": groups,
        "members": members,
        "actions": tuple(rng.sample(["preempt", "reclaim"], 2)),
        "tiers": tiers,
    }


@pytest.mark.slow
def test_searches_decide_alike_with_and_without_memory() -> None:
    """Refused nodes that are kept for look-alikes change no decision, and are used."""
    skipped = evicted = 0
    seeds = 5 * settings.default.max_examples
    for seed in range(seeds):
        case = _rivals(seed)
        with_memory, without = (start(case["groups"], case["members"], **_options(case)) for _ in range(2))
        without.session.refused._keeps = False
        used = with_memory.session.refused.of

        def counted(*args: Any, used: Any = used, **keywords: Any) -> np.ndarray:
            nonlocal skipped
            mask: np.ndarray = used(*args, **keywords)
            skipped += int(mask.sum())
            return mask

        with_memory.session.refused.of = counted
        with_memory.act()
        without.act()
        assert attrs.asdict(with_memory.effects) == attrs.asdict(without.effects), f"seed {seed}"
        evicted += len(with_memory.effects.evicted)
    assert skipped > seeds / 2
    assert evicted > seeds / 2


def _options(case: dict[str, Any]) -> dict[str, Any]:
    return {key: case[key] for key in ("actions", "tiers", "nodes", "queues")}


def test_victims_of_other_peoples_policies_are_never_remembered() -> None:
    """A policy from outside may look at anything, so each task asks it again."""
    run = start([group("g")], pods("g", 1))
    assert run.session.refused._keeps
    run.session.tiers = [*run.session.tiers, [EnabledPolicy(_Answers(1))]]
    assert not type(run.session.refused)(run.session)._keeps

"""Look-alikes of the preset `volcano`: a pass that tries one job of each kind decides as one that tries all."""

from __future__ import annotations

import random
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

import pytest

from pyscheduler.api import Pod
from pyscheduler_batch.model.memory import Memory
from pyscheduler_batch.model.tasks import TaskState
from pyscheduler_batch.sessions.assembly import sessions_of
from pyscheduler_lab.simulation.batch_cases.runs import Run, open_session
from pyscheduler_volcano.look_alikes import KindLine

if TYPE_CHECKING:
    from pyscheduler_batch.sessions.source import Pass
    from pyscheduler_lab.testing import BatchCluster

GIB = 1024**3
ONE_TIER = [
    [
        {"name": "priority"},
        {"name": "gang", "enablePreemptable": False},
        {"name": "conformance"},
        {"name": "predicates"},
        {"name": "capacity", "enableHierarchy": True},
        {"name": "nodeorder"},
    ]
]
TWO_TIERS = [
    [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}, {"name": "conformance"}],
    [
        {"name": "overcommit"},
        {"name": "drf", "enablePreemptable": False},
        {"name": "predicates"},
        {"name": "proportion"},
        {"name": "nodeorder"},
    ],
]


def make_case(seed: int) -> dict[str, Any]:
    """Make a cluster with more waiting jobs of one pod than fit, some of them running, and sometimes a gang."""
    rng = random.Random(seed)
    tiers = rng.choice([ONE_TIER, TWO_TIERS])
    nodes = [
        {"name": f"n{number}", "allocatable": {"cpu": rng.choice([4000, 8000]), "memory": 64 * GIB, "pods": 20}}
        for number in range(rng.randint(1, 3))
    ]
    leaves = [f"q{number}" for number in range(rng.randint(1, 3))]
    queues: list[dict[str, Any]] = [{"name": "root"}]
    for name in leaves:
        cpu = rng.choice([2000, 4000])
        queues.append(
            {
                "name": name,
                "parent": "root",
                "weight": rng.randint(1, 2),
                "deserved": {"cpu": cpu},
                "capability": {"cpu": cpu * rng.randint(1, 3)},
                "reclaimable": True,
            }
        )
    groups, pods = [], []
    free = {node["name"]: node["allocatable"]["cpu"] for node in nodes}

    def add(size: int = 1) -> None:
        number, cpu = len(groups), rng.choice([500, 1000, 3000])
        priority = rng.choice([10, 20])
        name = f"g{number}"
        created = float(rng.randint(0, 30))
        groups.append(
            {
                "name": name,
                "queue": rng.choice(leaves),
                "minMember": size,
                "phase": "Inqueue",
                "created": created,
                "priority": priority,
            }
        )
        node = rng.choice(list(free)) if rng.random() < 0.4 and size == 1 else ""
        is_running = bool(node) and free[node] >= cpu
        if is_running:
            free[node] -= cpu
        place = {"state": "Running", "node": node} if is_running else {"state": "Pending"}
        pod = {"group": name, "requests": {"cpu": cpu}, "priority": priority, "created": created, **place}
        pods.extend({**pod, "name": f"{name}x{member}"} for member in range(size))

    for _ in range(rng.randint(10, 30)):
        add()
    if rng.random() < 0.3:
        add(size=2)
    actions = rng.choice([["allocate"], ["allocate", "preempt"], ["allocate", "preempt", "reclaim"], ["reclaim"]])
    return {
        "configuration": {"actions": actions, "tiers": tiers},
        "nodes": nodes,
        "queues": queues,
        "podGroups": groups,
        "pods": pods,
        "now": 100.0,
    }


def open_run(case: dict[str, Any], past: set[str], *, by_kind: bool) -> Run:
    """Open a session; with `by_kind` equal waiting jobs of one pod are look-alikes. `past`: jobs with a past."""
    run = open_session("volcano", case)
    # A policy of the cases only watches.
    run.session.__dict__["has_own_policies_only"] = True
    protected = {job.uid for number, job in enumerate(run.tables.jobs.values()) if number % 5 == 0}
    run.session.with_past = lambda: past
    run.session.protected = lambda job: protected if job.uid in past else ()
    kinds: dict[object, int] = {}
    for job in run.tables.jobs.values():
        (task, *others) = job.tasks.values()
        if by_kind and not others and task.state is TaskState.PENDING:
            key = (job.queue, job.priority, task.request.tobytes())
            job.look_alike = kinds.setdefault(key, len(kinds))
            run.session.memory.note(job.uid)
    # The session was opened before the jobs were known to be alike.
    deque(run.session.books.kept.follow(run.tables.jobs), maxlen=0)
    return run


def outcome(run: Run) -> dict[str, Any]:
    """Return what a run decided, the state of each task, and why each job waits.

    The amounts in a message are those of the moment when the job was tried, so only the reasons are compared.
    """
    jobs = run.tables.jobs
    return {
        "bound": run.effects.bound,
        "evicted": run.effects.evicted,
        "tasks": {uid: [(task.state.name, task.node) for task in job.tasks.values()] for uid, job in jobs.items()},
        "reasons": {
            uid: [*run.session.reasons.get(uid, {})] for uid, job in jobs.items() if job.counts[TaskState.PENDING]
        },
    }


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.long) for part in (1, 2, 3))])
def test_a_pass_by_kinds_decides_as_one_by_jobs(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bindings, evictions, promises and reasons are the same; failures of a kind, and revivals, do occur."""
    happened: Counter[str] = Counter()
    fail, revive = KindLine.fail, KindLine.revive

    def count_fail(line: KindLine) -> None:
        happened["failed"] += 1
        fail(line)

    def count_revive(line: KindLine) -> None:
        happened["revived"] += bool(line._parked)
        revive(line)

    monkeypatch.setattr(KindLine, "fail", count_fail)
    monkeypatch.setattr(KindLine, "revive", count_revive)
    for seed in range(part * 40, part * 40 + 40):
        case = make_case(seed)
        rng = random.Random(seed)
        past = {uid for uid in open_session("volcano", case).tables.jobs if rng.random() < 0.1}
        each, by_kind = open_run(case, past, by_kind=False), open_run(case, past, by_kind=True)
        each.act()
        by_kind.act()
        assert outcome(by_kind) == outcome(each), seed
        happened["bound"] += len(each.effects.bound)
        happened["evicted"] += len(each.effects.evicted)
    assert all(happened[what] > 0 for what in ("failed", "revived", "bound", "evicted")), happened


async def test_waiting_pods_without_a_group_are_look_alikes(volcano: Any) -> None:
    """Pods that differ in name only share a number; another request, priority or queue, and a group, set them apart."""
    volcano.queue("q")
    volcano.queue("r")
    alike: dict[str, Any] = {"requests": {"cpu": "1"}, "priority": 5}
    pods: dict[str, tuple[str, dict[str, Any]]] = {
        "a": ("q", alike),
        "b": ("q", alike),
        "large": ("q", {**alike, "requests": {"cpu": "2"}}),
        "urgent": ("q", {**alike, "priority": 6}),
        "elsewhere": ("r", alike),
    }
    for name, (queue, fields) in pods.items():
        annotations = {"scheduling.volcano.sh/queue-name": queue}
        volcano.cluster.add_pod(name, scheduler_name="batch", annotations=annotations, **fields)
    volcano.job("gang", "q", 1)
    scheduler = await volcano.start()
    await volcano.pass_time()
    kinds = {key.rpartition("/")[2]: job.look_alike for key, job in _jobs(scheduler).items()}
    assert kinds.pop("a") == kinds.pop("b") is not None
    assert kinds.pop("gang") is None
    assert len({*kinds.values()} - {None}) == len(kinds) == 3


def _jobs(scheduler: Any) -> dict[str, Any]:
    (sessions,) = sessions_of(scheduler.scheduler)
    return {job.key: job for job in sessions.tables.jobs.values()}


def _result(found: Pass) -> tuple[object, object]:
    """Return the decisions of a pass, and the reasons by uid of a job."""
    decisions = [
        (each.kind.name, each.task.key, each.node, each.action, each.by.key if each.by else "")
        for each in found.decisions
    ]
    return decisions, found.session.reasons


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2)), 3])
async def test_a_pass_decides_alike_with_and_without_memory(volcano: BatchCluster, seed: int) -> None:
    """While pods and gangs come, run, end and are evicted, each pass equals one that reads all jobs anew."""
    rng = random.Random(seed)
    volcano.nodes(2, cpu="10")
    volcano.queue("root")
    for name in "abc":
        volcano.queue(name, parent="root", deserved={"cpu": "7"}, capability={"cpu": "16"}, reclaimable=True)
    # `gang` protects jobs of one pod from reclaim.
    one_tier = [[{**each, "enableReclaimable": each["name"] != "gang"} for each in tier] for tier in ONE_TIER]
    tiers = str([{"plugins": tier} for tier in (one_tier if seed % 2 else TWO_TIERS)])
    actions = (
        "'allocate, backfill, preempt, reclaim'" if seed < 2 else "'enqueue, allocate, backfill, reclaim, preempt'"
    )
    measured = await volcano.start(args=f"actions: {actions}, tiers: {tiers}")
    sessions = sessions_of(measured.scheduler)[0]
    kinds: Counter[str] = Counter()
    for step in range(24):
        _change_cluster(volcano, rng, step)
        await volcano.cluster.clock.advance(0.001)
        state, memory = sessions.rng.getstate(), sessions.tables.memory
        found = await sessions.decide()
        answer = _result(found)
        kept = found.session.books.kept
        kinds.update(each.action or each.kind.name for each in found.decisions)
        kinds["alike"] += any(len(kind.listed.jobs) > 1 for kind in kept.grouped(())[1])
        kinds["settled"] += any(map(len, kept.settled.values()))
        found.session.ledger.put_back()
        sessions.rng.setstate(state)
        sessions.tables.memory = Memory()
        twin = await sessions.decide()
        assert answer == _result(twin)
        assert [job.uid for job in kept.jobs] == [job.uid for job in twin.session.books.jobs]
        twin.session.ledger.put_back()
        sessions.tables.memory = memory
        await volcano.pass_time(1)
    assert all(kinds[what] for what in ("BIND", "NOMINATE", "reclaim", "alike", "settled")), kinds


def _change_cluster(volcano: BatchCluster, rng: random.Random, step: int) -> None:
    """Let pods and gangs come, pods run, and some of them end."""
    placed = [pod for pod in volcano.cluster.pods() if pod.node_name and not pod.is_terminating]
    volcano.go("Running", *(pod.name for pod in placed if pod.status.phase != "Running"))
    for pod in rng.sample(placed, min(len(placed), rng.randint(0, 3))):
        volcano.cluster.delete(Pod, pod.name, namespace="default")
    queues = "a" if step < 6 else "abc"
    for number in range(3):
        volcano.cluster.add_pod(
            f"p{step}-{number}",
            scheduler_name="batch",
            annotations={"scheduling.volcano.sh/queue-name": rng.choice(queues)},
            requests={"cpu": rng.choice(["1", "2"])} if rng.random() < 0.9 else {},
            priority=rng.choice([5, 9]),
        )
    if step % 4 == 0:
        minimum = {"minResources": {"cpu": "2"}} if rng.random() < 0.5 else {}
        name = f"gang{step}"
        volcano.group(name, rng.choice(queues), 2, **minimum)
        volcano.pods(name, 2)

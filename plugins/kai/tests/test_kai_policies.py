"""The policies of the preset kai, one by one."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.kai.tests.kai_tables import Log, build_session
from pyscheduler.api import ObjectMeta, Pod
from pyscheduler_batch.model.axis import GPU
from pyscheduler_batch.model.session import Session
from pyscheduler_batch.model.tasks import Task, TaskState
from pyscheduler_kai.cycle import Cycle, cycle_of
from pyscheduler_kai.gang import Gang
from pyscheduler_kai.orders import Kubeflow, Ray, TaskPriority
from pyscheduler_kai.proportion import Proportion

FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


def queue(name: str, quota: float = 0, limit: float = -1, **more: Any) -> dict[str, Any]:
    """Return a queue in which only GPUs are limited."""
    gpu = {"quota": quota, "limit": limit, "overQuotaWeight": 1}
    return {"name": name, "createdSecondsAgo": 1000, "gpu": gpu, "cpuMillis": FREE, "memoryBytes": FREE, **more}


def job(name: str, in_queue: str, states: str = "P", gpu: float = 1, **more: Any) -> dict[str, Any]:
    """Return a job with one task per letter: P is pending, R runs on node n1."""
    tasks = [
        {"name": f"{name}-{at}", "gpu": gpu}
        | ({"state": "Running", "node": "n1"} if letter == "R" else {"state": "Pending"})
        for at, letter in enumerate(states)
    ]
    return {"name": name, "queue": in_queue, "createdSecondsAgo": 500, "minMember": 1, "tasks": tasks, **more}


def cycle(queues: list[dict[str, Any]], jobs: list[dict[str, Any]], gpus: int = 8, **more: Any) -> Cycle:
    """Open a session with one node and return its cycle."""
    nodes = [{"name": "n1", "gpu": gpus, "cpuMillis": 64000, "memoryBytes": 512e9, "maxPods": 110}]
    session: Session = build_session({"nodes": nodes, "queues": queues, "jobs": jobs, **more}, Log())
    for tier in session.tiers:
        for entry in tier:
            entry.policy.open_session(session)
    return cycle_of(session)


# --- proportion ----------------------------------------------------------------------------------


def test_a_job_over_the_limit_of_an_ancestor_is_refused() -> None:
    """Limits hold on every level of the tree."""
    found = cycle([queue("top", limit=2), queue("a", parent="top")], [job("one", "a", "RR"), job("two", "a")])
    one = found.gangs["two"]
    refusal = found.proportion.over_capacity(one.job, one.requested())
    assert refusal is not None
    assert refusal.reason == "OverLimit"
    assert refusal.message == "queue top would exceed its nvidia.com/gpu limit of 2: 2 used, 1 requested"


@pytest.mark.parametrize(("kind", "reason"), [("preemptible", None), ("non-preemptible", "NonPreemptibleOverQuota")])
def test_only_non_preemptible_jobs_must_stay_within_quota(kind: str, reason: str | None) -> None:
    """A preemptible job may use more than the quota."""
    found = cycle([queue("a", quota=1)], [job("two", "a", "P", gpu=2, preemptibility=kind)])
    gang = found.gangs["two"]
    refusal = found.proportion.over_capacity(gang.job, gang.requested())
    assert (refusal.reason if refusal else None) == reason


def order(found: Cycle) -> list[str]:
    """Return the jobs in the order in which allocate takes them."""
    line, names = found.lines.waiting(), []
    while line:
        names.append(line.pop().job.uid)
    return names


def test_a_queue_within_quota_comes_first() -> None:
    """Of two queues below their fair share, the one that stays within quota is served first."""
    found = cycle([queue("a", quota=0), queue("b", quota=4)], [job("x", "a"), job("y", "b")])
    assert order(found) == ["y", "x"]


def test_a_queue_of_higher_priority_comes_first() -> None:
    """Priority decides between queues that are equal so far."""
    found = cycle([queue("a", 4), queue("b", 4, priority=200)], [job("x", "a"), job("y", "b")])
    assert order(found) == ["y", "x"]


def test_the_smaller_dominant_share_comes_first() -> None:
    """A queue that uses a smaller part of its share is served first."""
    found = cycle([queue("a", 4), queue("b", 4)], [job("r", "a", "RR"), job("x", "a"), job("y", "b")])
    assert order(found) == ["y", "x"]


def test_the_older_queue_and_the_older_job_come_first() -> None:
    """Age decides last, for queues and for jobs."""
    found = cycle(
        [queue("a", 4), queue("b", 4, createdSecondsAgo=2000)],
        [job("x", "a"), job("young", "b", createdSecondsAgo=10), job("old", "b", createdSecondsAgo=20)],
    )
    assert order(found)[0] == "old"


def test_reclaim_stops_at_the_share_of_the_victims_queue() -> None:
    """A unit may be taken only while its queue is above its share, and no longer."""
    found = cycle([queue("a", 2), queue("b", 2)], [job("r", "a", "RRRR"), job("w", "b", "P")], gpus=4)
    policy: Proportion = found.proportion
    policy.start_solution()
    gang = found.gangs["w"]
    row = found.gangs["r"].job.queue_row
    unit = (0.0, 0.0, 1.0)
    assert policy.is_fair(gang.job, unit, {row: [unit]})
    assert policy.is_fair(gang.job, unit, {row: [unit, unit]})
    assert not policy.is_fair(gang.job, unit, {row: [unit, unit, unit]})


def test_the_bound_of_reclaim_is_never_below_what_is_fair() -> None:
    """The bound lies above everything that the validator accepts, and the next unit is refused."""
    found = cycle([queue("a", 3), queue("b", 5)], [job("r", "a", "R" * 8), job("w", "b", "P" * 5)])
    policy = found.proportion
    policy.start_solution()
    row = found.gangs["r"].job.queue_row
    unit = (0.0, 0.0, 1.0)
    accepted = [n for n in range(1, 9) if policy.is_fair(found.gangs["w"].job, unit, {row: [unit] * n})]
    bound = policy.most_gpus(found.gangs["w"].job, unit, {row: 1.0})
    assert accepted == [1, 2, 3, 4, 5]
    assert max(accepted) < bound <= max(accepted) + 1


def test_pods_of_others_shrink_the_pool() -> None:
    """What pods outside the session hold is not divided among queues."""
    session = cycle([queue("a")], [job("w", "a", "P" * 9)]).session
    assert session.foreign is None
    session.foreign = session.axis.amounts({GPU: 3.0})
    policy = Proportion()
    policy.open_session(session)
    assert policy.fair_shares[0, 2] == 5


# --- minruntime ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "top", "leaf", "is_protected"),
    [
        pytest.param("lca", 3600, None, True, id="the top queue of the victim counts"),
        pytest.param("lca", None, 3600, False, id="below the split a setting does not count"),
        pytest.param("queue", None, 3600, True, id="from the leaf"),
        pytest.param("queue", 3600, 0, False, id="zero is set"),
    ],
)
def test_reclaim_min_runtime_is_looked_up_by_method(
    method: str, top: float | None, leaf: float | None, is_protected: bool
) -> None:
    """`lca` asks where the paths of the two queues part, `queue` asks the victim's leaf first."""
    settings = {"reclaimMinRuntimeSeconds": top} if top is not None else {}
    of_leaf = {"reclaimMinRuntimeSeconds": leaf} if leaf is not None else {}
    found = cycle(
        [queue("d1", **settings), queue("a", parent="d1", **of_leaf), queue("d2"), queue("b", parent="d2")],
        [job("r", "a", "R", lastStartSecondsAgo=60), job("w", "b")],
        args={"reclaimResolveMethod": method},
    )
    victim, claimant = found.gangs["r"], found.gangs["w"].job
    assert found.allows_victim("reclaim", claimant, victim) != is_protected


def test_a_protected_elastic_job_loses_only_its_surplus() -> None:
    """A job with more tasks than its minimum may be a victim, but keeps the minimum."""
    found = cycle(
        [queue("a", preemptMinRuntimeSeconds=3600)],
        [job("r", "a", "RRR", minMember=2, lastStartSecondsAgo=60), job("w", "a", priority=90)],
    )
    victim, claimant = found.gangs["r"], found.gangs["w"].job
    assert found.allows_victim("preempt", claimant, victim)
    assert found.keeps_minimum("preempt", claimant, victim, victim.tasks[:1])
    assert not found.keeps_minimum("preempt", claimant, victim, victim.tasks[:2])


@pytest.mark.parametrize("state", [TaskState.ALLOCATED, TaskState.PIPELINED, TaskState.RELEASING])
def test_on_a_cluster_a_minimum_rests_on_bound_pods_alone(state: TaskState) -> None:
    """A place that the pass has just found may be refused, and a pod that is leaving ends; KAI itself counts both."""
    found = cycle(
        [queue("a", preemptMinRuntimeSeconds=3600)],
        [job("r", "a", "RRR", minMember=2, lastStartSecondsAgo=60), job("w", "a", priority=90)],
    )
    victim, claimant = found.gangs["r"], found.gangs["w"].job
    victim.tasks[0].state = state
    assert found.keeps_minimum("preempt", claimant, victim, victim.tasks[2:])
    found.session.is_live = True
    found.min_runtime.open_session(found.session)
    assert not found.keeps_minimum("preempt", claimant, victim, victim.tasks[2:])
    assert found.keeps_minimum("preempt", claimant, victim, victim.tasks[:1])


def test_a_job_that_never_started_is_not_protected() -> None:
    """Without a start there is no run time."""
    found = cycle([queue("a", preemptMinRuntimeSeconds=3600)], [job("r", "a", "R"), job("w", "a")])
    assert found.allows_victim("preempt", found.gangs["w"].job, found.gangs["r"])


# --- orders of tasks -----------------------------------------------------------------------------


def labelled(labels: dict[str, str]) -> Task:
    """Return a task with these labels."""
    owner = cycle([queue("a")], [job("x", "a")]).gangs["x"].job
    request = next(iter(owner.tasks.values())).request
    return Task(uid="x", key="x", job=owner, request=request, pod=Pod(metadata=ObjectMeta(labels=labels)))


@pytest.mark.parametrize(
    ("policy", "labels"),
    [
        (Kubeflow(), {"training.kubeflow.org/job-role": "master"}),
        (Kubeflow(), {"training.kubeflow.org/job-role": "launcher"}),
        (Ray(), {"ray.io/node-type": "head"}),
        (TaskPriority(), {"kai.scheduler/task-priority": "-5"}),
    ],
)
def test_labels_put_a_task_first(policy: Kubeflow | Ray | TaskPriority, labels: dict[str, str]) -> None:
    """Masters, launchers, heads and tasks with a priority come before tasks without such a label."""
    assert policy.task_key(labelled(labels)) < policy.task_key(labelled({}))
    assert policy.task_key(labelled(dict.fromkeys(labels, "worker"))) > policy.task_key(labelled(labels))


def test_the_larger_task_priority_comes_first() -> None:
    """The label holds a number, and the largest wins; what is no number comes after all numbers."""
    values = ["10", "9", "-1", "many"]
    keys = [TaskPriority().task_key(labelled({"kai.scheduler/task-priority": value})) for value in values]
    assert keys == sorted(keys)


# --- gangs ---------------------------------------------------------------------------------------


def names(tasks: list[Task]) -> list[str]:
    """Return the names of tasks."""
    return [task.uid for task in tasks]


def test_a_gang_asks_for_its_minimum_at_once_then_for_one_task_at_a_time() -> None:
    """Below the minimum the missing tasks are placed together."""
    found = cycle([queue("a")], [job("low", "a", "RPPP", minMember=3), job("high", "a", "RRPP", minMember=2)])
    assert names(found.gangs["low"].to_place()) == ["low-1", "low-2"]
    assert names(found.gangs["high"].to_place()) == ["high-2"]


def test_an_elastic_job_loses_its_last_surplus_task_first_and_then_all_others_at_once() -> None:
    """The unit of eviction is a surplus task, or the rest of the job."""
    gang = cycle([queue("a")], [job("r", "a", "RRRR", minMember=2)]).gangs["r"]
    assert names(gang.to_evict()) == ["r-3"]
    rest = gang.part(gang.tasks[:3])
    assert names(rest.to_evict()) == ["r-2"]
    assert sorted(names(rest.part(gang.tasks[:2]).to_evict())) == ["r-0", "r-1"]


def tree(states: dict[str, str], **more: Any) -> Gang:
    """Return a job with the leaves `x` and `y` below `inner`, and `z` beside it; each needs one task."""
    groups = [{"name": "inner", "minSubGroup": 1}, *({"name": leaf, "minMember": 1} for leaf in "xyz")]
    for group in groups[1:3]:
        group["parent"] = "inner"
    tasks = [
        {**task, "name": f"{leaf}-{at}", "subGroup": leaf}
        for leaf, letters in states.items()
        for at, task in enumerate(job("j", "a", letters)["tasks"])
    ]
    spec = {"name": "j", "queue": "a", "createdSecondsAgo": 1, "subGroups": groups, "tasks": tasks, **more}
    return cycle([queue("a")], [spec]).gangs["j"]


def test_a_branch_needs_only_its_minimum_of_sub_groups() -> None:
    """Of two leaves below a branch that needs one, only the first is placed with the gang."""
    assert names(tree({"x": "PP", "y": "P", "z": "P"}).to_place()) == ["x-0", "z-0"]


def test_a_missing_optional_sub_group_does_not_hold_the_gang_back() -> None:
    """A gang is ready if enough of its sub-groups are."""
    assert tree({"x": "P", "z": "P"}).is_ready()
    assert not tree({"x": "P", "y": "P"}).is_ready()
    assert tree({"x": "P"}, minSubGroup=1).is_ready()


def test_a_surplus_sub_group_is_evicted_as_a_whole() -> None:
    """A surplus task goes first, then a sub-group that the branch does not need, then everything."""
    assert names(tree({"x": "RR", "y": "R", "z": "R"}).to_evict()) == ["x-1"]
    assert names(tree({"x": "R", "y": "R", "z": "R"}).to_evict()) == ["y-0"]
    assert sorted(names(tree({"x": "R", "z": "R"}).to_evict())) == ["x-0", "z-0"]


def test_a_part_needs_no_more_than_it_has() -> None:
    """The part of a pending job that is probed has lower minima."""
    gang = cycle([queue("a")], [job("w", "a", "PPPP", minMember=4)]).gangs["w"]
    part = gang.lowered_part(gang.tasks[:2])
    assert names(part.to_place()) == ["w-0", "w-1"]
    assert not gang.part(gang.tasks[:2]).is_ready()
    assert gang.pending()[0].state == TaskState.PENDING

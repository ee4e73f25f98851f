"""Promises that evictions paid for: other jobs do not take the room, also after a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np
import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler.api import Node, Pod
from pyscheduler.testing import make_pod
from pyscheduler_batch.model.decisions import Decision, DecisionKind
from pyscheduler_batch.model.tasks import Job, Task, TaskState
from pyscheduler_batch.sessions.backoff import BACKOFF_SECONDS
from pyscheduler_batch.sessions.commitments import LEASE_SECONDS, Commitments, Promise
from pyscheduler_batch.sessions.recovery import read_back
from tests.batch.sessions.test_passes import Jobs, WholeJobs, add, begin, nodes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.testing import FakeCluster, FakeFramework
    from pyscheduler_batch.model.job_spec import JobSpec
    from pyscheduler_batch.model.session import Session


async def no_turn() -> None:
    """Go on at once."""


def two_of(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let the job of that name be a gang of two."""
    described = Jobs.job_spec

    def job_spec(self: Jobs, key: str, pods: Sequence[Pod]) -> JobSpec | None:
        found = described(self, key, pods)
        return found and attrs.evolve(found, min_member=2 if key.endswith(name) else 1)

    monkeypatch.setattr(Jobs, "job_spec", job_spec)


async def evicted_for(cluster: FakeCluster) -> None:
    """Let the job `high` evict the job `low` from the only node, and then let a job of higher priority come."""
    add(cluster, "high", members=1, priority=10)
    await cluster.clock.advance(1)
    assert cluster.pod("low-0").is_terminating
    assert cluster.pod("high-0").status.nominated_node_name == "n1"
    add(cluster, "higher", members=1, priority=20)
    await cluster.clock.advance(5)


@pytest.mark.parametrize("crashes", [False, True], ids=["one scheduler", "restarted"])
async def test_a_job_that_comes_later_does_not_take_promised_room(cluster: FakeCluster, crashes: bool) -> None:
    """The job that evicted gets the room although another would come first; a new scheduler reads the nomination."""
    cluster.add_node("n1", allocatable={"cpu": "1"})
    framework = await begin(cluster)
    low = add(cluster, "low", members=1)
    await cluster.clock.advance(1)
    assert nodes_of(cluster, low) == ["n1"]
    await evicted_for(cluster)
    if crashes:
        await framework.close()
        await begin(cluster)
        await cluster.clock.advance(1)
    cluster.delete_pod("low-0")
    await cluster.clock.advance(1)
    assert nodes_of(cluster, ["high-0", "higher-0"]) == ["n1", ""]
    await cluster.clock.advance(LEASE_SECONDS)
    assert cluster.pod("high-0").is_terminating, "a promise that is kept protects nobody"


async def test_a_job_whose_binding_fails_keeps_the_room_of_its_victim(cluster: FakeCluster) -> None:
    """The binding is tried again after a backoff; meanwhile the job that comes first in order does not get the room."""
    cluster.add_node("n1", allocatable={"cpu": "1"})
    await begin(cluster)
    add(cluster, "low", members=1)
    await cluster.clock.advance(1)
    await evicted_for(cluster)
    fault = cluster.server.faults.add(Fault(method="POST", path="/pods/high-0/binding$", status=409, times=2))
    cluster.delete_pod("low-0")
    await cluster.clock.advance(0.5)
    assert fault.hits == 1
    assert nodes_of(cluster, ["high-0", "higher-0"]) == ["", ""]
    add(cluster, "highest", members=1, priority=30)  # so that a pass begins during the backoff
    await cluster.clock.advance(0.5)
    assert nodes_of(cluster, ["higher-0", "highest-0"]) == ["", ""]
    assert cluster.pod("high-0").status.nominated_node_name == "n1"
    await cluster.clock.advance(10)
    assert fault.hits == 2
    assert nodes_of(cluster, ["high-0", "higher-0", "highest-0"]) == ["n1", "", ""]


async def test_a_job_whose_binding_fails_for_ever_lets_the_promise_lapse(cluster: FakeCluster) -> None:
    """The room is then another job's."""
    cluster.add_node("n1", allocatable={"cpu": "1"})
    await begin(cluster)
    add(cluster, "low", members=1)
    await cluster.clock.advance(1)
    await evicted_for(cluster)
    cluster.server.faults.add(Fault(method="POST", path="/pods/high-0/binding$", status=409))
    cluster.delete_pod("low-0")
    await cluster.clock.advance(2 * LEASE_SECONDS)
    assert nodes_of(cluster, ["high-0", "higher-0"]) == ["", "n1"]


@pytest.mark.parametrize("first", [0, 1])
async def test_members_of_a_gang_do_not_take_the_room_of_each_other(cluster: FakeCluster, first: int) -> None:
    """Their victims end one by one, in any order; the promises last until all members can start."""
    for name in ("n1", "n2"):
        cluster.add_node(name, allocatable={"cpu": "1"})
    await begin(cluster)
    add(cluster, "low", members=1)
    add(cluster, "lower", members=1)
    await cluster.clock.advance(1)
    gang = add(cluster, "high", members=2, priority=10)
    await cluster.clock.advance(1)
    add(cluster, "higher", members=1, priority=20)
    victims = ["low-0", "lower-0"]
    cluster.delete_pod(victims.pop(first))
    await cluster.clock.advance(5)
    assert nodes_of(cluster, ["higher-0"]) == [""]
    cluster.delete_pod(*victims)
    await cluster.clock.advance(1)
    assert sorted(nodes_of(cluster, gang)) == ["n1", "n2"]


async def test_a_member_without_a_node_leaves_the_others_theirs(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash may lose a nomination of a gang: then a node is looked for that is promised to nobody."""
    two_of(monkeypatch, "high")
    for name in ("n1", "n2"):
        cluster.add_node(name, allocatable={"cpu": "1"})
    framework = await begin(cluster)
    add(cluster, "low", members=1)
    add(cluster, "lower", members=1)
    await cluster.clock.advance(1)
    gang = add(cluster, "high", members=2, priority=10)
    await cluster.clock.advance(1)
    await framework.close()
    first = gang[0]
    held = {pod.node_name: pod.name for pod in cluster.pods() if pod.node_name}
    left = held.pop(cluster.pod(first).status.nominated_node_name)
    cluster.delete_pod(*held.values())
    cluster.patch(Pod, first, {"status": {"nominatedNodeName": None}}, status=True)
    add(cluster, "higher", members=1, priority=20)
    await begin(cluster)
    await cluster.clock.advance(5)
    assert nodes_of(cluster, ["higher-0"]) == [""]
    cluster.delete_pod(left)
    await cluster.clock.advance(1)
    assert sorted(nodes_of(cluster, gang)) == ["n1", "n2"]


async def test_a_promise_ends_with_its_node(cluster: FakeCluster) -> None:
    """A job whose promised node is gone is placed elsewhere, in its turn."""
    cluster.add_node("n1", allocatable={"cpu": "1"})
    await begin(cluster)
    add(cluster, "low", members=1)
    await cluster.clock.advance(1)
    await evicted_for(cluster)
    cluster.delete_node("n1")
    cluster.add_node("n2", allocatable={"cpu": "1"})
    await cluster.clock.advance(1)
    assert nodes_of(cluster, ["high-0", "higher-0"]) == ["", "n2"]
    assert not cluster.pod("high-0").status.nominated_node_name


async def test_a_promise_waits_for_no_node_in_a_cluster_without_nodes(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """When all nodes are gone, the job goes without its promise, and the next node serves the first in order."""
    cluster.add_node("n1", allocatable={"cpu": "1"})
    await begin(cluster)
    add(cluster, "low", members=1)
    await cluster.clock.advance(1)
    await evicted_for(cluster)
    cluster.delete_node("n1")
    await cluster.clock.advance(10)
    assert nodes_of(cluster, ["high-0", "higher-0"]) == ["", ""]
    assert not [record for record in caplog.records if record.exc_info]
    cluster.add_node("n2", allocatable={"cpu": "1"})
    await cluster.clock.advance(1)
    assert nodes_of(cluster, ["high-0", "higher-0"]) == ["", "n2"]


async def test_an_eviction_that_fails_is_tried_again(cluster: FakeCluster) -> None:
    """A victim whose deletion the server refuses for seconds is evicted in the end."""
    cluster.add_node("n1", allocatable={"cpu": "1"})
    await begin(cluster)
    add(cluster, "low", members=1)
    await cluster.clock.advance(1)
    fault = cluster.server.faults.add(Fault(method="DELETE", path="/pods/", status=409, times=3))
    add(cluster, "high", members=1, priority=10)
    await cluster.clock.advance(10)
    assert fault.hits == 3
    assert cluster.pod("low-0").is_terminating


async def told_slowly(cluster: FakeCluster) -> FakeFramework:
    """Let the job `high` evict `low`, and its promise end while the server takes two seconds for the condition."""
    cluster.add_node("n1", allocatable={"cpu": "1"})
    framework = await begin(cluster)
    add(cluster, "low", members=1)
    await cluster.clock.advance(1)
    fault = cluster.server.faults.add(Fault(method="PATCH", path="/pods/low-0/status$", delay_seconds=2.0, times=1))
    add(cluster, "high", members=1, priority=10)
    await cluster.clock.advance(1)
    assert fault.hits == 1
    cluster.patch(Node, "n1", {"spec": {"unschedulable": True}}, namespace="")
    return framework


async def test_a_victim_stays_if_the_promise_ends_while_it_is_told(cluster: FakeCluster) -> None:
    """The node takes no pods any more when the condition is written at last; then the condition is withdrawn."""
    await told_slowly(cluster)
    await cluster.clock.advance(10)
    low = cluster.pod("low-0")
    assert not low.is_terminating
    (condition,) = (each for each in low.status.conditions if each.type == "DisruptionTarget")
    assert (condition.status, condition.message) == ("False", "the eviction was given up")
    assert not cluster.pod("high-0").status.nominated_node_name


async def test_an_eviction_goes_on_if_its_job_starts_on_the_room_of_another_one(cluster: FakeCluster) -> None:
    """Two jobs are promised the room of two victims on a node; who comes first takes what is free first."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    await begin(cluster)
    add(cluster, "low", members=1)
    add(cluster, "lower", members=1)
    await cluster.clock.advance(1)
    slow = cluster.server.faults.add(Fault(method="PATCH", path="/pods/low-0/status$", delay_seconds=4.0, times=1))
    add(cluster, "first", members=1, priority=20)
    await cluster.clock.advance(1)
    assert slow.hits == 1
    add(cluster, "second", members=1, priority=10)
    await cluster.clock.advance(1)
    assert [cluster.pod(name).is_terminating for name in ("low-0", "lower-0")] == [False, True]
    cluster.delete_pod("lower-0")
    await cluster.clock.advance(1)
    assert nodes_of(cluster, ["first-0", "second-0"]) == ["n1", ""]
    await cluster.clock.advance(5)
    assert cluster.pod("low-0").is_terminating
    cluster.delete_pod("low-0")
    await cluster.clock.advance(1)
    assert nodes_of(cluster, ["second-0"]) == ["n1"]


def job(name: str, *states: TaskState, minimum: int = 1, nominated: str = "") -> Job:
    """Return a job with a task in each state."""
    made = Job(uid=name, key=f"default/{name}", queue="q", queue_row=0, min_member=minimum)
    for number, state in enumerate(states):
        pod = make_pod(f"{name}-{number}", status={"nominatedNodeName": nominated} if nominated else {})
        made.add(Task(uid=pod.uid, job=made, request=np.zeros(1), state=state, pod=pod))
    return made


def nodes(commitments: Commitments) -> dict[str, dict[str, str]]:
    """Return the promised nodes by uid of a job and of a task."""
    return {uid: promise.nodes for uid, promise in commitments.promises.items()}


async def after_a_crash(*jobs: Job) -> Commitments:
    """Return what a new scheduler reads back at 5 s."""
    commitments = Commitments()
    await read_back(commitments, {each.uid: each for each in jobs}, now=5.0, wall=5.0, turn=no_turn)
    return commitments


def test_a_promise_ends_if_a_later_plan_of_the_pass_takes_the_room() -> None:
    """The task that lost its place must not come first in the next pass, at the cost of the job that has the room."""
    first, second = job("first", TaskState.RELEASING), job("second", TaskState.PIPELINED)
    commitments = Commitments(promises={"first": Promise(90.0), "second": Promise(90.0)})
    (lost,), (kept,) = first.tasks.values(), second.tasks.values()
    decisions = [
        Decision(DecisionKind.NOMINATE, lost, 0),
        Decision(DecisionKind.EVICT, lost, 0, "preempt", second),
        Decision(DecisionKind.NOMINATE, kept, 0),
    ]
    commitments.decided(decisions, {"first": first, "second": second}, ["n1"], now=0.0, wall=0.0)
    assert nodes(commitments) == {"first": {}, "second": {kept.uid: "n1"}}


def test_a_lease_ends_when_the_minimum_is_bound() -> None:
    """A binding that is only decided does not end the lease: it may fail."""
    claimant = job("a", TaskState.BOUND, TaskState.BOUND, minimum=2)
    first, second = claimant.tasks.values()
    commitments = Commitments(promises={"a": Promise(100.0)})
    commitments.decided([Decision(DecisionKind.BIND, first, 0)], {"a": claimant}, ["n1"], now=0.0, wall=0.0)
    assert nodes(commitments) == {"a": {first.uid: "n1"}}
    bound = {first.uid}
    commitments.seen({"a": claimant}, 0.0, lambda pod: pod.uid in bound)
    assert commitments.promises
    bound.add(second.uid)
    commitments.seen({"a": claimant}, 0.0, lambda pod: pod.uid in bound)
    assert not commitments.promises


async def test_a_crash_leaves_nominations_and_gangs_that_are_bound_in_part() -> None:
    """A nominated pod keeps its node; a gang that is bound in part gets the rest of its minimum; others get nothing."""
    nominated = job("a", TaskState.PENDING, nominated="n7")
    partial = job("b", TaskState.RUNNING, TaskState.PENDING, TaskState.PENDING, minimum=2)
    waiting, whole = job("c", TaskState.PENDING), job("d", TaskState.RUNNING, TaskState.PENDING)
    commitments = await after_a_crash(nominated, partial, waiting, whole)
    assert {each.until for each in commitments.promises.values()} == {5.0 + LEASE_SECONDS}
    assert nodes(commitments) == {"a": {next(iter(nominated.tasks)): "n7"}, "b": {[*partial.tasks][1]: ""}}


async def test_after_a_crash_nominated_jobs_come_first_and_victims_get_nothing() -> None:
    """A gang that was evicted in part has lost its members on purpose; their room is for the job that is nominated."""
    partial = job("a", TaskState.RUNNING, TaskState.PENDING, minimum=2)
    victim = job("b", TaskState.RUNNING, TaskState.PENDING, minimum=2)
    nominated = job("c", TaskState.PENDING, nominated="n7")
    told = next(task for task in victim.tasks.values() if task.state is TaskState.RUNNING)
    condition = {"type": "DisruptionTarget", "status": "True", "message": "action=reclaim by=default/c"}
    told.pod = make_pod("b-0", status={"conditions": [condition]})
    assert [*(await after_a_crash(partial, victim, nominated)).promises] == ["c", "a"]


def begun(cluster: FakeCluster, name: str, cpu: str) -> str:
    """Add a gang of two as a crash leaves it, one pod bound; return the name of the other."""
    for number, node in enumerate(("old", "")):
        bound = {"node_name": node} if node else {}
        cluster.add_pod(
            f"{name}-{number}", requests={"cpu": cpu}, labels={"job": name}, scheduler_name="batch", **bound
        )
    return f"{name}-1"


async def test_after_a_crash_gangs_with_few_nodes_to_choose_from_come_first(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of the small gang, which is older, would fit anywhere; it leaves the large node to the large gang."""
    two_of(monkeypatch, "gang")
    for name, cpu in (("n1", "4"), ("n2", "1"), ("old", "5")):
        cluster.add_node(name, allocatable={"cpu": cpu})
    rests = [begun(cluster, "a-gang", "1"), begun(cluster, "b-gang", "4")]
    await begin(cluster)
    await cluster.clock.advance(1)
    assert nodes_of(cluster, rests) == ["n2", "n1"]


async def test_after_a_crash_the_job_that_can_start_comes_first(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two jobs are nominated for the same room. The older one, a gang, waits until a pod has ended on another node."""
    for name, cpu in (("n1", "1"), ("full", "1")):
        cluster.add_node(name, allocatable={"cpu": cpu})
    cluster.add_pod("ending", requests={"cpu": "1"}, labels={"job": "x"}, node_name="full", scheduler_name="batch")
    cluster.server.remove("v1", "Pod", "ending", namespace="default", grace_seconds=30)
    two_of(monkeypatch, "a")
    older, younger = add(cluster, "a", members=2), add(cluster, "b", members=1)
    for name, node in zip((*older, *younger), ("n1", "full", "n1"), strict=True):
        cluster.patch(Pod, name, {"status": {"nominatedNodeName": node}}, status=True)
    monkeypatch.setattr(Jobs, "actions", [WholeJobs()])
    await begin(cluster)
    await cluster.clock.advance(1)
    assert nodes_of(cluster, [*older, *younger]) == ["", "", "n1"]


async def test_after_a_crash_a_job_that_runs_waits_for_one_that_does_not(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two jobs are nominated for the same room. The older one runs, and would only grow."""
    cluster.add_node("old", allocatable={"cpu": "1"})
    cluster.add_node("n1", allocatable={"cpu": "1"})
    more, younger = begun(cluster, "a", "1"), add(cluster, "b", members=1)
    for name in (more, *younger):
        cluster.patch(Pod, name, {"status": {"nominatedNodeName": "n1"}}, status=True)
    monkeypatch.setattr(Jobs, "actions", [WholeJobs()])
    await begin(cluster)
    await cluster.clock.advance(1)
    assert nodes_of(cluster, [more, *younger]) == ["", "n1"]


async def test_after_a_crash_a_gang_keeps_its_precedence_until_it_finds_room(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node comes half a minute later; a job of higher priority waits for it, too."""
    two_of(monkeypatch, "gang")
    cluster.add_node("old", allocatable={"cpu": "1"})
    rest = begun(cluster, "gang", "1")
    high = add(cluster, "high", members=1, priority=10)
    monkeypatch.setattr(Jobs, "actions", [WholeJobs()])
    await begin(cluster)
    await cluster.clock.advance(LEASE_SECONDS / 2)
    cluster.add_node("n1", allocatable={"cpu": "1"})
    await cluster.clock.advance(1)
    assert nodes_of(cluster, [rest, *high]) == ["n1", ""]


async def test_guards_read_back_what_ending_pods_and_groups_say() -> None:
    """After a crash an evicted job rests, and does not evict the job for which it was evicted."""
    jobs = {each.uid: each for each in (job("a", TaskState.RELEASING), job("b", TaskState.PENDING), job("c"))}
    (task,) = jobs["a"].tasks.values()
    condition = {"type": "DisruptionTarget", "status": "True", "message": "action=reclaim by=default/b"}
    task.pod = make_pod("a-0", status={"conditions": [condition]})
    jobs["c"].last_eviction = 1000.0
    guards = Commitments()
    await read_back(guards, jobs, now=0.0, wall=1001.0, turn=no_turn)
    assert guards.protected(jobs["b"], 1.0, jobs) == {"a", "c"}
    later = BACKOFF_SECONDS[1] - 2
    assert guards.protected(jobs["b"], later, jobs) == {"a", "c"}
    later += 2
    assert guards.protected(jobs["b"], later, jobs) == {"a"}
    assert guards.protected(jobs["a"], later, jobs) == {"a", "b"}


async def interrupted(cluster: FakeCluster) -> tuple[list[str], list[str]]:
    """Let a scheduler crash that has told two pods of their eviction and deleted one; return them, and the others."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = await begin(cluster)
    low = add(cluster, "low", members=2)
    await cluster.clock.advance(1)
    cluster.server.faults.add(Fault(method="DELETE", path="/pods/low-1$", lose="request"))
    high = add(cluster, "high", members=1, cpu="2", priority=10)
    await cluster.clock.advance(1)
    assert [cluster.pod(name).is_terminating for name in low] == [True, False]
    await framework.close()
    cluster.server.faults.clear()
    return low, high


async def test_an_interrupted_eviction_that_helps_nobody_any_more_is_given_up(cluster: FakeCluster) -> None:
    """The node takes no new pods when the next scheduler begins: then the victim that is left stays."""
    low, high = await interrupted(cluster)
    cluster.patch(Node, "n1", {"spec": {"unschedulable": True}}, namespace="")
    await begin(cluster)
    await cluster.clock.advance(5)
    assert [cluster.pod(name).is_terminating for name in low] == [True, False]
    assert not cluster.pod(high[0]).status.nominated_node_name


async def test_an_interrupted_eviction_of_a_broken_gang_goes_on(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It helps nobody any more, but the gang needs both pods, and one of them is gone already."""
    two_of(monkeypatch, "low")
    low, _ = await interrupted(cluster)
    cluster.patch(Node, "n1", {"spec": {"unschedulable": True}}, namespace="")
    await begin(cluster)
    await cluster.clock.advance(5)
    assert [cluster.pod(name).is_terminating for name in low] == [True, True]


@pytest.mark.parametrize("fails", [False, True], ids=["", "the first pass fails"])
async def test_interrupted_evictions_of_a_gang_go_on_at_once(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """A pass that fails forgets none of them: the next one reads them again."""
    two_of(monkeypatch, "low")
    low, high = await interrupted(cluster)
    run, failures = WholeJobs.run, [fails]

    async def once(self: WholeJobs, session: Session) -> None:
        if failures and failures.pop():
            raise RuntimeError("a bug")
        await run(self, session)

    monkeypatch.setattr(WholeJobs, "run", once)
    await begin(cluster, may_fail=fails)
    await cluster.clock.advance(2)
    assert not failures
    assert [cluster.pod(name).is_terminating for name in low] == [True, True]
    assert cluster.pod(high[0]).status.nominated_node_name == "n1"


async def test_a_gang_that_is_repaired_keeps_its_pods(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod that a crash let go is made anew, and a limit refuses the promise: nothing is evicted any more."""
    two_of(monkeypatch, "low")
    low, _ = await interrupted(cluster)
    cluster.delete_pod("low-0")
    cluster.add_pod("low-2", requests={"cpu": "1"}, labels={"job": "low"}, scheduler_name="batch", priority=20)
    monkeypatch.setattr(Jobs, "limit", {"cpu": 1000.0})
    await begin(cluster)
    await cluster.clock.advance(30)
    assert not cluster.pod(low[1]).is_terminating
    assert nodes_of(cluster, [low[1], "low-2"]) == ["n1", "n1"]


async def test_an_eviction_that_was_given_up_is_none_after_a_crash(cluster: FakeCluster) -> None:
    """Its condition stays. The job has evicted another pod by then, on another node."""
    framework = await told_slowly(cluster)
    await cluster.clock.advance(120)
    cluster.add_node("n2", allocatable={"cpu": "1"})
    other = {"requests": {"cpu": "1"}, "labels": {"job": "other"}, "node_name": "n2"}
    cluster.add_pod("other-0", scheduler_name="batch", **other)
    await cluster.clock.advance(2)
    assert cluster.pod("high-0").status.nominated_node_name == "n2"
    await framework.close()
    await begin(cluster)
    await cluster.clock.advance(5)
    assert [cluster.pod(name).is_terminating for name in ("low-0", "other-0")] == [False, True]


async def test_a_new_scheduler_goes_on_with_interrupted_evictions(cluster: FakeCluster) -> None:
    """A victim that only got its condition before the crash is deleted after it, so the others ended for a purpose."""
    low, high = await interrupted(cluster)
    await begin(cluster)
    await cluster.clock.advance(1)
    assert cluster.pod("low-1").is_terminating
    for name in low:
        cluster.delete_pod(name)
    await cluster.clock.advance(1)
    assert nodes_of(cluster, high) == ["n1"]

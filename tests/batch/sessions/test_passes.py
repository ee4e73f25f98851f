"""Passes of a batch profile: whole jobs, evictions, promises, and no work when nothing changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pytest

from pyscheduler.api import Pod
from pyscheduler.framework import ConfigError, FilterPlugin, PermitPlugin, PreEnqueuePlugin, ReservePlugin, Status
from pyscheduler.podgroup import created_at
from pyscheduler_batch.contract import Action
from pyscheduler_batch.model.batch_plugin import TaskFacts
from pyscheduler_batch.model.build import build_queues
from pyscheduler_batch.model.job_spec import JobSpec
from pyscheduler_batch.model.queue_spec import QueueSpec
from pyscheduler_batch.model.tasks import ACTIVE, TaskState
from pyscheduler_batch.sessions.assembly import SessionPlugin, sessions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyscheduler.framework import NodeInfo, Plugin
    from pyscheduler.testing import FakeCluster, FakeFramework
    from pyscheduler_batch.model.axis import ResourceAxis
    from pyscheduler_batch.model.queue_table import QueueTable
    from pyscheduler_batch.model.session import EnabledPolicy, Session
    from pyscheduler_batch.model.statement import Statement
    from pyscheduler_batch.model.tasks import Job, Task

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: pyscheduler
- schedulerName: batch
  plugins: {multiPoint: {enabled: [%s], disabled: [{name: DefaultPreemption}]}}
"""


class WholeJobs(Action):
    """Allocate each job whose pods all fit, the older first."""

    name: ClassVar[str] = "allocate"

    async def run(self, session: Session) -> None:
        for job in sorted(session.jobs.values(), key=lambda job: (-job.priority, job.created, job.uid)):
            statement = session.statement()
            pending = [task for task in job.tasks.values() if task.state == TaskState.PENDING]
            for task in pending:
                fits = session.placer.feasible(task)
                now = fits & session.nodes.fits_now(task.request)
                if not now.any():
                    statement.discard()
                    session.record(job, "NoRoom", "no node has room")
                    break
                statement.allocate(task, int(np.flatnonzero(now)[0]))
            session.commit(statement)
            await session.turn()


class EvictLower(Action):
    """Evict single pods of lower priority until a pending job fits."""

    name: ClassVar[str] = "preempt"

    async def run(self, session: Session) -> None:
        pending = [task for job in session.jobs.values() for task in job.tasks.values() if task.node < 0]
        for task in (task for task in pending if task.job.priority > 0):
            statement = session.statement()
            for row in range(len(session.nodes)):
                if self._make_room(session, statement, task, row):
                    statement.pipeline(task, row)
                    break
                statement.discard()
            session.commit(statement)

    def _make_room(self, session: Session, statement: Statement, task: Task, row: int) -> bool:
        lower = (job for job in session.jobs.values() if job.priority < task.job.priority)
        others = [job for job in lower if job.uid not in session.protected(task.job)]
        victims = [each for job in others for each in job.tasks.values() if each.node == row and each.state in ACTIVE]
        while not session.placer.feasible(task)[row]:
            if not victims:
                return False
            statement.evict(victims.pop(0), action=self.name, by=task.job)
        return True


class Jobs(PreEnqueuePlugin, SessionPlugin):
    """Jobs by the label `job`, one queue."""

    name: ClassVar[str] = "Jobs"
    actions = (WholeJobs(), EvictLower())
    tiers: Sequence[Sequence[EnabledPolicy]] = ()
    #: Key of the job, action, key of the job that gets the room, and number of tasks of each notice.
    notices: ClassVar[list[tuple[str, str, str, int]]] = []
    limit: ClassVar[Mapping[str, float]] = {}

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return None

    def subscribe(self, on_change: Callable[[str | None], object]) -> None:
        pass

    def resources(self) -> Iterable[str]:
        return ()

    def queue_table(self, axis: ResourceAxis) -> tuple[QueueTable, Mapping[str, str]]:
        return build_queues(axis, [QueueSpec(name="q", uid="q", dialect="test", limit=self.limit)])

    def job_key(self, pod: Pod) -> str:
        return pod.labels["job"]

    def is_alone(self, pod: Pod) -> bool:
        return "alone" in pod.labels

    def job_spec(self, key: str, pods: Sequence[Pod]) -> JobSpec | None:
        created = min(created_at(pod) for pod in pods)
        return JobSpec(namespace="default", name=key, uid=key, dialect="test", created=created, queue="q")

    def job_priority(self, spec: JobSpec, pods: Sequence[Pod]) -> float:
        return max(pod.priority for pod in pods)

    def is_preemptible(self, spec: JobSpec, priority: float) -> bool:
        return True

    def task_facts(self, spec: JobSpec, pod: Pod) -> TaskFacts:
        return TaskFacts()

    def ended(self, key: str) -> Iterable[tuple[Pod, TaskState]]:
        return ()

    async def pass_ended(self, session: Session, waiting: Mapping[str, str]) -> None:
        pass

    def evicted(self, job: Job, *, action: str, by: Job | None, tasks: Sequence[Task]) -> None:
        self.notices.append((job.key, action, "" if by is None else by.key, len(tasks)))


class RejectSecond(PermitPlugin):
    """Reject the second pod of a job at Permit, as long as `is_on`."""

    name: ClassVar[str] = "RejectSecond"
    is_on: ClassVar[bool] = True

    def permit(self, state: object, pod: Pod, node_name: str) -> Status | None:
        return Status.unschedulable("not this one") if self.is_on and pod.name.endswith("-1") else None


class HoldBack(PreEnqueuePlugin):
    """Reject pods with the label `held` at PreEnqueue."""

    name: ClassVar[str] = "HoldBack"

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return Status.unresolvable("not yet") if "held" in pod.labels else None


def add(cluster: FakeCluster, job: str, *, members: int, cpu: str = "1", priority: int = 0) -> list[str]:
    """Create the pods of a job; return their names."""
    names = [f"{job}-{number}" for number in range(members)]
    for name in names:
        cluster.add_pod(name, requests={"cpu": cpu}, labels={"job": job}, scheduler_name="batch", priority=priority)
    return names


async def begin(
    cluster: FakeCluster, *plugins: type[Plugin], jobs: type[Jobs] = Jobs, may_fail: bool = False
) -> FakeFramework:
    """Start a scheduler whose batch profile has the session plugin `jobs`, and other plugins."""
    enable = [jobs, *plugins]
    config = CONFIG % ", ".join(f"{{name: {plugin.name}}}" for plugin in enable)
    framework = cluster.framework(config=config, enable=enable, allow_plugin_errors=may_fail)
    await framework.start()
    return framework


def nodes_of(cluster: FakeCluster, names: Iterable[str]) -> list[str | None]:
    """Return the node of each pod, "" for none."""
    return [cluster.pod(name).node_name for name in names]


async def test_a_job_is_bound_as_a_whole_or_not_at_all(cluster: FakeCluster) -> None:
    """A job that does not fit holds no node; a smaller one is bound; ordinary pods are scheduled beside them."""
    cluster.add_node("n1", allocatable={"cpu": "4"})
    framework = await begin(cluster)
    large, small = add(cluster, "large", members=5), add(cluster, "small", members=2)
    cluster.add_pod("plain", requests={"cpu": "1"})
    await cluster.clock.advance(1)
    assert nodes_of(cluster, small) == ["n1"] * 2
    assert not any(nodes_of(cluster, large))
    assert cluster.pod("plain").node_name == "n1"
    assert sessions_of(framework.scheduler)[0].waiting == {"default/large": "NoRoom: no node has room"}
    condition = next(each for each in cluster.pod(large[0]).status.conditions if each.type == "PodScheduled")
    assert (condition.status, condition.reason) == ("False", "Unschedulable")
    assert condition.message == "NoRoom: no node has room"


async def test_pods_that_differ_in_affinity_only_are_filtered_apart(cluster: FakeCluster) -> None:
    """A pod that must keep away from the only node does not keep a pod with the same containers from it."""
    cluster.add_node("n1", allocatable={"cpu": "4"}, labels={"kubernetes.io/hostname": "n1"})
    cluster.add_pod("there", requests={"cpu": "1"}, labels={"app": "noisy"}, node_name="n1")
    await begin(cluster)
    term = {"labelSelector": {"matchLabels": {"app": "noisy"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for name, priority, affinity in (("shy", 2, apart), ("plain", 1, None)):
        cluster.add_pod(
            name,
            requests={"cpu": "1"},
            labels={"job": name},
            scheduler_name="batch",
            priority=priority,
            affinity=affinity,
        )
    await cluster.clock.advance(1)
    assert nodes_of(cluster, ["shy", "plain"]) == ["", "n1"]


async def test_a_pod_that_a_plugin_holds_back_takes_nobodys_room(cluster: FakeCluster) -> None:
    """A pod that PreEnqueue rejects is not placed, and gets no condition; it is placed when the plugin lets it pass."""
    cluster.add_node("n1", allocatable={"cpu": "1"})
    await begin(cluster, HoldBack)
    labels = {"job": "held", "held": "yes"}
    cluster.add_pod("held-0", requests={"cpu": "1"}, labels=labels, scheduler_name="batch")
    await cluster.clock.advance(1)
    add(cluster, "later", members=1)
    await cluster.clock.advance(1)
    assert nodes_of(cluster, ["held-0", "later-0"]) == ["", "n1"]
    assert cluster.pod("held-0").status.conditions == ()
    cluster.patch(Pod, "held-0", {"metadata": {"labels": {"held": None}}})
    cluster.add_node("n2", allocatable={"cpu": "1"})
    await cluster.clock.advance(1)
    assert nodes_of(cluster, ["held-0"]) == ["n2"]


@pytest.mark.parametrize("alone", [pytest.param(True, id="alone"), pytest.param(False, id="in a group")])
async def test_no_job_is_built_for_a_held_pod_without_a_group(cluster: FakeCluster, alone: bool) -> None:
    """A held member of a group counts; a pod that may yet get a group becomes a job when it is let pass, or goes."""
    cluster.add_node("n1", allocatable={"cpu": "4"})
    framework = await begin(cluster, HoldBack)
    tables = sessions_of(framework.scheduler)[0].tables
    for name in ("held", "gone"):
        labels = {"job": name, "held": "yes", **({"alone": "yes"} if alone else {})}
        cluster.add_pod(f"{name}-0", requests={"cpu": "1"}, labels=labels, scheduler_name="batch")
    add(cluster, "other", members=1)
    await cluster.clock.advance(1)
    assert tables.jobs.keys() - {"other"} == (set() if alone else {"held", "gone"})
    cluster.patch(Pod, "held-0", {"metadata": {"labels": {"held": None}}})
    cluster.delete_pod("gone-0")
    await cluster.clock.advance(1)
    assert nodes_of(cluster, ["held-0", "other-0"]) == ["n1"] * 2
    assert tables.jobs.keys() == {"held", "other"}


async def test_no_pass_begins_while_nothing_changes(cluster: FakeCluster) -> None:
    """A job that waits costs nothing until a node comes; then it is bound."""
    cluster.add_node("n1", allocatable={"cpu": "1"})
    framework = await begin(cluster)
    names = add(cluster, "a", members=2)
    await cluster.clock.advance(1)
    passes = sessions_of(framework.scheduler)[0].passes
    assert passes > 0
    await cluster.clock.advance(3600)
    assert sessions_of(framework.scheduler)[0].passes == passes
    cluster.add_node("n2", allocatable={"cpu": "1"})
    await cluster.clock.advance(1)
    assert sorted(str(node) for node in nodes_of(cluster, names)) == ["n1", "n2"]


async def test_bindings_do_not_wait_for_the_reports_of_a_pass(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods are bound while the pass still reports why others wait, however long that takes; the next pass comes after.

    A pass over thousands of new jobs on a busy machine reported for longer than the pods ran that it had placed.
    """
    reports: list[float] = []

    async def pass_ended(*_: object) -> None:
        reports.append(cluster.clock.now())
        await cluster.clock.sleep(60)

    monkeypatch.setattr(Jobs, "pass_ended", pass_ended)
    cluster.add_node("n1", allocatable={"cpu": "2"})
    await begin(cluster)
    names = add(cluster, "a", members=2)
    add(cluster, "b", members=1)
    await cluster.clock.advance(1)
    assert (nodes_of(cluster, names), len(reports)) == (["n1", "n1"], 1)
    cluster.add_node("n2", allocatable={"cpu": "1"})
    await cluster.clock.advance(1)
    assert (nodes_of(cluster, ["b-0"]), len(reports)) == ([""], 1)
    await cluster.clock.advance(60)
    assert nodes_of(cluster, ["b-0"]) == ["n2"]
    monkeypatch.undo()
    await cluster.clock.advance(120)


async def test_a_rejection_at_permit_takes_the_whole_job_back(cluster: FakeCluster) -> None:
    """No pod of a job is bound if one of them is rejected for real; the next pass tries the job again."""
    cluster.add_node("n1", allocatable={"cpu": "4"})
    RejectSecond.is_on = True
    framework = await begin(cluster, RejectSecond)
    names = add(cluster, "a", members=2)
    await cluster.clock.advance(1)
    assert not any(nodes_of(cluster, names))
    assert len(framework.scheduler.queue) == 2
    RejectSecond.is_on = False
    await cluster.clock.advance(10)
    assert nodes_of(cluster, names) == ["n1", "n1"]


async def test_an_eviction_makes_room_for_the_job_that_asked(cluster: FakeCluster) -> None:
    """Exactly the victims needed are deleted, the preemptor is nominated meanwhile and bound once they are gone."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    await begin(cluster)
    low = add(cluster, "low", members=2)
    await cluster.clock.advance(1)
    assert nodes_of(cluster, low) == ["n1", "n1"]
    high = add(cluster, "high", members=1, priority=10)
    await cluster.clock.advance(5)
    leaving = [name for name in low if cluster.pod(name).is_terminating]
    assert len(leaving) == 1
    assert cluster.pod(high[0]).status.nominated_node_name == "n1"
    conditions = {each.type: each.message for each in cluster.pod(leaving[0]).status.conditions}
    assert conditions["DisruptionTarget"] == "action=preempt by=default/high"
    cluster.delete_pod(leaving[0])
    await cluster.clock.advance(5)
    assert nodes_of(cluster, high) == ["n1"]
    assert len([name for name in low if name in {pod.name for pod in cluster.pods()}]) == 1


async def test_the_plugin_learns_of_evictions_once_for_a_job_and_pass(cluster: FakeCluster) -> None:
    """Two victims of one job are one notice, with the action and the job that gets the room."""
    cluster.add_node("n1", allocatable={"cpu": "3"})
    Jobs.notices.clear()
    await begin(cluster)
    add(cluster, "low", members=2)
    add(cluster, "alone", members=1)
    await cluster.clock.advance(1)
    add(cluster, "high", members=1, cpu="3", priority=10)
    await cluster.clock.advance(5)
    assert sorted(Jobs.notices) == [
        ("default/alone", "preempt", "default/high", 1),
        ("default/low", "preempt", "default/high", 2),
    ]


async def test_a_batch_profile_may_not_preempt_by_itself(cluster: FakeCluster) -> None:
    """A plugin that preempts beside the batch plugin is a mistake in the configuration, said in one line."""
    config = CONFIG.replace(", disabled: [{name: DefaultPreemption}]", "") % "{name: Jobs}"
    with pytest.raises(ConfigError, match='disable "DefaultPreemption", which does, too'):
        cluster.framework(config=config, enable=[Jobs])


class Raises(Action):
    """Raise after a job was placed, as long as `is_on`."""

    name: ClassVar[str] = "raise"
    is_on: ClassVar[bool] = True

    async def run(self, session: Session) -> None:
        if self.is_on:
            raise ValueError("this action has a bug")


class BrokenJobs(Jobs):
    """The same with an action that raises."""

    name: ClassVar[str] = "Jobs"
    actions = (WholeJobs(), Raises())


async def test_an_action_that_raises_costs_its_pass_only(cluster: FakeCluster) -> None:
    """Nothing of a broken pass is carried out; ordinary pods are scheduled, and later passes begin afresh."""
    cluster.add_node("n1", allocatable={"cpu": "4"})
    Raises.is_on = True
    framework = await begin(cluster, jobs=BrokenJobs, may_fail=True)
    names = add(cluster, "a", members=2)
    cluster.add_pod("plain", requests={"cpu": "1"})
    await cluster.clock.advance(3)
    assert not any(nodes_of(cluster, names))
    assert cluster.pod("plain").node_name == "n1"
    assert len(framework.plugin_errors) > 1
    Raises.is_on = False
    await cluster.clock.advance(15)
    assert nodes_of(cluster, names) == ["n1", "n1"]


async def test_an_action_that_raises_fails_the_test_of_its_author(cluster: FakeCluster) -> None:
    """The fixture raises the exception at teardown, with the action and its place."""
    cluster.add_node("n1")
    Raises.is_on = True
    framework = await begin(cluster, jobs=BrokenJobs)
    add(cluster, "a", members=1)
    await cluster.clock.advance(1)
    with pytest.raises(ValueError, match="this action has a bug") as caught:
        cluster.raise_plugin_errors()
    note = caught.value.__notes__[0]
    assert note.startswith(
        'plugin "Jobs" failed at Session (profile=batch action=raise): ValueError: this action has a bug, '
        "test_passes.py:"
    )
    Raises.is_on = False
    framework.plugin_errors.clear()


class Seats(ReservePlugin, FilterPlugin):
    """Keeps books: each node has one seat. In a trial it books as well, and evicted pods give their seats back."""

    name: ClassVar[str] = "Seats"
    taken: ClassVar[dict[str, str]] = {}

    def filter(self, state: object, pod: Pod, node: NodeInfo) -> Status | None:
        return Status.unschedulable("the seat is taken") if node.name in self.taken else None

    def reserve(self, state: object, pod: Pod, node_name: str) -> Status | None:
        self.taken[node_name] = pod.uid
        return None

    def unreserve(self, state: object, pod: Pod, node_name: str) -> None:
        if self.taken.get(node_name) == pod.uid:
            del self.taken[node_name]


async def test_tasks_of_a_pass_see_what_plugins_booked_for_each_other(cluster: FakeCluster) -> None:
    """Two pods of a job get seats of different nodes in one pass; a job that gets none leaves the books clean."""
    Seats.taken.clear()
    for name in ("n1", "n2"):
        cluster.add_node(name, allocatable={"cpu": "8"})
    framework = await begin(cluster, Seats)
    names = add(cluster, "a", members=2)
    more = add(cluster, "b", members=1)
    await cluster.clock.advance(3)
    assert sorted(str(node) for node in nodes_of(cluster, names)) == ["n1", "n2"]
    assert not any(nodes_of(cluster, more))
    assert sessions_of(framework.scheduler)[0].submission.failures == 0
    assert Seats.taken == {cluster.pod(name).node_name: cluster.pod(name).uid for name in names}

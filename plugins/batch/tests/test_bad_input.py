"""Bad input: a reason on the object or at the start, bounded work, nothing lost, no protected pod evicted."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest

from pyscheduler.framework import ConfigError
from pyscheduler_batch.contract import (
    Action,
    JobOrder,
    NodeOrder,
    Policy,
    Predicate,
    Preemptable,
    Reclaimable,
    VictimFilter,
)
from pyscheduler_batch.sessions.assembly import sessions_of
from pyscheduler_lab.testing import PROFILE, BatchCluster, gpus

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler_batch.contract import Claim, Key, Tasks
    from pyscheduler_batch.model.session import Session
    from pyscheduler_batch.model.tasks import Job, Task

#: Warnings that mean a bug of ours.
BUGS = {"session_failed", "schedule_one_failed", "plugin_error", "batch_status_not_written"}
PRESETS = ["kai", "volcano", "kube_batch"]


@pytest.fixture
def batch(request: pytest.FixtureRequest) -> BatchCluster:
    """Return a cluster of the preset that the test names."""
    found: BatchCluster = request.getfixturevalue(request.param)
    return found


def waiting(scheduler: Any) -> dict[str, str]:
    """Return by job key why it waits."""
    return dict(sessions_of(scheduler.scheduler)[0].waiting)


def message(batch: BatchCluster, name: str) -> str:
    """Return the message of a pod's condition PodScheduled, "" if it has none."""
    conditions = batch.cluster.pod(name).status.conditions
    return next((each.message for each in conditions if each.type == "PodScheduled"), "")


def terminating(batch: BatchCluster) -> list[str]:
    """Return the names of the pods that were evicted."""
    return sorted(pod.name for pod in batch.cluster.pods() if pod.is_terminating)


# --- amounts of queues


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "resources",
    [
        pytest.param(gpus(-5), id="negative quota"),
        pytest.param(gpus(1, limit=-7), id="negative limit"),
        pytest.param(gpus(1e300), id="absurd quota"),
        pytest.param(gpus(10**400), id="quota too large for a float"),
        pytest.param(gpus(1, weight=-3), id="negative weight"),
        pytest.param(gpus("many"), id="a word"),
        pytest.param({"gpu": [1]}, id="a list"),
        pytest.param("all", id="no map"),
    ],
)
async def test_negative_and_absurd_quotas_of_kai(kai: BatchCluster, resources: Any, caplog: Any) -> None:
    """A value that cannot be used counts as 0, with one warning that names queue and field; other queues are served."""
    kai.nodes(1, cpu="8", **{"nvidia.com/gpu": "4"})
    kai.queue("bad", resources=resources)
    kai.queue("good", resources=gpus(2))
    with caplog.at_level(logging.WARNING):
        scheduler = await kai.start()
        kai.job("one", "good", 2, requests={"cpu": "1", "nvidia.com/gpu": "1"})
        kai.job("two", "bad", 1, requests={"cpu": "1", "nvidia.com/gpu": "1"})
        await kai.pass_time(30)
    assert kai.nodes_of("one") == ["n0", "n0"]
    assert kai.nodes_of("two") == ["n0"] or "default/two" in waiting(scheduler)
    assert not BUGS & scheduler.warnings.keys()
    lines = [record.getMessage() for record in caplog.records if "Queue bad: spec.resources" in record.getMessage()]
    assert lines
    assert len(lines) == len(set(lines)), "a warning was logged twice"


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"deserved": {"cpu": "-1"}}, id="negative deserved"),
        pytest.param({"capability": {"cpu": "1e999"}}, id="absurd capability"),
        pytest.param({"guarantee": {"resource": {"cpu": "lots"}}}, id="word as guarantee"),
        pytest.param({"guarantee": {"resource": {"cpu": "1000"}}}, id="guarantee beyond the cluster"),
        pytest.param({"weight": -4}, id="negative weight"),
        pytest.param({"weight": 10**12}, id="absurd weight"),
        pytest.param({"weight": "heavy"}, id="word as weight"),
        pytest.param({"priority": -1, "reclaimable": "maybe"}, id="words elsewhere"),
    ],
)
@pytest.mark.parametrize("policy", ["proportion", "capacity"])
async def test_negative_and_absurd_quotas_of_volcano(volcano: BatchCluster, spec: Any, policy: str) -> None:
    """A value that cannot be used does not count, and jobs of the queue are bound beside those of others."""
    volcano.nodes(1, cpu="8")
    volcano.queue("bad", **spec)
    volcano.queue("good")
    tiers = f"tiers: [{{plugins: [gang, predicates, {policy}]}}]"
    scheduler = await volcano.start(tiers)
    volcano.job("one", "good", 1)
    volcano.job("two", "bad", 1)
    await volcano.pass_time(30)
    bound = [volcano.nodes_of("one"), volcano.nodes_of("two")]
    assert ["n0"] in bound
    waits = waiting(scheduler)
    assert bound[0] == ["n0"] or "default/one" in waits
    assert bound[1] == ["n0"] or "default/two" in waits
    assert not BUGS & scheduler.warnings.keys()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("batch", PRESETS, indirect=True)
async def test_weights_of_0(batch: BatchCluster) -> None:
    """With all weights 0, queues divide nothing beyond their quotas in KAI; elsewhere a weight is at least 1."""
    batch.nodes(1, cpu="8", **{"nvidia.com/gpu": "2"})
    spec: dict[str, Any] = {"resources": gpus(1, weight=0)} if batch.preset == "kai" else {"weight": 0}
    for name in ("a", "b"):
        batch.queue(name, **spec)
    scheduler = await batch.start()
    for name in ("a", "b"):
        batch.job(f"job-{name}", name, 1, requests={"cpu": "1", "nvidia.com/gpu": "1"})
    await batch.pass_time(30)
    assert batch.nodes_of("job-a") == batch.nodes_of("job-b") == ["n0"]
    assert not BUGS & scheduler.warnings.keys()


async def test_quotas_beyond_the_cluster(kai: BatchCluster) -> None:
    """Two queues with a quota of the whole cluster share it; nobody is evicted, and the rest says why it waits."""
    kai.nodes(1, cpu="64", **{"nvidia.com/gpu": "4"})
    for name in ("a", "b"):
        kai.queue(name, resources=gpus(4))
    scheduler = await kai.start()
    for name in ("a", "b"):
        for number in range(4):
            kai.job(f"{name}{number}", name, 1, requests={"cpu": "1", "nvidia.com/gpu": "1"})
    await kai.pass_time(600)
    bound = {name: sum(kai.nodes_of(f"{name}{number}") == ["n0"] for number in range(4)) for name in ("a", "b")}
    assert bound == {"a": 2, "b": 2}
    assert not terminating(kai)
    assert len(waiting(scheduler)) == 4
    assert all(text.startswith("PodSchedulingErrors") for text in waiting(scheduler).values())


# --- queues that change under running jobs


@pytest.mark.sampled(2)
@pytest.mark.parametrize("batch", PRESETS, indirect=True)
async def test_renamed_and_deleted_queues_under_running_jobs(batch: BatchCluster) -> None:
    """Running pods stay; the group says what is wrong, with an event; new pods wait until the queue is back."""
    batch.nodes(1, cpu="8")
    batch.queue("a")
    scheduler = await batch.start()
    batch.group("one", "a", 1)
    batch.pods("one", 1)
    await batch.pass_time()
    batch.go("Running", "one-0")
    batch.cluster.delete(batch.queue_kind.type, "a", namespace="")
    batch.queue("renamed")
    batch.pods("one", 1, start=1)
    await batch.pass_time(700)
    assert batch.cluster.pod("one-0").node_name == "n0"
    assert not terminating(batch)
    assert waiting(scheduler) == {
        "default/one": 'QueueDoesNotExist: queue "a" does not exist; create it, or change the queue of the pod group'
    }
    assert any('queue "a" does not exist' in note for _, _, note in batch.events("one"))
    assert message(batch, "one-1").startswith("QueueDoesNotExist")
    batch.queue("a")
    await batch.pass_time()
    assert batch.nodes_of("one") == ["n0", "n0"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("batch", PRESETS, indirect=True)
async def test_a_pod_group_that_changes_its_queue_while_it_runs(batch: BatchCluster) -> None:
    """Its running pods stay and count in the new queue; its waiting pods are bound there."""
    batch.nodes(1, cpu="2")
    for name in ("a", "b"):
        batch.queue(name)
    scheduler = await batch.start()
    batch.group("one", "a", 1)
    batch.pods("one", 1)
    await batch.pass_time()
    batch.go("Running", "one-0")
    batch.cluster.patch(batch.group_kind.type, "one", {"spec": {"queue": "b"}})
    batch.pods("one", 1, start=1)
    await batch.pass_time()
    assert batch.nodes_of("one") == ["n0", "n0"]
    tables = sessions_of(scheduler.scheduler)[0].tables
    cpu = tables.axis.index["cpu"]
    assert [tables.queues.allocated[tables.queues.index[name], cpu] for name in ("a", "b")] == [0.0, 2000.0]
    assert not terminating(batch)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("batch", PRESETS, indirect=True)
async def test_two_dialects_with_one_name(batch: BatchCluster, request: pytest.FixtureRequest) -> None:
    """If presets of two systems run in one scheduler, a name that both have is no queue until one object is deleted."""
    other = BatchCluster(batch.cluster, "volcano" if batch.preset == "kai" else "kai")
    batch.nodes(1, cpu="8")
    batch.queue("both")
    await batch.start(before=PROFILE % ("other", f"{{preset: {other.preset}}}"))
    batch.job("early", "both", 1)
    await batch.pass_time()
    assert batch.nodes_of("early") == ["n0"]
    other.queue("both")
    batch.job("one", "both", 1)
    other.job("two", "both", 1, profile="other")
    await batch.pass_time()
    assert batch.nodes_of("early") == ["n0"]
    text = 'DuplicateQueue: queue "both" is defined by more than one object; delete or rename all but one'
    for name in ("one-0", "two-0"):
        assert message(batch, name) == text
        assert any(text in note for _, _, note in batch.events(name))
    for each, name in ((batch, "one"), (other, "two")):
        assert any("is defined by more than one object" in note for _, _, note in each.events(name))
        assert "DuplicateQueue" in str(each.group_status(name))
    batch.cluster.delete(other.queue_kind.type, "both", namespace="")
    await batch.pass_time()
    assert batch.nodes_of("one") == ["n0"]
    assert message(batch, "two-0").startswith("QueueDoesNotExist")


# --- groups


@pytest.mark.sampled(2)
@pytest.mark.parametrize("batch", PRESETS, indirect=True)
async def test_min_member_above_the_number_of_pods(batch: BatchCluster) -> None:
    """Nothing is bound, evicted or reserved for such a group; it says how many pods it lacks."""
    batch.nodes(1, cpu="4")
    batch.queue("default")
    scheduler = await batch.start()
    batch.group("large", "default", 2_000_000_000)
    batch.pods("large", 2)
    await batch.pass_time()
    batch.job("small", "default", 4)
    await batch.pass_time(60)
    assert batch.nodes_of("small") == ["n0"] * 4
    assert batch.nodes_of("large") == ["", ""]
    assert "2000000000" in waiting(scheduler)["default/large"]
    assert any("2000000000" in note for _, _, note in batch.events("large"))
    assert not BUGS & scheduler.warnings.keys()


# --- policies and actions of others


class Raising(Policy, JobOrder):
    """Raises whenever it is asked, as long as `is_on`."""

    name: ClassVar[str] = "raising"
    is_on: ClassVar[bool] = True

    def open_session(self, session: Session) -> None:
        if self.is_on:
            raise KeyError("acme.example/deadline")

    def job_key(self, job: Job) -> Key:
        return ()


class WrongShape(Policy, Predicate, NodeOrder, Preemptable, Reclaimable, VictimFilter):
    """Returns `answer`, called with the right length, in the role `role`."""

    name: ClassVar[str] = "shapes"
    role: ClassVar[str] = ""
    answer: ClassVar[Any] = None

    def _said(self, role: str, size: int) -> Any:
        return self.answer(size) if role == self.role else None

    def filter_nodes(self, task: Task) -> NDArray[np.bool_] | None:
        found: NDArray[np.bool_] | None = self._said("filter_nodes", 2)
        return found

    def score_nodes(self, task: Task, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
        found: NDArray[np.float64] | None = self._said("score_nodes", len(rows))
        return found

    def preemptable(self, claim: Claim, tasks: Tasks) -> NDArray[np.bool_] | None:
        found: NDArray[np.bool_] | None = self._said("preemptable", len(tasks))
        return found

    def reclaimable(self, claim: Claim, tasks: Tasks) -> NDArray[np.bool_] | None:
        found: NDArray[np.bool_] | None = self._said("reclaimable", len(tasks))
        return found

    def may_evict(self, claim: Claim, tasks: Tasks, action: str) -> NDArray[np.bool_] | None:
        found: NDArray[np.bool_] | None = self._said("may_evict", len(tasks))
        return found


class Everybody(Policy, Preemptable, Reclaimable):
    """Lets everybody be evicted by anybody."""

    name: ClassVar[str] = "everybody"

    def preemptable(self, claim: Claim, tasks: Tasks) -> NDArray[np.bool_] | None:
        return np.ones(len(tasks), dtype=np.bool_)

    reclaimable = preemptable


class Endless(Action):
    """Never ends: takes turns for ever, or waits for ever without one."""

    name: ClassVar[str] = "endless"
    takes_turns: ClassVar[bool] = True
    clock: ClassVar[Any] = None

    async def run(self, session: Session) -> None:
        while self.takes_turns:
            await session.turn()
            await self.clock.sleep(0.1)
        await asyncio.Event().wait()


def offers(registry: Registry) -> None:
    """Offer the policies and actions of this module."""
    for policy in (Raising, WrongShape, Everybody):
        registry.add_batch(policy.name, f"{__name__}:{policy.__name__}")
    registry.add_action(Endless.name, f"{__name__}:Endless")


TIERS = {
    "kai": "tiers: [{plugins: [%s, predicates, proportion, priority, sg-nodelocalgreedy, sg-multinodegang]}]",
    "volcano": "tiers: [{plugins: [%s]}, {plugins: [gang, priority, conformance, predicates, proportion]}]",
    "kube-batch": "tiers: [{plugins: [%s]}, {plugins: [gang, priority, conformance, predicates, proportion]}]",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("batch", PRESETS, indirect=True)
async def test_a_policy_that_raises(batch: BatchCluster) -> None:
    """Each pass fails and is tried again after a backoff; pods say why; ordinary pods are scheduled meanwhile."""
    Raising.is_on = True
    batch.nodes(1, cpu="8")
    batch.queue("default")
    scheduler = await batch.start(
        TIERS[batch.preset] % "raising", before="- schedulerName: plain\n", register=offers, allow_plugin_errors=True
    )
    batch.job("one", "default", 1)
    batch.cluster.add_pod("ordinary", requests={"cpu": "1"}, scheduler_name="pyscheduler")
    await batch.pass_time(60)
    assert batch.cluster.pod("ordinary").node_name == "n0"
    text = message(batch, "one-0")
    assert re.fullmatch(
        r"SessionFailed: no job can be scheduled, because the pass failed: policy \"raising\": KeyError: "
        r"'acme.example/deadline', test_bad_input.py:\d+ in Raising.open_session",
        text,
    )
    assert [note for _, _, note in batch.events("one-0")] == [text]
    assert {plugin for plugin, _ in scheduler.scheduler.plugin_failures.counts} == {"Batch"}
    assert 1 < scheduler.warnings["session_failed"] < 20
    Raising.is_on = False
    await batch.pass_time(30)
    assert batch.nodes_of("one") == ["n0"]


#: By preset, the methods of a policy that return arrays.
ROLES = [
    ("kai", "filter_nodes"),
    ("kai", "score_nodes"),
    ("kai", "may_evict"),
    ("volcano", "filter_nodes"),
    ("volcano", "score_nodes"),
    ("volcano", "preemptable"),
    ("volcano", "reclaimable"),
    ("kube_batch", "preemptable"),
    ("kube_batch", "reclaimable"),
]
WRONG_SHAPES: dict[str, Callable[[int], object]] = {
    "length": lambda size: np.ones(1, dtype=np.bool_) if size != 1 else np.ones(2, dtype=np.bool_),
    "dimensions": lambda size: np.ones((size, 1)),
    "list": lambda size: [True] * size,
    "scalar": lambda _: True,
    "not numbers": lambda size: np.full(size, np.nan),
}


# One function checks the arrays of scores, another one all others. `make test` has every wrong shape for both, and one
# for each other method.
@pytest.mark.sampled(17)
@pytest.mark.parametrize(
    ("batch", "role", "answer"),
    [
        pytest.param(
            *case,
            answer,
            id=f"{'-'.join(case)}-{name}",
            marks=[] if at < 2 or at % len(WRONG_SHAPES) == kind else pytest.mark.long,
        )
        for at, case in enumerate(ROLES)
        for kind, (name, answer) in enumerate(WRONG_SHAPES.items())
    ],
    indirect=["batch"],
)
async def test_a_policy_that_returns_an_array_of_the_wrong_shape(batch: BatchCluster, role: str, answer: Any) -> None:
    """The answer decides about nothing: the pass fails, and pods name the policy, the method and both shapes."""
    WrongShape.role, WrongShape.answer = "", staticmethod(answer)
    batch.nodes(2, cpu="4")
    for name in ("a", "b"):
        batch.queue(name)
    actions = "allocate, reclaim, preempt" if batch.preset == "kai" else "enqueue, allocate, preempt, reclaim"
    actions = actions.removeprefix("enqueue, ") if batch.preset == "kube-batch" else actions
    args = f'{TIERS[batch.preset] % "shapes"}, actions: "{actions}"'
    scheduler = await batch.start(args, register=offers, allow_plugin_errors=True)
    batch.group("low", "a", 1)
    batch.pods("low", 8)
    await batch.pass_time()
    batch.go("Running", *(f"low-{number}" for number in range(8)))
    if role in {"filter_nodes", "score_nodes"}:
        batch.cluster.delete_pod("low-0")
        batch.cluster.delete_pod("low-1")
        batch.cluster.add_node("n2", allocatable={"cpu": "1", "memory": "1Gi", "pods": "10"})
    await batch.pass_time()
    WrongShape.role = role
    # Only one queue has a claim in preempt, two in reclaim.
    batch.job("high", "a" if role == "preemptable" else "b", 1)
    await batch.pass_time(60)
    assert f'policy "shapes": {role} returned' in message(batch, "high-0")
    assert scheduler.warnings["session_failed"] > 1
    assert not terminating(batch)


@pytest.mark.slow
@pytest.mark.parametrize("batch", PRESETS, indirect=True)
@pytest.mark.parametrize("takes_turns", [True, False], ids=["with turns", "without turns"])
async def test_an_action_that_never_ends(batch: BatchCluster, takes_turns: bool) -> None:
    """Such a pass is ended; what it had decided is carried out, passes back off, and ordinary pods are scheduled."""
    Endless.takes_turns, Endless.clock = takes_turns, batch.cluster.clock
    batch.nodes(1, cpu="2")
    batch.queue("default")
    first = "enqueue, allocate" if batch.preset == "volcano" else "allocate"
    scheduler = await batch.start(f'actions: "{first}, endless"', register=offers)
    batch.job("one", "default", 1)
    await batch.pass_time(60)
    assert batch.nodes_of("one") == ["n0"]
    batch.job("two", "default", 2)
    batch.cluster.add_pod("ordinary", requests={"cpu": "500m"}, scheduler_name="pyscheduler")
    await batch.pass_time(300)
    assert batch.cluster.pod("ordinary").node_name == "n0"
    assert batch.nodes_of("two") == ["", ""]
    assert "default/two" in waiting(scheduler)
    assert scheduler.warnings["session_stuck"] >= 1
    assert sessions_of(scheduler.scheduler)[0].passes < 60
    await scheduler.close()


@pytest.mark.slow
@pytest.mark.parametrize("batch", ["volcano", "kube_batch"], indirect=True)
async def test_a_policy_that_makes_everybody_preemptable(batch: BatchCluster) -> None:
    """Critical pods and pods that say that they are not preemptible stay, and evictions end."""
    batch.nodes(1, cpu="4")
    for name in ("a", "b"):
        batch.queue(name)
    first = "enqueue, allocate" if batch.preset == "volcano" else "allocate"
    args = f'{TIERS[batch.preset] % "everybody"}, actions: "{first}, preempt, reclaim"'
    await batch.start(args, register=offers, allow_plugin_errors=True)
    batch.group("critical", "a", 1)
    batch.pods("critical", 1, spec={"priorityClassName": "system-cluster-critical"})
    batch.group("safe", "a", 1)
    batch.group("low", "a", 1)
    batch.pods("low", 3 if batch.preset == "kube-batch" else 2)
    if batch.preset == "volcano":
        batch.cluster.add_pod(
            "safe-0",
            requests={"cpu": "1"},
            scheduler_name="batch",
            annotations={"scheduling.k8s.io/group-name": "safe", "volcano.sh/preemptable": "false"},
        )
    await batch.pass_time()
    batch.go("Running", *(pod.name for pod in batch.cluster.pods()))
    await batch.pass_time()
    batch.group("claim", "b", 2)
    batch.pods("claim", 4)
    batch.group("claim2", "a", 2)
    batch.pods("claim2", 4)
    evicted: set[str] = set()
    for _ in range(100):
        await batch.pass_time(60)
        for name in terminating(batch):
            evicted.add(name)
            batch.cluster.delete_pod(name)
    assert {name for name in evicted if name.startswith("low")}, "nothing was evicted, so the test shows nothing"
    assert not {name for name in evicted if name.startswith(("critical", "safe"))}
    count = len(evicted)
    await batch.pass_time(3600)
    assert len({*evicted, *terminating(batch)}) == count, "evictions go on"


# --- at the start


@pytest.mark.parametrize("batch", PRESETS, indirect=True)
async def test_unknown_policies_and_actions_are_refused_at_the_start(batch: BatchCluster) -> None:
    """One line for each, with the nearest name."""
    with pytest.raises(ConfigError, match='no policy is called "prioritty"; did you mean "priority"') as error:
        await batch.start('tiers: [{plugins: [prioritty]}], actions: "allocates"')
    assert any('no action is called "allocates"; did you mean "allocate"' in line for line in error.value.problems)


@pytest.mark.parametrize("batch", PRESETS, indirect=True)
async def test_unknown_arguments_are_warnings(batch: BatchCluster, caplog: Any) -> None:
    """The scheduler starts, says what has no effect, and names the nearest argument."""
    batch.nodes(1, cpu="1")
    batch.queue("default")
    with caplog.at_level(logging.WARNING):
        policies = "[{name: proportion, arguments: {kVlue: 3}}, predicates]"
        await batch.start(f"requireGrop: true, tiers: [{{plugins: {policies}}}]")
    text = "\n".join(record.getMessage() for record in caplog.records)
    assert 'no key is called "requireGrop"; did you mean "requireGroup"?' in text
    assert 'no argument is called "kVlue"' in text
    batch.job("one", "default", 1)
    await batch.pass_time()
    assert batch.nodes_of("one") == ["n0"]


@pytest.mark.parametrize(
    ("preset", "labels", "annotations", "expected"),
    [
        pytest.param(
            "kai",
            {},
            {},
            "the pod is in no pod group and names no queue; set its label kai.scheduler/queue",
            id="kai-without-a-label",
        ),
        pytest.param(
            "kai",
            {"kai.scheduler/queue": "b"},
            {},
            'queue "b" does not exist; create it, or change the queue of the pod',
            id="kai",
        ),
        pytest.param(
            "volcano",
            {},
            {"scheduling.volcano.sh/queue-name": "b"},
            'queue "b" does not exist; create it, or change the queue of the pod',
            id="volcano",
        ),
    ],
)
async def test_pod_without_a_group_is_told_about_its_own_queue(
    preset: str, labels: dict[str, str], annotations: dict[str, str], expected: str, request: pytest.FixtureRequest
) -> None:
    """The message does not speak of a pod group, which such a pod does not have."""
    batch = request.getfixturevalue(preset)
    batch.nodes(1, cpu="4")
    batch.queue("a")
    await batch.start()
    batch.cluster.add_pod("one", labels=labels, annotations=annotations, scheduler_name="batch", requests={"cpu": "1"})
    await batch.pass_time(5)
    (condition,) = batch.cluster.pod("one").status.conditions
    assert condition.message == f"QueueDoesNotExist: {expected}"


async def test_kai_needs_neither_queues_nor_gpus(kai: Any) -> None:
    """In a cluster of CPUs without any queue, a job hears that its queue is missing."""
    kai.nodes(1, cpu="4")
    await kai.start()
    kai.job("one", "none", 1)
    await kai.pass_time()
    assert [each[2].partition(":")[0] for each in kai.events("one-0")] == ["QueueDoesNotExist"]

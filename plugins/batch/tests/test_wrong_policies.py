"""Policies, actions and queue dialects of others that break the contract: the message names them and the place."""

from __future__ import annotations

import asyncio
import math
import re
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import pytest

from plugins.batch.tests import fair_queues
from plugins.batch.tests.fair_queues import FAIR_QUEUES, FairQueue
from plugins.batch.tests.test_bad_input import TIERS, message
from pyscheduler.framework import ConfigError
from pyscheduler_batch.contract import Action, JobOrder, Policy, TaskState
from pyscheduler_batch.sessions.assembly import sessions_of

if TYPE_CHECKING:
    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler_batch.contract import Job, Key, Session
    from pyscheduler_lab.testing import BatchCluster

PRESETS = ["kai", "volcano"]


@pytest.fixture
def batch(request: pytest.FixtureRequest) -> BatchCluster:
    """Return a cluster of the preset that the test names."""
    found: BatchCluster = request.getfixturevalue(request.param)
    return found


class Bids(Policy, JobOrder):
    """Returns `answer` for each job."""

    name: ClassVar[str] = "bids"
    answer: ClassVar[Any] = None

    def job_key(self, job: Job) -> Key:
        key: Key = self.answer(job)
        return key


class Expire(Action):
    """Notes when jobs began; tests give it another `run`."""

    name: ClassVar[str] = "expire"
    began: ClassVar[dict[str, float | None]] = {}

    async def run(self, session: Session) -> None:
        self.began.update({job.key: job.last_start for job in session.jobs.values()})


def offers(registry: Registry) -> None:
    """Offer what this module defines."""
    registry.add_batch("bids", f"{__name__}:Bids")
    registry.add_action("expire", f"{__name__}:Expire")


OFFERED = {"register": offers, "allow_plugin_errors": True}


def fair_offers(registry: Registry) -> None:
    """Offer the queue dialect `fair`."""
    registry.add_queue_dialect("fair", f"{fair_queues.__name__}:ROW")


async def _text_of(batch: BatchCluster, args: str) -> str:
    """Return why two jobs wait; a failure of `Batch` must have been reported with the same text."""
    batch.nodes(1, cpu="8")
    batch.queue("default")
    scheduler = await batch.start(args, **OFFERED)
    failures = scheduler.plugin_errors
    for name in ("one", "two"):
        batch.job(name, "default", 1)
    await batch.pass_time()
    text = message(batch, "one-0")
    prefix = "SessionFailed: no job can be scheduled, because the pass failed: "
    assert text.startswith(prefix), text
    assert {failure.plugin for failure in failures} == {"Batch"}
    assert failures[-1].place, "the report has no place"
    await scheduler.close()
    return text.removeprefix(prefix)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("answer", "found"),
    [
        pytest.param(lambda _: -1.0, "-1.0 for job default/", id="number"),
        pytest.param(lambda _: None, "None for job default/", id="None"),
        pytest.param(lambda _: (math.nan,), "(nan,) for job default/", id="NaN"),
    ],
)
@pytest.mark.parametrize("batch", PRESETS, indirect=True)
async def test_a_key_of_a_wrong_type_names_the_policy(batch: BatchCluster, answer: Any, found: str) -> None:
    """Pods and the report name the policy, the method, its answer and the place; not the action that read it."""
    Bids.answer = staticmethod(answer)
    text = await _text_of(batch, TIERS[batch.preset] % "bids")
    assert text.startswith(f'policy "bids": job_key returned {found}')
    assert "expected a tuple of numbers (not NaN) and strings, test_wrong_policies.py:" in text
    assert text.endswith(" in Bids.job_key")


@pytest.mark.parametrize("batch", PRESETS, indirect=True)
async def test_keys_that_cannot_be_compared_name_the_policy(batch: BatchCluster) -> None:
    """A number for one job and a string for another one are reported with both keys."""
    Bids.answer = staticmethod(lambda job: (1,) if job.key.endswith("one") else ("x",))
    text = await _text_of(batch, TIERS[batch.preset] % "bids")
    assert text.startswith('policy "bids": job_key returned ')
    assert "expected a key that compares with " in text
    assert text.endswith(" in Bids.job_key")


async def test_a_replaced_method_that_raises_names_the_policy(
    kai: BatchCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function that a test puts in place of a method may call its first parameter as it likes."""
    monkeypatch.setattr(Bids, "job_key", lambda policy, job: (job.nope,))
    assert (await _text_of(kai, TIERS["kai"] % "bids")).startswith('policy "bids": AttributeError: ')


async def test_a_replaced_method_with_a_wrong_answer_is_named(
    kai: BatchCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has the name of the method, and the place of the function that stands for it."""
    monkeypatch.setattr(Bids, "job_key", lambda policy, job: None)
    text = await _text_of(kai, TIERS["kai"] % "bids")
    assert text.startswith('policy "bids": job_key returned None for job default/')
    assert text.endswith("<lambda>")


async def test_a_replaced_open_session_that_raises_names_the_policy(
    kai: BatchCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same holds for `open_session`."""
    monkeypatch.setattr(Bids, "open_session", lambda policy, session: 1 / 0)
    assert (await _text_of(kai, TIERS["kai"] % "bids")).startswith('policy "bids": ZeroDivisionError: ')


async def test_a_replaced_run_that_raises_names_the_action(kai: BatchCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same holds for `Action.run`."""

    async def run(_action: Action, _session: Session) -> None:
        raise KeyError("boom")

    monkeypatch.setattr(Expire, "run", run)
    text = await _text_of(kai, 'actions: "expire, allocate"')
    assert text.startswith("action \"expire\": KeyError: 'boom', test_wrong_policies.py:")


async def _cancelled() -> None:
    """Await a task that nobody but this function cancels."""
    other = asyncio.ensure_future(asyncio.Event().wait())
    other.cancel()
    await other


class _Mute(Exception):  # noqa: N818 - not an error of ours
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("error", "found"),
    [
        pytest.param(SystemExit(3), "SystemExit: 3", id="exits"),
        pytest.param(asyncio.CancelledError(), "CancelledError", id="raises CancelledError"),
        pytest.param(None, "CancelledError", id="awaits a cancelled task"),
        pytest.param(_Mute(), "_Mute: <exception str() failed>", id="error without a text"),
    ],
)
async def test_a_run_that_raises_anything_costs_the_pass(
    kai: BatchCluster, monkeypatch: pytest.MonkeyPatch, error: BaseException | None, found: str
) -> None:
    """Pods name the action, other pods are scheduled, and the next pass is tried after a backoff."""

    async def run(_action: Action, _session: Session) -> None:
        if error is None:
            await _cancelled()
        else:
            raise error

    with monkeypatch.context() as patch:
        patch.setattr(Expire, "run", run)
        kai.nodes(1, cpu="8")
        kai.queue("default")
        before = "- schedulerName: plain\n"
        await kai.start('actions: "expire, allocate"', before=before, **OFFERED)
        kai.job("one", "default", 1)
        await kai.pass_time(10)
        prefix = 'SessionFailed: no job can be scheduled, because the pass failed: action "expire": '
        assert message(kai, "one-0").startswith(f"{prefix}{found}, test_wrong_policies.py:")
        kai.cluster.add_pod("ordinary", requests={"cpu": "1"}, scheduler_name="plain")
        await kai.pass_time()
        assert kai.cluster.pod("ordinary").node_name == "n0"
    await kai.pass_time(10)
    assert kai.nodes_of("one") == ["n0"]


async def test_a_scheduler_that_is_cancelled_ends_in_a_pass(kai: BatchCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost lease cancels the loop; a pass does not take that for a failure of the action that runs."""
    began = asyncio.Event()

    async def run(_action: Action, _session: Session) -> None:
        began.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(Expire, "run", run)
    kai.queue("default")
    scheduler = await kai.start('actions: "expire"', **OFFERED)
    kai.job("one", "default", 1)
    await kai.pass_time(1)
    assert began.is_set()
    loop = scheduler.scheduler._loop
    assert loop is not None
    loop.cancel()
    await kai.pass_time(0)
    assert loop.cancelled()
    assert "session_failed" not in scheduler.warnings


async def test_texts_are_bounded(kai: BatchCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the name of a queue nor the error of an action makes a condition of any length."""

    async def run(_action: Action, _session: Session) -> None:
        raise ValueError("x" * 1_000_000)

    kai.nodes(1, cpu="8")
    kai.queue("default")
    await kai.start('actions: "expire, allocate"', **OFFERED)
    kai.job("one", "q" * 100_000, 1)
    await kai.pass_time()
    assert message(kai, "one-0").startswith("QueueDoesNotExist")
    assert len(message(kai, "one-0")) == 32_768
    monkeypatch.setattr(Expire, "run", run)
    kai.job("two", "default", 1)
    await kai.pass_time()
    assert message(kai, "two-0").startswith("SessionFailed")
    assert len(message(kai, "two-0")) < 5000


async def test_a_run_that_is_not_async_names_the_action(kai: BatchCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused at the start; replaced later, it fails the pass with the same text."""
    kai.nodes(1, cpu="8")
    kai.queue("default")
    scheduler = await kai.start('actions: "expire, allocate"', **OFFERED)
    monkeypatch.setattr(Expire, "run", lambda action, session: None)
    kai.job("one", "default", 1)
    await kai.pass_time()
    text = 'action "expire": run is not async; write "async def run(self, session)"'
    assert f"{text}, test_wrong" in message(kai, "one-0")
    await scheduler.close()
    with pytest.raises(ConfigError, match=re.escape(text)):
        await kai.start('actions: "expire, allocate"', **OFFERED)


async def test_an_open_statement_names_the_action(kai: BatchCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is neither committed nor discarded would keep its tasks from all other actions."""

    async def run(_action: Action, session: Session) -> None:
        statement = session.statement()
        for job in session.jobs.values():
            for task in job.tasks.values():
                statement.allocate(task, 0)

    monkeypatch.setattr(Expire, "run", run)
    text = await _text_of(kai, 'actions: "expire, allocate"')
    assert text.startswith('action "expire": run ended with an open statement (task default/')
    assert "call session.commit(statement) or statement.discard()" in text


async def test_ended_statements_are_fine(kai: BatchCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """An action may discard one statement and commit another one."""

    async def run(_action: Action, session: Session) -> None:
        for job in session.jobs.values():
            for task in job.tasks.values():
                if task.state == TaskState.PENDING:
                    tried, kept = session.statement(), session.statement()
                    tried.allocate(task, 1)
                    tried.discard()
                    kept.allocate(task, 1)
                    session.commit(kept)

    monkeypatch.setattr(Expire, "run", run)
    kai.nodes(2, cpu="8")
    kai.queue("default")
    await kai.start('actions: "expire, allocate"', **OFFERED)
    kai.job("one", "default", 1)
    await kai.pass_time()
    assert kai.nodes_of("one") == ["n1"]


@pytest.mark.parametrize(
    ("node", "found"),
    [("n0", "TypeError: node is a row (int) of session.nodes, not 'n0'"), (7, "IndexError: there is no node in row 7")],
)
async def test_a_node_that_is_no_row_is_refused(
    kai: BatchCluster, monkeypatch: pytest.MonkeyPatch, node: Any, found: str
) -> None:
    """The message says what a node is, and where the action gave another one."""

    async def run(_action: Action, session: Session) -> None:
        for job in session.jobs.values():
            session.statement().allocate(next(iter(job.tasks.values())), node)

    monkeypatch.setattr(Expire, "run", run)
    assert (await _text_of(kai, 'actions: "expire, allocate"')).startswith(f'action "expire": {found}')


async def test_last_start_of_a_pod_without_a_group(kai: BatchCluster) -> None:
    """It is the time at which the pod was bound."""
    Expire.began.clear()
    kai.nodes(1, cpu="8")
    kai.queue("default")
    await kai.start('actions: "expire, allocate"', **OFFERED)
    bound_at = kai.cluster.clock.wall()
    labels = {"kai.scheduler/queue": "default"}
    kai.cluster.add_pod("alone", requests={"cpu": "1"}, labels=labels, scheduler_name="batch")
    await kai.pass_time(600)
    assert kai.cluster.pod("alone").node_name == "n0"
    kai.job("other", "default", 1)
    await kai.pass_time()
    began = Expire.began["default/alone"]
    assert began is not None
    assert bound_at <= began <= bound_at + 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("read", "found"),
    [
        pytest.param(lambda _: None, "read returned None for queue a, expected a QueueSpec", id="None"),
        pytest.param(lambda queue: queue.nope, "read raised AttributeError: 'FairQueue' object has no", id="raises"),
        pytest.param(
            lambda queue: attrs.evolve(fair_queues.read(queue), quota=None),
            "read returned quota=None, expected numbers by resource, for queue a",
            id="a field of another type",
        ),
    ],
)
async def test_a_queue_dialect_that_fails_is_named(
    kai: BatchCluster, monkeypatch: pytest.MonkeyPatch, read: Any, found: str
) -> None:
    """The report names the dialect, the queue and the place of `read`, and the pods of the profile say the same."""
    monkeypatch.setattr(fair_queues, "ROW", attrs.evolve(fair_queues.ROW, read=read))
    kai.cluster.serve(FAIR_QUEUES)
    scheduler = await kai.start(register=fair_offers, allow_plugin_errors=True)
    failures = scheduler.plugin_errors
    kai.cluster.add({"apiVersion": "fair.example/v1", "kind": "FairQueue", "metadata": {"name": "a"}}, FairQueue)
    kai.queue("b")
    kai.job("one", "a", 1)
    kai.job("two", "b", 1)
    kai.cluster.add_pod("alone", labels={"kai.scheduler/queue": "b"}, scheduler_name="batch")
    kai.cluster.add_pod(
        "held",
        labels={"kai.scheduler/queue": "b"},
        scheduler_name="batch",
        spec={"schedulingGates": [{"name": "wait"}]},
    )
    await kai.pass_time()
    assert str(failures[-1].error).startswith(f'queue dialect "fair": {found}')
    assert failures[-1].place.startswith("test_wrong_policies.py:")
    text = f'SessionFailed: no job can be scheduled, because the pass failed: queue dialect "fair": {found}'
    for name in ("one-0", "two-0", "alone"):
        assert message(kai, name).startswith(text)
    assert not message(kai, "held").startswith("SessionFailed")
    kai.cluster.delete(FairQueue, "a", namespace="")
    kai.nodes(1, cpu="8")
    await kai.pass_time(10)
    assert kai.nodes_of("two") == ["n0"]
    assert message(kai, "one-0").startswith("QueueDoesNotExist")


async def test_a_queue_dialect_of_others_places_jobs(kai: BatchCluster) -> None:
    """The example of the documentation works with names of `pyscheduler_batch.contract` alone."""
    kai.cluster.serve(FAIR_QUEUES)
    manifest = {"apiVersion": "fair.example/v1", "kind": "FairQueue", "metadata": {"name": "a"}, "spec": {"gpus": 1}}
    kai.cluster.add(manifest, FairQueue)
    kai.nodes(1, cpu="8", **{"nvidia.com/gpu": "2"})
    scheduler = await kai.start(register=fair_offers)
    kai.job("one", "a", 1, requests={"nvidia.com/gpu": "1"})
    await kai.pass_time()
    assert kai.nodes_of("one") == ["n0"]
    queues = sessions_of(scheduler.scheduler)[0].tables.queue_table()
    assert queues.quota[queues.index["a"]].tolist().count(1.0) == 1


@pytest.mark.parametrize(
    "args", ["shard: {plugins: {proportion: {enabled: false}}}", "tiers: [{plugins: [{name: predicates}]}]"]
)
async def test_kai_without_shares_is_refused_at_the_start(kai: BatchCluster, args: str) -> None:
    """All its actions count by shares; every pass would fail."""
    with pytest.raises(ConfigError, match='the actions of the preset "kai" need the policy "proportion"; enable it'):
        await kai.start(args)

"""Leader election on an embedded cluster, in virtual time: one candidate, two, and everything that goes wrong."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from pyscheduler.api.times import format_micro_time
from pyscheduler.cluster.real.lease import LeaderElector, make_identity
from pyscheduler.config.types import LeaderElection
from pyscheduler.framework.errors import ConfigError
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.scheduler.ports import Response
from pyscheduler.testing.clock import settle

LEASE = ("coordination.k8s.io/v1", "Lease", "pyscheduler")


class Gauges(NullRecorder):
    """Keeps gauges and counts warnings."""

    def __init__(self) -> None:
        self.gauges: dict[str, Callable[[], Mapping[tuple[tuple[str, str], ...], float]]] = {}
        self.warned = 0

    def warning(self, kind: str) -> None:
        assert kind == "lease_request_failed"
        self.warned += 1

    def gauge(self, name: str, read: Any, *, description: str = "") -> None:
        self.gauges[name] = read


class Candidate:
    """An elector, the task that waits for it to lead, and what it said."""

    def __init__(self, stage: Any, name: str, transport: Any = None, **times: float) -> None:
        self.stage = stage
        self.recorder = Gauges()
        self.losses: list[float] = []
        self.elector = LeaderElector(
            config=LeaderElection(**times),  # type: ignore[arg-type]  # only durations
            transport=self._open,
            clock=stage.clock,
            rng=random.Random(name),
            recorder=self.recorder,
            identity=name,
            on_lost=lambda: self.losses.append(stage.clock.now()),
        )
        self.transport = transport if transport is not None else stage.cluster.transport()
        self.acquiring: asyncio.Task[None] | None = None
        self.opened: Exception | None = None

    async def _open(self) -> Any:
        if self.opened is not None:
            raise self.opened
        return self.transport

    @property
    def leads(self) -> bool:
        return self.elector.is_leader

    async def begin(self) -> None:
        self.acquiring = asyncio.create_task(self.elector.acquire())
        await settle()

    async def die(self) -> None:
        """End without a word, as SIGKILL does."""
        task = self.elector._place._task  # type: ignore[attr-defined]  # it runs on this loop
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        if self.acquiring is not None:
            self.acquiring.cancel()
            await asyncio.wait([self.acquiring])

    async def finish(self) -> None:
        """Release, in virtual time."""
        releasing = asyncio.create_task(self.elector.release())
        await self.stage.clock.advance(60)
        await releasing


@pytest.fixture
async def candidate(stage: Any) -> AsyncIterator[Callable[..., Candidate]]:
    """Make candidates on the stage's cluster; they end with the test."""
    made: list[Candidate] = []

    def make(name: str = "a", *args: Any, **keywords: Any) -> Candidate:
        made.append(Candidate(stage, name, *args, **keywords))
        return made[-1]

    yield make
    for each in made:
        await each.die()


def lease(stage: Any) -> dict[str, Any]:
    """Return the lease as it is."""
    found: dict[str, Any] = stage.cluster.get(*LEASE, namespace="kube-system")
    return found


def wall(stage: Any) -> str:
    """Return the time of day as leases show it."""
    return format_micro_time(stage.clock.wall())


async def test_creates_the_lease_and_renews_it(stage: Any, candidate: Any) -> None:
    """A lease that is missing is made; then renewed at least every retry period, and acquired no more."""
    a = candidate()
    began = wall(stage)
    await a.begin()
    assert a.leads
    assert a.acquiring.done()
    assert lease(stage)["spec"] == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": began,
        "renewTime": began,
        "leaseTransitions": 0,
    }
    await stage.clock.advance(100)
    assert a.leads
    spec = lease(stage)["spec"]
    assert (spec["acquireTime"], spec["leaseTransitions"]) == (began, 0)
    assert spec["renewTime"] > format_micro_time(stage.clock.wall() - 2)
    assert a.recorder.warned == 0


async def test_reports_leadership_as_a_gauge(stage: Any, candidate: Any) -> None:
    """The metric of kube's components is 1 while leading, 0 before and after."""
    a = candidate()
    read = a.recorder.gauges["leader_election_master_status"]
    assert read() == {(("name", "pyscheduler"),): 0.0}
    await a.begin()
    assert read() == {(("name", "pyscheduler"),): 1.0}
    await a.finish()
    assert read() == {(("name", "pyscheduler"),): 0.0}


async def test_standby_takes_over_after_the_lease_duration(stage: Any, candidate: Any) -> None:
    """A silent leader is replaced after lease duration and one retry, at the most; not before it has stopped itself."""
    a, b = candidate("a"), candidate("b")
    await a.begin()
    await b.begin()
    await stage.clock.advance(50)
    assert (a.leads, b.leads) == (True, False)
    await a.die()
    renewed = lease(stage)["spec"]["renewTime"]
    until = stage.clock.now() + 15 + 2
    while not b.leads:
        await stage.clock.advance(0.1)
        assert stage.clock.now() <= until
    assert not a.leads
    spec = lease(stage)["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("b", 1)
    assert spec["acquireTime"] > renewed


async def test_standby_takes_over_at_once_after_a_release(stage: Any, candidate: Any) -> None:
    """What is released is taken at the standby's next look."""
    a, b = candidate("a"), candidate("b")
    await a.begin()
    await b.begin()
    await stage.clock.advance(7)
    releasing = asyncio.create_task(a.elector.release())
    await settle()
    await releasing
    now = wall(stage)
    assert lease(stage)["spec"] == {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "acquireTime": now,
        "renewTime": now,
        "leaseTransitions": 0,
    }
    assert not a.leads
    assert a.losses == []
    await a.elector.lost()
    await stage.clock.advance(2)
    assert b.leads
    assert lease(stage)["spec"]["leaseTransitions"] == 1


async def test_release_means_not_leading_from_its_first_moment(stage: Any, candidate: Any) -> None:
    """The next leader may begin while the answer to the release is under way."""
    a = candidate()
    await a.begin()
    stage.fault(method="PUT", delay_seconds=1)
    releasing = asyncio.create_task(a.elector.release())
    await asyncio.sleep(0)
    assert not a.leads
    await stage.clock.advance(2)
    assert releasing.done()


async def test_release_twice_or_before_anything(stage: Any, candidate: Any) -> None:
    """Releasing what was never held, or again, does nothing."""
    a, b = candidate("a"), candidate("b")
    await a.elector.release()
    await b.begin()
    await b.finish()
    await b.elector.release()
    assert not b.leads


async def test_release_leaves_the_lease_of_another_alone(stage: Any, candidate: Any) -> None:
    """A standby that ends changes nothing; neither does a leader that was replaced."""
    a, b = candidate("a"), candidate("b")
    await a.begin()
    await b.begin()
    before = lease(stage)
    await b.elector.release()
    assert lease(stage) == before
    stage.change(LEASE[:2], "pyscheduler", "kube-system", lambda body: body["spec"].update(holderIdentity="c"))
    await a.finish()
    assert lease(stage)["spec"]["holderIdentity"] == "c"


async def test_acquire_that_is_cancelled_is_released(stage: Any, candidate: Any) -> None:
    """A stop signal while waiting: the candidate goes, and what it had just got is free again."""
    a = candidate()
    stage.fault(method="POST", delay_seconds=1)
    await a.begin()
    a.acquiring.cancel()
    await stage.clock.advance(1.5)
    assert lease(stage)["spec"]["holderIdentity"] == "a"
    await a.finish()
    assert lease(stage)["spec"]["holderIdentity"] == ""


async def test_lease_deleted_under_the_leader_is_made_anew(stage: Any, candidate: Any) -> None:
    """The leader stays; the standby, which saw who led, gives it the time to come back."""
    a, b = candidate("a"), candidate("b")
    await a.begin()
    await b.begin()
    before = lease(stage)
    stage.cluster.remove(*LEASE, namespace="kube-system")
    for _ in range(30):
        await stage.clock.advance(0.1)
        assert (a.leads, b.leads) == (True, False)
    after = lease(stage)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["spec"]["acquireTime"] == before["spec"]["acquireTime"]
    assert after["spec"]["leaseTransitions"] == 0


async def test_what_others_write_into_the_lease_stays(stage: Any, candidate: Any) -> None:
    """A label on the lease costs the leader one look, and is not wiped out by the next renewal."""
    a = candidate()
    await a.begin()
    stage.change(LEASE[:2], "pyscheduler", "kube-system", lambda body: body["metadata"].update(labels={"team": "blue"}))
    await stage.clock.advance(5)
    assert a.leads
    assert lease(stage)["metadata"]["labels"] == {"team": "blue"}
    assert a.recorder.warned == 0


async def test_labels_do_not_keep_a_dead_leader_alive(stage: Any, candidate: Any) -> None:
    """Only a change of the lease's spec is a sign of life."""
    a, b = candidate("a"), candidate("b")
    await a.begin()
    await b.begin()
    await a.die()
    for step in range(17):
        stage.change(
            LEASE[:2], "pyscheduler", "kube-system", lambda body, n=step: body["metadata"].update(labels={"n": str(n)})
        )
        await stage.clock.advance(1)
    assert b.leads


@pytest.mark.parametrize("holder", ["intruder", ""])
async def test_lease_taken_away_is_lost_at_the_next_look(stage: Any, candidate: Any, holder: str) -> None:
    """A leader whose lease names another, or nobody, stops and says why; it never comes back."""
    a = candidate()
    await a.begin()
    waiting = asyncio.create_task(a.elector.lost())
    stage.change(LEASE[:2], "pyscheduler", "kube-system", lambda body: body["spec"].update(holderIdentity=holder))
    began = stage.clock.now()
    await stage.clock.advance(2)
    assert not a.leads
    assert waiting.done()
    assert a.losses
    assert a.losses[0] <= began + 2
    assert a.elector.reason == (f"it is held by {holder}" if holder else "somebody took it away")
    await stage.clock.advance(100)
    assert not a.leads
    assert len(a.losses) == 1


@pytest.mark.parametrize("hours", [-30, 30])
async def test_clock_hours_off(stage: Any, candidate: Any, hours: int) -> None:
    """A holder whose written times are far in the past or future is respected while it renews, and no longer."""

    def renew(body: dict[str, Any]) -> None:
        body["spec"].update(
            holderIdentity="other",
            leaseDurationSeconds=15,
            renewTime=format_micro_time(stage.clock.wall() + 3600 * hours),
        )

    other, a = candidate("other"), candidate("a")
    await other.begin()
    await other.die()
    stage.change(LEASE[:2], "pyscheduler", "kube-system", renew)
    await a.begin()
    for _ in range(20):
        stage.change(LEASE[:2], "pyscheduler", "kube-system", renew)
        await stage.clock.advance(10)
        assert not a.leads
    await stage.clock.advance(17)
    assert a.leads
    assert a.recorder.warned == 0


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"status": 500}, id="500"),
        pytest.param({"status": 409}, id="409"),
        pytest.param({"status": 429, "retry_after_seconds": 1}, id="429"),
        pytest.param({"status": 503}, id="503"),
        pytest.param({"status": 403}, id="403"),
        pytest.param({"status": 401}, id="401"),
        pytest.param({"lose": "request"}, id="request-lost"),
        pytest.param({"lose": "answer"}, id="answer-lost"),
        pytest.param({"delay_seconds": 3600}, id="hangs"),
    ],
)
async def test_cannot_renew(stage: Any, candidate: Any, fault: Any) -> None:
    """Whatever keeps a leader from renewing: it rides out seven seconds, and stops at its deadline if it goes on."""
    a = candidate()
    await a.begin()
    await stage.clock.advance(20)
    stage.fault(**fault)
    await stage.clock.advance(7)
    assert a.leads
    stage.cluster.faults.clear()
    await stage.clock.advance(5)
    assert a.leads
    assert a.recorder.warned > 0

    stage.fault(**fault)
    began = stage.clock.now()
    await stage.clock.advance(7.9)
    assert a.leads
    await stage.clock.advance(2.2)
    assert not a.leads
    assert len(a.losses) == 1
    assert began + 7.9 < a.losses[0] <= began + 10.02
    assert a.elector.reason.startswith("it could not be renewed within 10 s: ")


async def test_hanging_request_leaves_time_for_another(stage: Any, candidate: Any) -> None:
    """One connection that hangs costs half the renew deadline, not leadership."""
    a = candidate()
    await a.begin()
    hanging = stage.fault(method="PUT", delay_seconds=3600, times=1)
    await stage.clock.advance(60)
    assert hanging.hits == 1
    assert a.leads
    assert a.recorder.warned == 1


async def test_lost_answer_to_the_creation(stage: Any, candidate: Any) -> None:
    """The lease was made, the answer got lost: the next look finds our own name."""
    stage.fault(method="POST", lose="answer", times=1)
    a = candidate()
    await a.begin()
    assert not a.leads
    await stage.clock.advance(2)
    assert a.leads
    assert lease(stage)["spec"]["leaseTransitions"] == 0


async def test_storm_of_conflicts(stage: Any, candidate: Any) -> None:
    """Of five candidates on an unreliable server exactly one leads, all the time once one does."""
    faults = [stage.fault(method=method, status=409, probability=0.4) for method in ("PUT", "POST")]
    candidates = [candidate(name) for name in "abcde"]
    for each in candidates:
        await each.begin()
    await stage.clock.advance(60)
    for _ in range(100):
        await stage.clock.advance(0.5)
        assert sum(each.leads for each in candidates) <= 1
    assert sum(each.leads for each in candidates) == 1
    assert faults[0].hits > 5


async def test_release_retries(stage: Any, candidate: Any) -> None:
    """An answer that is a 500 does not leave the lease behind for others to wait for."""
    a = candidate()
    await a.begin()
    fault = stage.fault(status=500, times=3)
    await a.finish()
    assert fault.hits == 3
    assert lease(stage)["spec"]["holderIdentity"] == ""


async def test_release_gives_up(stage: Any, candidate: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A server that does not answer keeps nobody from ending, past the renew deadline."""
    a = candidate()
    await a.begin()
    stage.fault(delay_seconds=3600)
    releasing = asyncio.create_task(a.elector.release())
    await stage.clock.advance(10.1)
    assert releasing.done()
    assert "could not be released" in caplog.text


async def test_release_after_a_loss_frees_what_is_still_ours(stage: Any, candidate: Any) -> None:
    """Not renewed in time, not taken either: the next leader need not wait for the rest of it."""
    a = candidate()
    await a.begin()
    stage.fault(status=500)
    await stage.clock.advance(11)
    assert not a.leads
    stage.cluster.faults.clear()
    await a.finish()
    assert lease(stage)["spec"]["holderIdentity"] == ""


# What a person has to mend


async def test_no_permission(stage: Any, candidate: Any) -> None:
    """One line with what is refused and what to do about it."""
    stage.fault(status=403)
    a = candidate()
    await a.begin()
    with pytest.raises(ConfigError) as caught:
        await a.acquiring
    text = str(caught.value)
    assert text.startswith("the leader lease kube-system/pyscheduler cannot be read: GET /apis/coordination.k8s.io/v1/")
    assert text.endswith("or run one replica with --leader-elect=false")
    assert "\n" not in text
    assert not a.leads


@pytest.mark.parametrize(("method", "verb"), [("POST", "created"), ("PUT", "updated")])
async def test_no_permission_to_write(stage: Any, candidate: Any, method: str, verb: str) -> None:
    """Reading alone does not make a leader."""
    if method == "PUT":
        other = candidate("other")
        await other.begin()
        await other.finish()
    stage.fault(method=method, status=403)
    a = candidate()
    await a.begin()
    with pytest.raises(ConfigError, match=f"cannot be {verb}"):
        await a.acquiring


async def test_permission_that_comes_back(stage: Any, candidate: Any) -> None:
    """API servers forget permissions for a moment when they start: a standby sits that out."""
    a, b = candidate("a"), candidate("b")
    await a.begin()
    await b.begin()
    await a.die()
    stage.fault(method="GET", status=403)
    await stage.clock.advance(5)
    stage.cluster.faults.clear()
    await stage.clock.advance(17)
    assert b.leads
    assert b.recorder.warned > 0


async def test_no_such_namespace(stage: Any, candidate: Any) -> None:
    """One line that names the namespace."""
    a = Candidate(stage, "a")
    a.elector = LeaderElector(
        config=LeaderElection(resource_namespace="nowhere"),
        transport=a._open,
        clock=stage.clock,
        rng=random.Random(1),
        recorder=NullRecorder(),
    )
    await a.begin()
    with pytest.raises(
        ConfigError, match=r'lease nowhere/pyscheduler cannot be created: .*"nowhere".*; create the name'
    ):
        await a.acquiring
    await a.elector.release()


async def test_server_that_is_away_at_the_start(stage: Any, candidate: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Acquiring goes on until the server is there; it is said once."""
    stage.fault(lose="request")
    a = candidate()
    await a.begin()
    await stage.clock.advance(60)
    assert not a.acquiring.done()
    assert caplog.text.count("Will try again: the leader lease kube-system/pyscheduler cannot be read") == 1
    assert a.recorder.warned > 20
    stage.cluster.faults.clear()
    await stage.clock.advance(2)
    assert a.leads


@pytest.mark.parametrize("error", [ConfigError("no kubeconfig"), RuntimeError("a fault of our own")])
async def test_transport_that_cannot_be_made(candidate: Any, error: Exception) -> None:
    """Acquire raises what kept it from beginning."""
    a = candidate()
    a.opened = error
    await a.begin()
    with pytest.raises(type(error), match=str(error)):
        await a.acquiring
    await a.elector.release()


class Odd:
    """A transport that answers `answer` from the time it is set."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.answer: Any = None
        self.close = inner.close

    async def request(self, method: str, path: str, **keywords: Any) -> Response:
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is not None:
            await asyncio.sleep(0)
            return Response(status=200, body=self.answer, headers={})
        found: Response = await self._inner.request(method, path, **keywords)
        return found


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"<html>welcome to the proxy</html>", id="html"),
        pytest.param(b"", id="nothing"),
        pytest.param(b'{"kind":"Lease","spec":{"holderIde', id="half"),
        pytest.param(b"{}", id="empty-object"),
        pytest.param(b'{"metadata":{"name":"pyscheduler"},"spec":{"holderIdentity":"a"}}', id="no-version"),
        pytest.param(b'{"metadata":{"name":"other","resourceVersion":"7"},"spec":null}', id="another-lease"),
        pytest.param(b'{"metadata":{"name":"pyscheduler","resourceVersion":"7"},"spec":null}', id="held-by-nobody"),
        pytest.param(
            b'{"metadata":{"name":"pyscheduler","resourceVersion":"7"},"spec":{"holderIdentity":5}}', id="type"
        ),
    ],
)
async def test_answers_that_are_no_lease(stage: Any, candidate: Any, answer: bytes) -> None:
    """They count as no answer: leadership lasts until its deadline, and nothing is overwritten unseen."""
    odd = Odd(stage.cluster.transport())
    a = candidate("a", odd)
    await a.begin()
    before = lease(stage)
    odd.answer = answer
    await stage.clock.advance(7)
    assert a.leads
    await stage.clock.advance(4)
    assert not a.leads
    assert lease(stage) == before


async def test_fault_of_our_own_while_leading(stage: Any, candidate: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Who cannot renew does not lead, whatever the cause; it is logged."""
    odd = Odd(stage.cluster.transport())
    a = candidate("a", odd)
    await a.begin()
    odd.answer = ValueError("not foreseen")
    await stage.clock.advance(2)
    assert not a.leads
    assert len(a.losses) == 1
    assert "not foreseen" in a.elector.reason
    assert "Leader election ended with an error" in caplog.text


async def test_log_tells_the_story(stage: Any, candidate: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Who leads is said when it changes, and not with every look."""
    caplog.set_level(logging.INFO)
    a, b = candidate("a"), candidate("b")
    await a.begin()
    await b.begin()
    await stage.clock.advance(60)
    await a.finish()
    assert [record.getMessage() for record in caplog.records if "lease" in record.name] == [
        "Attempting to acquire leader lease lease=kube-system/pyscheduler identity=a",
        "Successfully acquired lease lease=kube-system/pyscheduler identity=a",
        "Attempting to acquire leader lease lease=kube-system/pyscheduler identity=b",
        "New leader elected lease=kube-system/pyscheduler holder=a",
        "Released the leader lease lease=kube-system/pyscheduler",
        "New leader elected lease=kube-system/pyscheduler holder=nobody",
        "Successfully acquired lease lease=kube-system/pyscheduler identity=b",
    ]


def test_identity() -> None:
    """Host name and a UUID, never the same twice."""
    assert re.fullmatch(re.escape(socket.gethostname()) + "_[0-9a-f-]{36}", make_identity())
    assert make_identity() != make_identity()

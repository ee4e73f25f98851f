"""Leader election when requests go wrong: what is ridden out, what ends leadership, what a person has to mend."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.cluster.real.lease import LeaderElector
from pyscheduler.config.types import LeaderElection
from pyscheduler.framework.errors import ConfigError
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.scheduler.ports import Response
from tests.cluster.real.candidates import Candidate, lease


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
    odd = Odd(InProcessTransport(stage.cluster.router))
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
    odd = Odd(InProcessTransport(stage.cluster.router))
    a = candidate("a", odd)
    await a.begin()
    odd.answer = ValueError("not foreseen")
    await stage.clock.advance(2)
    assert not a.leads
    assert len(a.losses) == 1
    assert "not foreseen" in a.elector.reason
    assert "Leader election ended with an error" in caplog.text

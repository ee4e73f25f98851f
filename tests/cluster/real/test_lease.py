"""Leader election on an embedded cluster, in virtual time: one candidate, two, and who meddles with the lease."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from typing import Any

import pytest

from kube_objects.times import format_micro_time
from kube_testserver.virtual_time import settle
from pyscheduler.cluster.real.lease import make_identity
from tests.cluster.real.candidates import LEASE, lease, wall


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
    assert (a.elector.renewed_before, format_micro_time(b.elector.renewed_before)) == (0.0, renewed)


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
    assert format_micro_time(b.elector.renewed_before) == now


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


async def test_labels_of_the_lease_are_kept(stage: Any, candidate: Any) -> None:
    """A leader that finds a label on its lease reads it once and keeps the label in the next renewal."""
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
    assert a.elector.reason == (f"it is held by {holder}" if holder else "another replica took it")
    await stage.clock.advance(100)
    assert not a.leads
    assert len(a.losses) == 1


@pytest.mark.parametrize(
    ("spec", "within"),
    [
        pytest.param(None, 1, id="no spec"),
        pytest.param(
            dict.fromkeys(["holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime"]), 1, id="nulls"
        ),
        pytest.param(
            {"holderIdentity": "gone", "leaseTransitions": None, "strategy": None}, 17, id="held, and no more"
        ),
        pytest.param({"holderIdentity": "gone", "leaseDurationSeconds": 0}, 17, id="for no time"),
        pytest.param({"holderIdentity": "gone", "leaseDurationSeconds": -5}, 17, id="for less than no time"),
        pytest.param({"holderIdentity": "gone", "renewTime": "yesterday", "acquireTime": "never"}, 17, id="no times"),
        pytest.param({"holderIdentity": "gone", "renewTime": "9999-12-31T23:59:59.999999Z"}, 17, id="the far future"),
    ],
)
async def test_odd_leases_are_taken_over_in_time(stage: Any, candidate: Any, spec: Any, within: float) -> None:
    """Whatever somebody wrote into it, the lease is respected for its time and then held, with all that it needs."""
    metadata = {"name": "pyscheduler", "namespace": "kube-system", "uid": "odd"}
    stage.cluster.plant({"apiVersion": LEASE[0], "kind": LEASE[1], "metadata": metadata, "spec": spec})
    a = candidate("a")
    await a.begin()
    await stage.clock.advance(within)
    assert a.leads
    held = lease(stage)["spec"]
    assert (held["holderIdentity"], held["leaseDurationSeconds"]) == ("a", 15)
    assert held["leaseTransitions"] == 1
    assert held["renewTime"] == held["acquireTime"] or held["renewTime"] > held["acquireTime"]
    await a.finish()
    assert not lease(stage)["spec"].get("holderIdentity")


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

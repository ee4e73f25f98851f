"""Failing watches give one line of the log, however many fail and however long."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kube_objects.kinds import NODES, PODS
from kube_testserver.virtual_time import VirtualClock, settle
from pyscheduler.api import BUILT_IN_KINDS
from pyscheduler.cluster.real.outage_log import Outages
from pyscheduler.framework.errors import ForbiddenError, TransportError
from pyscheduler.podgroup.wire import SIGS_PODGROUPS, VOLCANO_PODGROUPS

GONE = TransportError("GET https://10.0.0.1:6443/api/v1/pods: connection refused")
FORBIDDEN = ForbiddenError("list podgroups.example: no", status=403, reason="Forbidden")


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Any:
    """Return the lines at info and above since the last call, with their levels."""
    caplog.set_level(logging.INFO, logger="pyscheduler")

    def take() -> list[str]:
        lines = [f"{record.levelname.lower()} {record.getMessage()}" for record in caplog.records]
        caplog.clear()
        return lines

    return take


class Watch:
    """Something that may fail; counts how often it was asked to try again."""

    def __init__(self) -> None:
        self.retries = 0

    def retry_soon(self) -> None:
        self.retries += 1


@pytest.mark.parametrize("forgets", [False, True], ids=["the same server", "a restarted server"])
async def test_when_one_watch_works_again_the_others_do_not_wait(stage: Any, forgets: bool) -> None:
    """After a long outage each waits up to 45 s; the first one that comes back wakes the others.

    A server that was restarted knows no old versions, and refuses some kinds in its first second.
    """
    informers = [(await stage.started(kind))[0] for kind in BUILT_IN_KINDS if kind.plural not in {"events", "leases"}]
    if forgets:
        stage.fault(path="/(nodes|services)$", status=403)
    stage.fault(lose="request")
    stage.drop_watches(how="cut")
    await stage.clock.advance(600)
    stage.cluster.faults.clear()
    if forgets:
        stage.add_pods("late")
        stage.cluster.store.compact()
    opened: list[int] = []
    while len(opened) < 500 and (not opened or opened[-1] < len(informers)):
        await stage.clock.advance(0.1)
        opened.append(sum(informer._watching.is_set() for informer in informers))
    assert opened[-1] == len(informers)
    waited = next(at for at, count in enumerate(opened) if count)
    assert len(opened) - waited <= 6, opened
    assert bool(stage.warnings["relisted"]) == forgets


async def test_a_watch_that_was_told_to_wait_waits(stage: Any) -> None:
    """The server asks one watch to come back in 20 s; another one that works again does not shorten that."""
    (pods, _), (nodes, _) = await stage.started(PODS), await stage.started(NODES)
    stage.fault(path="/pods$", status=429, retry_after_seconds=20, times=1)
    stage.fault(path="/nodes$", lose="request", times=2)
    stage.drop_watches(how="cut")
    await stage.clock.advance(19)
    assert (pods._watching.is_set(), nodes._watching.is_set()) == (False, True)
    await stage.clock.advance(12)
    assert pods._watching.is_set()


async def test_outage_of_the_server_is_one_line(stage: Any, said: Any) -> None:
    """An outage of ten minutes gives six lines, although all informers fail again and again."""
    kinds = [kind for kind in BUILT_IN_KINDS if kind.plural not in {"events", "leases"}]
    for kind in kinds:
        await stage.started(kind)
    said()
    fault = stage.fault(lose="request")
    stage.drop_watches(how="cut")
    await stage.clock.advance(600)
    lines = said()
    assert fault.hits > 20 * len(kinds)
    assert lines[0].startswith(
        f"warning API server unreachable watches={len(kinds)} resources=pods,nodes,namespaces,... "
    )
    assert len(lines) == 6, lines
    stage.cluster.faults.clear()
    await stage.clock.advance(60)
    assert said()[-1].startswith(f"info API server answers again watches={len(kinds)} seconds=6")


async def test_watches_that_break_and_come_back_are_one_line(stage: Any, said: Any) -> None:
    """A server that restarts within a second leaves one line at info."""
    for kind in (PODS, NODES):
        await stage.started(kind)
    said()
    stage.drop_watches(how="cut")
    await stage.clock.advance(5)
    (line,) = said()
    assert line.startswith("info Watches broke off and are open again watches=2 err=")


async def test_kinds_of_one_name_are_told_apart(stage: Any, said: Any) -> None:
    """The log names pod groups of several dialects with their API groups."""
    for kind in (SIGS_PODGROUPS, VOLCANO_PODGROUPS):
        await stage.started(kind, optional=True)
    lines = [line.partition(" err=")[0] for line in said()]
    assert lines == [
        "info Kind is not served resource=podgroups.scheduling.x-k8s.io",
        "info Kind is not served resource=podgroups.scheduling.volcano.sh",
    ]


async def test_refusal_of_one_kind_outlasts_an_outage(said: Any) -> None:
    """The log distinguishes a refused kind from an outage; the refusal does not delay the line that ends the outage."""
    clock = VirtualClock()
    outages, groups, pods = Outages(clock), Watch(), Watch()
    outages.failed(groups, "podgroups.example", FORBIDDEN)
    outages.failed(pods, "pods", GONE)
    await clock.advance(2)
    assert said() == [
        f"warning API server refused watches=1 resources=podgroups.example err={FORBIDDEN}",
        f"warning API server unreachable watches=1 resources=pods err={GONE}",
    ]
    outages.works(pods)
    assert (groups.retries, pods.retries) == (1, 0)
    assert said() == ["info API server answers again watches=1 seconds=2"]
    outages.failed(groups, "podgroups.example", GONE)
    assert said() == []
    await clock.advance(2)
    assert said() == [f"warning API server unreachable watches=1 resources=podgroups.example err={GONE}"]
    outages.close()
    await clock.advance(3600)
    await settle()
    assert said() == []

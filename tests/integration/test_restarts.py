"""A scheduler that is killed or stopped in the middle of its work, and the one that takes over from it."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from pyscheduler.cli.demo.audit import audit
from tests.integration.programs import FAST, Api, nodes, pods, program, served

PODS = 1000
#: So many of them come after the first scheduler has ended: it cannot be done before, however late it is ended.
LATE = 20
#: A profile without kube-scheduler's default of 50 requests a second. Decisions are logged: a test counts them.
RUN = ("run", "--config", str(FAST), "--health-port", "0", "--seed", "1", "--leader-elect=false")


async def check(api: Api, *, before: dict[str, str], announced_at_least: int) -> None:
    """Check that every pod is bound once, and those of `before` where they were."""
    after = await api.until_bound(PODS)
    assert len(after) == PODS
    assert {uid: after[uid] for uid in before} == before
    report = await asyncio.to_thread(audit, api.url)
    assert report.problems == []
    assert (report.bound, report.pending) == (PODS, 0)
    told = await api.events("Scheduled")
    assert len({event["regarding"]["uid"] for event in told}) == len(told) >= announced_at_least


async def add_the_late(api: Api) -> None:
    """Create the last pods."""
    for pod in pods(PODS)[-LATE:]:
        status, answer = await api("POST", "/api/v1/namespaces/default/pods", pod)
        assert status == 201, answer


async def test_killed_and_started_again(tmp_path: Path) -> None:
    """SIGKILL loses no pod and binds none twice: the next scheduler finishes the work."""
    moment = 500
    async with served(tmp_path, [*nodes(60), *pods(PODS - LATE)]) as api:
        async with program(*RUN, "--master", api.url) as first:
            await first.said("Successfully bound", times=moment)
            first.send(signal.SIGKILL)
            assert await first.ended() == -signal.SIGKILL
        before = await api.placements()
        assert len(before) >= moment
        await add_the_late(api)
        async with program(*RUN, "--master", api.url) as second:
            await api.until_bound(PODS)
            second.send(signal.SIGTERM)
            assert await second.ended() == 0
        # What the first one had bound and not yet announced when it died, nobody announces.
        await check(api, before=before, announced_at_least=PODS - len(before))


async def test_stopped_and_started_again(tmp_path: Path) -> None:
    """SIGTERM ends it with code 0; what was under way is bound and announced, the rest is pending."""
    config = tmp_path / "kubeconfig"
    options = ("--write-kubeconfig", str(config))
    async with served(tmp_path, [*nodes(60), *pods(PODS - LATE)], options=options) as api:
        async with program(*RUN, "--kubeconfig", str(config)) as first:
            await first.said("Successfully bound", times=350)
            first.send(signal.SIGTERM)
            assert await first.ended() == 0
        before = await api.placements()
        assert len(before) >= 350
        assert first.count("Successfully bound") == len(before)
        assert len(await api.events("Scheduled")) == len(before)
        assert [line for line in first.err if "Traceback" in line or " error " in line] == []
        await add_the_late(api)
        async with program(*RUN, "--kubeconfig", str(config)):
            await check(api, before=before, announced_at_least=0)

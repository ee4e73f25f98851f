"""The batch demo over HTTP, with few jobs."""

from __future__ import annotations

import attrs
import pytest

from pyscheduler.config.load import loads
from pyscheduler_lab.demo.batch_demo import play
from pyscheduler_lab.demo.batch_workload import BATCH_PROFILE, Arrival, arrivals

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def hurried(per_team: int) -> list[Arrival]:
    """Return jobs of three teams: one burst takes the whole cluster, the next ones want their quotas back.

    The jobs of the burst run for longer, so that most of them are still there when a busy machine has bound them all.
    """
    one = next(each for each in arrivals(30) if each.job.gpu_count == 8 and each.job.workers == 1)

    def job(team: str, number: int, at: float) -> Arrival:
        seconds = 8.0 if team == "vision" else 2.0
        job = attrs.evolve(one.job, name=f"{team}-{number}")
        return attrs.evolve(one, at=at, run_seconds=seconds, team=team, job=job)

    counts = {"vision": (16, 0.0), "search": (per_team, 1.0), "ads": (per_team, 1.5)}
    return [job(team, number, at) for team, (count, at) in counts.items() for number in range(count)]


async def test_teams_reclaim_their_quotas(capsys: pytest.CaptureFixture[str]) -> None:
    """The first team borrows all GPUs, loses some to the others, and all jobs finish; no rule is broken."""
    outcome = await play(loads(BATCH_PROFILE), hurried(3))
    assert outcome.problems == []
    assert outcome.record.teams["vision"].peak == 128
    assert outcome.record.teams["vision"].evictions >= 1
    assert len(outcome.record.jobs) == 22
    assert all(outcome.verdict.judged[rule] for rule in (1, 2, 3, 4, 5, 6, 7, 9))
    out = capsys.readouterr().out
    assert "22 jobs of four teams want 176 GPUs; there are 128." in out
    assert "rule 5: " in out

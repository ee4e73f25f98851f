"""Jobs of a real trace start at the same times on the same nodes, whether pods share failures or each is tried."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pyscheduler.config.load import load
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.scheduler.assembly import Settings
from pyscheduler.scheduler.queued_pods import QueuedPods
from pyscheduler.scheduler.scheduling_cycle import SchedulingCycle
from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.simulation.replay import UNSCHEDULABLE_SECONDS, Replay
from pyscheduler_lab.traces import Trace

CONFIGS = Path(__file__).parents[2] / "configs"


def play(config: str, *, shares: bool) -> tuple[list[tuple[float, str, str]], int]:
    """Return when which pod got which node, and the number of attempts."""
    played = Replay(
        Trace.read("philly", vc="vc1").first(100).jobs,
        Cluster.uniform(20),
        load(CONFIGS / f"{config}.yaml"),
        registry=discover(),
        settings=Settings(max_unschedulable_seconds=UNSCHEDULABLE_SECONDS),
        fidelity="decisions",
    )
    placed = []
    reserve = SchedulingCycle.reserve

    def noting(self: SchedulingCycle, attempt: Any, placement: Any) -> Any:
        placed.append((self.clock.now(), attempt.queued.pod.name, placement.node_name))
        return reserve(self, attempt, placement)

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(SchedulingCycle, "reserve", noting)
        if not shares:
            patches.setattr(QueuedPods, "_is_hopeless", lambda *_: False)
        report = asyncio.run(played.run())
    assert report.finished == 100
    return placed, report.attempts


@pytest.mark.slow
@pytest.mark.parametrize("config", ["default", "coscheduling", "gang"])
def test_the_first_jobs_of_philly_start_alike(config: str) -> None:
    """Most attempts are spared."""
    placed, attempts = play(config, shares=True)
    one_by_one, all_attempts = play(config, shares=False)
    assert placed == one_by_one
    assert not [pod for pod, count in Counter(pod for _, pod, _ in placed).items() if count > 1]
    assert attempts < all_attempts / 2

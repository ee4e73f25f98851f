"""Simulations that are decided in plain numbers decide as those that place tasks."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from plugins.kai.tests.test_kept_jobs import change, gang, gpu_queue, result, twin
from pyscheduler_batch.model.tasks import ACTIVE
from pyscheduler_batch.sessions.assembly import sessions_of
from pyscheduler_kai.rehearsal import Rehearsal
from pyscheduler_kai.solver import _Search

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler_batch.model.tasks import Task
    from pyscheduler_kai.rehearsal import Outcome
    from pyscheduler_lab.testing import BatchCluster

STEPS = 16


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, pytest.param(7, marks=pytest.mark.long)])
async def test_rehearsed_simulations_have_the_result_of_real_ones(
    kai: BatchCluster, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """A rehearsal knows which tasks a simulation places; passes with rehearsals equal passes without."""
    rng, counts = random.Random(seed), Counter[str]()
    for number in range(6):
        allocatable = {"cpu": "64", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "8"}
        kai.cluster.add_node(f"n{number}", allocatable=allocatable)
    for name, quota in (("a", 4), ("b", 8), ("c", 12)):
        gpu_queue(kai, name, quota)
    sessions = sessions_of((await kai.start()).scheduler)[0]
    foresee, rehearse, simulate, place_all = Rehearsal.foresee, Rehearsal.outcome, _Search._simulate, _Search._place_all
    known: list[Outcome] = []

    async def foreseen(self: Rehearsal, *args: Any) -> None:
        known.clear()
        outcome = await foresee(self, *args)
        if outcome is not None and outcome.is_sure:
            counts["foreseen"] += 1
            known.append(outcome)
        # It is rehearsed with heaps as well.

    async def rehearsed(self: Rehearsal, *args: Any) -> Outcome:
        outcome = await rehearse(self, *args)
        if outcome.is_sure:
            counts["rehearsed"] += 1
            known.append(outcome)
        return outcome

    async def simulates_anyway(self: _Search, *args: Any) -> Any:
        self._solver.failed.add("a scenario")  # the first simulation of a search is not rehearsed
        return await simulate(self, *args)

    async def placed(self: _Search, statement: Any, pending: Any, victims: Sequence[Task], rows: Any) -> bool:
        found = await place_all(self, statement, pending, victims, rows)
        for outcome in known:
            assert outcome.is_placed == found
            has_node = {task.uid for task in (*pending.tasks, *victims) if task.state in ACTIVE}
            if found:
                assert outcome.placed == has_node
                counts["victims lose their node"] += any(task.uid not in has_node for task in victims)
            counts["finds room" if found else "finds no room"] += 1
        return found

    for step in range(STEPS):
        change(kai, rng, step)
        gang(kai, f"large-{step}", rng.choice("abc"), rng.randint(1, 2), rng.choice((2, 8)))
        await kai.cluster.clock.advance(0.001)
        found = await sessions.decide()
        answer = result(found)
        found.session.ledger.put_back()
        with monkeypatch.context() as plain:
            plain.setattr(Rehearsal, "foresee", foreseen)
            plain.setattr(Rehearsal, "outcome", rehearsed)
            plain.setattr(_Search, "_is_promising", lambda *_: True)
            plain.setattr(_Search, "_simulate", simulates_anyway)
            plain.setattr(_Search, "_place_all", placed)
            assert answer == await twin(sessions)
        await kai.pass_time(1)
    print(dict(counts))  # noqa: T201 - how often each case was met
    met = ("finds room", "finds no room", "victims lose their node", "foreseen", "rehearsed")
    assert min(counts[what] for what in met) > 0, counts

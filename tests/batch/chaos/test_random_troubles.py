"""Random clusters with faults, crashes and changes from outside: no rule of batch scheduling is broken."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.batch.chaos.troubled_cluster import TroubledCluster

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seeds of each preset in which every rule judges something. ``python -m tests.batch.chaos`` runs many more.
FIRST = {"kai": range(3), "volcano": range(3), "volcano-shipped": range(3)}
#: Warnings that show a bug: nothing of what happens here excuses them.
_BUGS = {"session_failed", "schedule_one_failed", "plugin_error"}


async def _survive(preset: str, seeds: range, record: Callable[[str, object], None]) -> None:
    troubles: Counter[str] = Counter()
    judged: Counter[int] = Counter()
    for seed in seeds:
        troubled = TroubledCluster(preset, seed)
        outcome = await troubled.run()
        await troubled.cluster.close()
        where = f"{preset}, seed {seed}"
        assert [*map(str, outcome.verdict.violations)] == [], where
        assert outcome.refused == 0, f"{where}: a node was overcommitted"
        assert outcome.warnings.keys().isdisjoint(_BUGS), f"{where}: {outcome.warnings}"
        troubles += outcome.troubles
        judged += outcome.verdict.judged
    record("troubles", dict(troubles))
    record("judged", dict(judged))
    crashes = sum(count for what, count in troubles.items() if what.startswith("crash"))
    assert crashes >= len(seeds), "too few crashes"
    assert {1, 2, 8, 9} <= judged.keys(), "a rule judged nothing"


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["kai", "volcano", "volcano-shipped"])
async def test_batch_schedulers_survive_troubles(preset: str, record_property: Callable[[str, object], None]) -> None:
    """A scheduler that crashes between failing requests breaks no rule of the checker."""
    await _survive(preset, FIRST[preset], record_property)

"""Random clusters with faults, crashes and changes from outside: no rule of batch scheduling is broken."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.batch.chaos.troubled_cluster import TroubledCluster

if TYPE_CHECKING:
    from collections.abc import Callable

#: Rules of the checker that these runs must keep. The others rest on what a crash can lose, or on the preset: a gang of
#: Volcano may lose pods, the time at which a job of KAI began is written after its bindings, and a promise lives in
#: memory.
_RULES = {"kai": {1, 2, 6, 7, 8}, "volcano": {2, 3, 6, 7, 8}}
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
        broken = [str(each) for each in outcome.verdict.violations if each.rule in _RULES[preset]]
        assert broken == [], where
        assert outcome.refused == 0, f"{where}: a node was overcommitted"
        assert outcome.warnings.keys().isdisjoint(_BUGS), f"{where}: {outcome.warnings}"
        troubles += outcome.troubles
        judged += outcome.verdict.judged
    record("troubles", dict(troubles))
    record("judged", dict(judged))
    crashes = sum(count for what, count in troubles.items() if what.startswith("crash"))
    assert crashes >= len(seeds), "too few crashes"
    assert all(judged[rule] for rule in _RULES[preset]), f"a rule judged nothing: {judged}"


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 3])
async def test_kai_survives_troubles(first: int, record_property: Callable[[str, object], None]) -> None:
    """A scheduler that crashes between failing requests breaks no limit, evicts in no cycle, and comes to rest."""
    await _survive("kai", range(first, first + 3), record_property)


@pytest.mark.slow
async def test_volcano_survives_troubles(record_property: Callable[[str, object], None]) -> None:
    """The same holds for the preset of Volcano."""
    await _survive("volcano", range(4), record_property)

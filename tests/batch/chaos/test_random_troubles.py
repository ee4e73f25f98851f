"""Random clusters with faults, crashes and changes from outside: no rule of batch scheduling is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.batch.chaos.troubled_cluster import TroubledCluster

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seeds in which every rule judges something. ``python -m tests.batch.chaos`` runs many more.
SEEDS = [
    *((preset, seed) for preset, seed in (("kai", 1), ("volcano", 2), ("volcano-shipped", 1))),
    *(
        pytest.param(preset, seed, marks=pytest.mark.long)
        for preset, seeds in {"kai": (0, 2), "volcano": (0, 1), "volcano-shipped": (0, 2)}.items()
        for seed in seeds
    ),
]
#: Warnings that show a bug: nothing of what happens here excuses them.
_BUGS = {"session_failed", "schedule_one_failed", "plugin_error"}


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "seed"), SEEDS)
async def test_batch_schedulers_survive_troubles(
    preset: str, seed: int, record_property: Callable[[str, object], None]
) -> None:
    """A scheduler that crashes between failing requests breaks no rule of the checker."""
    troubled = TroubledCluster(preset, seed)
    outcome = await troubled.run()
    await troubled.cluster.close()
    assert [*map(str, outcome.verdict.violations)] == []
    assert outcome.refused == 0, "a node was overcommitted"
    assert outcome.warnings.keys().isdisjoint(_BUGS), outcome.warnings
    troubles, judged = outcome.troubles, outcome.verdict.judged
    record_property("troubles", dict(troubles))
    record_property("judged", dict(judged))
    crashes = sum(count for what, count in troubles.items() if what.startswith("crash"))
    assert crashes >= 1, "too few crashes"
    assert {1, 2, 8, 9} <= judged.keys(), "a rule judged nothing"

"""Evictions end in a sample of random clusters; `python -m tests.batch.storms` runs many more."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings

from tests.batch.storms.rivals import PRESETS, storm

#: By preset, cheap clusters with evictions; `make test` looks at the first of each.
_SEEDS = {"kai": (1, 2), "volcano": (1, 2), "kube-batch": (7, 2)}


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
async def test_evictions_end(preset: str) -> None:
    """After the last change from outside evictions end, and no pod is evicted twice, whatever queues and jobs are."""
    counts: Counter[str] = Counter()
    for seed in _SEEDS[preset][: settings.default.max_examples // 10]:
        outcome = await storm(preset, seed)
        assert outcome.problems == [], f"seed {seed}"
        counts += outcome.counts
    print(dict(sorted(counts.items())))  # noqa: T201 - how often each thing happened
    assert counts["eviction: reclaim"] + counts["eviction: preempt"] >= 3, counts
    assert counts["guard: evicted jobs rest"] >= 3, counts


@pytest.mark.slow
async def test_without_guards_evictions_repeat() -> None:
    """The audit reports a cluster whose sessions remember no evictions."""
    outcome = await storm("kube-batch", 7, without_guards=True)
    assert outcome.verdict.rules[6] >= 10
    assert outcome.problems

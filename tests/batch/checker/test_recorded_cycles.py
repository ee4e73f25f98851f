"""The checker accepts what the real KAI decided in its recorded cycles, and rejects the same decisions once spoilt."""

from __future__ import annotations

import gzip
import itertools
import json
import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from pyscheduler_lab.audit import check
from pyscheduler_lab.audit.amounts import plus
from pyscheduler_lab.audit.evictions import RECLAIMING
from pyscheduler_lab.audit.shares import kai_shares
from pyscheduler_lab.audit.world import ALLOCATED, PENDING, World
from tests.batch.checker.recorded_cycles import (
    RESOURCES,
    counts_twice,
    evictors,
    log_of_cycle,
    options_of_cycle,
    write_cycle,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyscheduler_lab.audit import Verdict

FOLDER = Path(__file__).parents[1] / "vectors_kai"
#: Rules that the log of one cycle can show; it ends before any status or reason would be written.
APPLICABLE = frozenset(range(1, 8))
FAMILIES = ("allocate", "binpack", "consolidation", "minruntime", "mixed", "preempt", "reclaim", "stale", "subgroups")
#: Orders of the evicting jobs that are tried; the recordings do not say which one it was.
MOST_ORDERS = 24
#: `make test` spoils one of so many cycles.
SPOILT = max(1, 40 // settings.default.max_examples)

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="the recorded cycles are not in this checkout")


def cases_of(family: str) -> Iterator[dict[str, Any]]:
    """Yield the recorded cycles of one family."""
    with gzip.open(FOLDER / f"kai-{family}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def verdict_of(case: dict[str, Any]) -> Verdict:
    """Return the verdict on a cycle, for the order of its evicting jobs with the fewest violations."""
    verdicts = []
    for order in itertools.islice(itertools.permutations(evictors(case)), MOST_ORDERS):
        log = log_of_cycle(case)
        log.wait(0.01)
        verdict = check(write_cycle(case, log, list(order)), options_of_cycle(case))
        verdict.violations = [one for one in verdict.violations if one.rule in APPLICABLE]
        verdicts.append(verdict)
        if verdict.ok:
            break
    return min(verdicts, key=lambda one: len(one.violations))


@pytest.mark.sampled(7)
@pytest.mark.parametrize("family", ["fairshare", *FAMILIES])
def test_shares_equal_the_recorded_ones(family: str) -> None:
    """The own model of fair shares gives every recorded fair share and request."""
    compared = 0
    for case in cases_of(family):
        options = options_of_cycle(case)
        world = World(options, {})
        for change in log_of_cycle(case).history().changes:
            world.apply(change)
        requested = {name: plus(world.sum_of(ALLOCATED, name), world.sum_of(PENDING, name)) for name in world.queues}
        fair = kai_shares(world.queues, requested, world.pool(), k_value=options.k_value, usage=options.usage)
        for queue, expected in case["expected"].get("queues", {}).items():
            for key, name, _ in RESOURCES:
                for field, found in (("fairShare", fair), ("requested", requested)):
                    if key in expected.get(field, {}):
                        amount = found[queue].get(name, 0.0)
                        assert math.isclose(amount, expected[field][key], rel_tol=1e-9, abs_tol=1e-9), (
                            f"{case['id']}: {field} of {queue}: {amount} of {name}, recorded {expected[field][key]}"
                        )
                        compared += 1
    assert compared > 100


@pytest.mark.sampled(3)
@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_decisions_pass(family: str) -> None:
    """No recorded decision violates a rule, unless KAI itself counted an eviction twice."""
    judged: Counter[int] = Counter()
    for case in cases_of(family):
        verdict = verdict_of(case)
        judged += verdict.judged
        allowed = {2} if counts_twice(case) else set()
        assert verdict.rules.keys() <= allowed, [case["id"], *map(str, verdict.violations)]
    print(family, dict(sorted(judged.items())))  # noqa: T201 - how often each rule had its turn
    assert judged[1] > 20
    assert judged[2] > 20


def reclaiming_cases() -> Iterator[dict[str, Any]]:
    """Yield the cycles in which a reclaim evicted a pod that was not moved, and no evicting job was evicted itself."""
    for family in ("reclaim", "mixed", "preempt"):
        for case in cases_of(family):
            tasks, makers = case["expected"]["tasks"], evictors(case)
            if any(
                tasks.get(each["name"], {}).get("state") == "releasing" and each["state"] == "Pending"
                for job in case["jobs"]
                if job["name"] in makers
                for each in job["tasks"]
            ):
                continue
            for task, entries in case["expected"].get("evictions", {}).items():
                reclaimed = any(entry["action"] in RECLAIMING for entry in entries)
                if reclaimed and tasks.get(task, {}).get("state") == "releasing":
                    yield case
                    break


@pytest.mark.slow
def test_spoilt_shares_are_reported() -> None:
    """If all queues have an unlimited quota, no recorded reclaim is justified."""
    count = 0
    for case in itertools.islice(reclaiming_cases(), 0, None, SPOILT):
        for queue in case["queues"]:
            for key, _, _ in RESOURCES:
                queue[key] |= {"quota": -1, "limit": -1}
        assert 5 in verdict_of(case).rules, case["id"]
        count += 1
    assert count > 50 / SPOILT


@pytest.mark.slow
def test_spoilt_protection_is_reported() -> None:
    """If no job is preemptible, no recorded reclaim is allowed."""
    count = 0
    for case in itertools.islice(reclaiming_cases(), 0, None, SPOILT):
        for job in case["jobs"]:
            job["preemptibility"] = "non-preemptible"
        assert 3 in verdict_of(case).rules, case["id"]
        count += 1
    assert count > 50 / SPOILT

"""The checker's model of Volcano's shares gives the recorded amounts, and accepts the recorded reclaims."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyscheduler_lab.audit import check
from pyscheduler_lab.audit.amounts import plus
from pyscheduler_lab.audit.volcano_shares import capacity_deserved, proportion_deserved
from pyscheduler_lab.audit.world import ALLOCATED, PENDING, World
from tests.batch.checker.recorded_sessions import (
    evicting_groups,
    log_of_session,
    options_of_session,
    shares_decide,
    write_session,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parents[1] / "vectors_volcano"
#: The real loop of proportion stops a little early.
TOLERANCE = 1e-4


def cases_of(family: str) -> Iterator[dict[str, Any]]:
    """Yield the recorded sessions of one family."""
    with gzip.open(FOLDER / f"volcano-{family}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def has_jobs_in_inner_queues(case: dict[str, Any]) -> bool:
    """Return True if a group is in a queue with children, at which Volcano stops to build its tree."""
    parents = {queue.get("parent") for queue in case["queues"]}
    return any(group["queue"] in parents for group in case["podGroups"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("family", ["proportion", "capacity", "hcapacity", "reclaim", "reclaimcap", "mixed"])
def test_deserved_amounts_equal_the_recorded_ones(family: str) -> None:
    """Proportion and capacity, flat and with a tree, give each recorded deserved amount."""
    compared = 0
    for case in cases_of(family):
        if has_jobs_in_inner_queues(case):
            continue
        world = World(options := options_of_session(case), {})
        for change in log_of_session(case).history().changes:
            world.apply(change)
        if options.formula == "capacity":
            found = capacity_deserved(world.queues, world.pool())
        else:
            requested = {
                name: plus(world.sum_of(ALLOCATED, name), world.sum_of(PENDING, name)) for name in world.queues
            }
            used = {group.queue for group in world.groups.values()}
            found = proportion_deserved(world.queues, requested, world.pool(), used)
        for queue, expected in case["expected"].get("queues", {}).items():
            for resource, amount in expected.get("deserved", {}).items():
                own = found.get(queue, {}).get(resource, 0.0)
                assert math.isclose(own, amount, rel_tol=TOLERANCE, abs_tol=TOLERANCE), (
                    f"{case['id']}: queue {queue} deserves {own} of {resource}, recorded {amount}"
                )
                compared += 1
    assert compared > 200


def test_recorded_reclaims_pass() -> None:
    """Where shares decide about victims, each recorded reclaim for one job is justified and takes no protected pod."""
    judged = 0
    for case in (*cases_of("reclaim"), *cases_of("reclaimcap")):
        makers = evicting_groups(case)
        if not shares_decide(case) or len(makers) != 1:
            continue
        log = log_of_session(case)
        log.wait(0.01)
        write_session(case, log, "reclaim", makers.pop())
        verdict = check(log.history(), options_of_session(case))
        assert not verdict.rules.keys() & {3, 5, 6}, [case["id"], *map(str, verdict.violations)]
        judged += verdict.judged[5]
    assert judged >= 5

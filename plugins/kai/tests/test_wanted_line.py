"""The line of wanted jobs has the order of a line of all waiting jobs, and says of no job too little what it read."""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from plugins.kai.tests.test_line_reads import Orders, waiting
from pyscheduler_kai.job_index import JobIndex
from pyscheduler_kai.job_queue import JobQueue
from pyscheduler_kai.search_memory import Reads
from pyscheduler_kai.wanted_line import WantedLine

RUNS = 3_000


def order(
    line: JobQueue | WantedLine, orders: Orders, wanted: list[Any], most: int, booked: set[str]
) -> tuple[list[str], Reads, bool]:
    """Return the first wanted jobs in order, what was read for that, and whether the order is known."""
    orders.held = [0.0] * len(orders.parents)
    left = Counter(gang.job.queue_row for gang in wanted)
    uids = {gang.job.uid for gang in wanted}
    found: list[str] = []
    while left and len(found) < most and not line.is_tied:
        gang: Any = line.take_one_of(uids, left)
        found.append(gang.job.uid)
        if gang.job.uid in booked:
            orders.held[gang.job.queue_row] += gang.requested()[0]
    reads = Reads()
    reads.note(line, left)
    return found, reads, not line.is_tied


@pytest.mark.slow
def test_wanted_jobs_come_as_in_a_line_of_all() -> None:
    """Random queues, of whose jobs some are wanted, some find no room, and one stands for a job with another key."""
    counts: Counter[str] = Counter()
    for seed in range(RUNS):
        rng = random.Random(seed)
        rows = range(rng.randint(1, 5))
        orders = Orders([-1] * len(rows), [rng.choice([float(row), float(rng.randint(0, 3))]) for row in rows])
        jobs = {row: [waiting(row, float(at), rng) for at in range(rng.randint(0, 9))] for row in rows}
        victims = [waiting(row, at + 0.5, rng) for row in rows for at in range(9) if rng.random() < 0.2]
        everyone = {gang.job.uid: gang for gangs in jobs.values() for gang in gangs}
        wanted = [*victims, *rng.sample([*everyone.values()], min(len(everyone), rng.randint(0, 2)))]
        own = rng.choice([*everyone.values()]) if everyone else None
        if own is not None:
            asked, key = (float(rng.randint(1, 3)), 0.0, 0.0), (own.key[0] + rng.choice([-1.5, 0.0, 1.5]), "part")
            part = SimpleNamespace(job=own.job, key=key, requested=lambda asked=asked: asked)
            wanted = [part, *(gang for gang in wanted if gang is not own)]
        if not wanted:
            continue
        index = JobIndex(everyone, lambda _: True, orders.job_key)
        for uid, gang in everyone.items():
            index.put(uid, gang.job)
        for row in rows:
            index.entries(row)
        most, booked = rng.choice([1, 3, 99]), {gang.job.uid for gang in wanted if rng.random() < 0.8}
        base = {gang.job.queue_row for gang in wanted}
        whole = JobQueue(
            orders,
            index.by_queue(base),
            added=[(gang.key, gang) for gang in wanted if everyone.get(gang.job.uid) is not gang],
            accepts=lambda other, own=own: other is not own,
            is_total=True,
        )
        expected, read, _ = order(whole, orders, wanted, most, booked)
        short = WantedLine(orders, index, [(gang.key, gang) for gang in wanted])
        found, further, is_known = order(short, orders, wanted, most, booked)
        counts["known" if is_known else "tied"] += 1
        if not is_known:
            continue
        assert found == expected, seed
        counts["drops"] += any(gang.job.uid not in found for gangs in jobs.values() for gang in gangs)
        for row, key in read.last.items():
            if whole._is_total:
                assert key is None or further.last[row] >= key, seed
                counts["reads"] += 1
    print(dict(counts))  # noqa: T201 - how often each case was met
    assert min(counts[name] for name in ("known", "tied", "drops", "reads")) > RUNS // 20

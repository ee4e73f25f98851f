"""Which waiting jobs decide the order of the wanted ones: those that a line has read."""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pyscheduler_kai.job_queue import JobQueue
from pyscheduler_kai.search_memory import Reads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler_kai.gang import Quantities


class Orders:
    """Queues come in the order of what they hold and ask for next; then by a rank, which some of them share."""

    def __init__(self, parents: Sequence[int], ranks: Sequence[float]) -> None:
        self.parents = parents
        self.ranks = ranks
        self.held = [0.0] * len(parents)

    def job_key(self, gang: Any) -> tuple[float | str, ...]:
        """Return the key of a job."""
        key: tuple[float | str, ...] = gang.key
        return key

    def queue_key(self, queue: int, adds: Quantities, removes: Quantities) -> Any:
        """Return the key of a queue."""
        return (self.held[queue] + adds[0] - removes[0], self.ranks[queue])


def waiting(row: int, at: float, rng: random.Random) -> Any:
    """Return a job of a queue that came at a time and asks for one to three."""
    asked = (float(rng.randint(1, 3)), 0.0, 0.0)
    job = SimpleNamespace(uid=f"{row}-{at}", queue_row=row)
    return SimpleNamespace(job=job, key=(at, job.uid), requested=lambda: asked)


def pops(
    orders: Orders, jobs: dict[int, list[Any]], added: list[Any], wanted: set[str], most: int, *, is_total: bool
) -> tuple[list[str], Reads, bool]:
    """Return the first wanted jobs in order, what was read for that, and whether no two queues were equal."""
    orders.held = [0.0] * len(orders.parents)
    lists = {row: [(gang.key, gang) for gang in gangs] for row, gangs in jobs.items() if gangs}
    line = JobQueue(orders, lists, added=[(gang.key, gang) for gang in added], is_total=is_total)
    left = Counter(int(uid.split("-")[0]) for uid in wanted)
    found: list[str] = []
    while left and len(found) < most:
        gang: Any = line.pop_one_of(wanted, left)
        row = gang.job.queue_row
        left[row] -= 1
        if not left[row]:
            del left[row]
        found.append(gang.job.uid)
        orders.held[row] += gang.requested()[0]
    reads = Reads()
    reads.note(line, left)
    return found, reads, line._is_total


@pytest.mark.slow
def test_jobs_behind_those_read_do_not_change_the_order() -> None:
    """More jobs behind the last one read of each queue leave the order of the wanted jobs as it was."""
    counts: Counter[str] = Counter()
    for seed in range(600):
        rng = random.Random(seed)
        size = rng.randint(1, 5)
        is_flat = rng.random() < 0.7
        parents = [-1] * size if is_flat else [-1, -1, *(rng.randint(0, 1) for _ in range(size))]
        leaves = range(len(parents)) if is_flat else range(2, len(parents))
        orders = Orders(parents, [float(rng.randint(0, 3)) for _ in parents])
        jobs = {row: [waiting(row, float(at), rng) for at in range(rng.randint(0, 5))] for row in leaves}
        added = [waiting(row, at + 0.5, rng) for row in leaves for at in range(4) if rng.random() < 0.4]
        everyone = [*(gang for gangs in jobs.values() for gang in gangs), *added]
        wanted = {gang.job.uid for gang in (*added, *(gang for gang in everyone if rng.random() < 0.2))}
        rows = {int(uid.split("-")[0]) for uid in wanted}
        if not wanted:
            continue
        if is_flat:
            # Top queues without any wanted job take no part.
            jobs = {row: gangs for row, gangs in jobs.items() if row in rows}
        most = rng.randint(1, len(wanted))
        found, reads, is_total = pops(orders, jobs, added, wanted, most, is_total=is_flat)
        longer = {}
        for row, gangs in jobs.items():
            last = reads.last.get(row)
            places = [at / 8 + 0.01 for at in range(60)] if last is not None else []
            more = [at for at in places if last == () or at > last[0]]
            news = [waiting(row, at, rng) for at in rng.sample(more, min(len(more), rng.randint(0, 4)))]
            longer[row] = sorted([*gangs, *news], key=lambda gang: gang.key)
            counts["total" if is_total else "not total"] += len(news)
        assert pops(orders, longer, added, wanted, most, is_total=is_flat)[0] == found, seed
    assert min(counts["total"], counts["not total"]) > 100, counts

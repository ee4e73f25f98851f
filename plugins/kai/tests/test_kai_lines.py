"""The lines in which jobs wait: what is kept sorted or skipped gives the order of the plain rule."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from plugins.kai.tests.kai_tables import Log, build_session
from pyscheduler_kai.cycle import Cycle, cycle_of
from pyscheduler_kai.gang import ZERO, Gang
from pyscheduler_kai.job_index import JobIndex, sorted_by_queue
from pyscheduler_kai.job_queue import JobQueue

FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


@st.composite
def cycles(draw: st.DrawFn) -> Cycle:
    """Draw a session with a tree of queues and many small jobs."""
    queues = [
        {
            "name": name,
            "parent": parent,
            "priority": draw(st.sampled_from([100, 100, 200])),
            "createdSecondsAgo": 1000 - at,
            "gpu": {"quota": draw(st.integers(0, 4)), "limit": -1, "overQuotaWeight": draw(st.integers(0, 2))},
            "cpuMillis": FREE,
            "memoryBytes": FREE,
        }
        for at, (name, parent) in enumerate([("d", None), ("a", "d"), ("b", "d"), ("e", None), ("c", "e")])
    ]
    jobs: list[dict[str, Any]] = []
    for at in range(draw(st.integers(1, 14))):
        runs = draw(st.booleans())
        task = {"name": f"j{at:02}-0", "gpu": draw(st.integers(1, 2)), "state": "Running" if runs else "Pending"}
        name, priority = draw(st.sampled_from("abc")), draw(st.sampled_from([40, 50]))
        jobs.append(
            {
                "name": f"j{at:02}",
                "queue": name,
                "priority": priority,
                "createdSecondsAgo": draw(st.integers(1, 3)),
                "tasks": [task | ({"node": "n"} if runs else {})],
            }
        )
    nodes = [{"name": "n", "gpu": 40, "cpuMillis": 1, "memoryBytes": 1, "maxPods": 110}]
    session = build_session({"nodes": nodes, "queues": queues, "jobs": jobs}, Log())
    for tier in session.tiers:
        for entry in tier:
            entry.policy.open_session(session)
    return cycle_of(session)


def gangs_of(cycle: Cycle) -> list[Gang]:
    """Return all jobs."""
    return [cycle.gangs[uid] for uid in cycle.session.jobs]


def plain_order(cycle: Cycle, gangs: list[Gang]) -> list[str]:
    """Return the jobs as the rule says: at each level the best queue by its next job, then the best job of the leaf."""
    left: dict[int, list[Gang]] = {}
    for gang in sorted(gangs, key=cycle.job_key):
        left.setdefault(gang.job.queue_row, []).append(gang)

    def path(leaf: int) -> list[int]:
        above = cycle.parents[leaf]
        return [*path(above), leaf] if above >= 0 else [leaf]

    def best_leaf(leaves: list[int], depth: int) -> int:
        by_top: dict[int, list[int]] = {}
        for leaf in leaves:
            by_top.setdefault(path(leaf)[depth], []).append(leaf)
        chosen = {row: below[0] if below == [row] else best_leaf(below, depth + 1) for row, below in by_top.items()}
        row = min(chosen, key=lambda row: cycle.queue_key(row, left[chosen[row]][0].requested(), ZERO))
        return chosen[row]

    order = []
    while left:
        leaf = best_leaf(list(left), 0)
        order.append(left[leaf].pop(0).job.uid)
        if not left[leaf]:
            del left[leaf]
    return order


def drain(line: JobQueue) -> list[str]:
    """Take all jobs."""
    order = []
    while line:
        order.append(line.pop().job.uid)
    return order


@pytest.mark.slow
@settings(max_examples=5 * settings.default.max_examples // 2, deadline=None)
@given(cycles())
def test_jobs_come_in_the_order_of_queues(cycle: Cycle) -> None:
    """Waiting jobs come in the order of the tree, the best queue and its best job first."""
    pending = [gang for gang in gangs_of(cycle) if gang.has_pending()]
    assert drain(cycle.lines.waiting()) == plain_order(cycle, pending)


@pytest.mark.slow
@settings(max_examples=5 * settings.default.max_examples // 2, deadline=None)
@given(cycles())
def test_wanted_jobs_keep_their_order_when_others_are_skipped(cycle: Cycle) -> None:
    """Taking only some jobs gives the order in which they come among all."""
    pending = [gang for gang in gangs_of(cycle) if gang.has_pending()]
    wanted = {gang.job.uid for gang in pending[::2]}
    expected = [uid for uid in drain(cycle.lines.waiting()) if uid in wanted]
    line, found = JobQueue(cycle, sorted_by_queue(pending, cycle.job_key)), []
    left = {uid: cycle.gangs[uid].job.queue_row for uid in wanted}
    while left:
        uid = line.pop_one_of(wanted, set(left.values())).job.uid
        del left[uid]
        found.append(uid)
    assert found == expected


@pytest.mark.slow
@settings(max_examples=5 * settings.default.max_examples // 2, deadline=None)
@given(cycles(), st.data())
def test_an_index_that_is_settled_equals_a_new_one(cycle: Cycle, data: st.DataObject) -> None:
    """Changed jobs move to their place, and jobs that no longer belong leave."""
    gangs = gangs_of(cycle)
    rows = range(len(cycle.parents))
    chosen = {gang.job.uid for gang in gangs if data.draw(st.booleans())}

    def index() -> JobIndex:
        made = JobIndex(cycle.gangs, lambda gang: gang.job.uid in chosen, cycle.job_key)
        for gang in gangs:
            made.put(gang.job.uid, gang.job)
        return made

    settled = index()
    assert settled.by_queue(rows) == sorted_by_queue((gang for gang in gangs if gang.job.uid in chosen), cycle.job_key)
    for gang in gangs:
        if data.draw(st.booleans()):
            chosen ^= {gang.job.uid}
        gang.job.priority = data.draw(st.integers(1, 3))
    settled.settle(gangs)
    assert settled.by_queue(rows) == index().by_queue(rows)


@pytest.mark.slow
@settings(max_examples=5 * settings.default.max_examples // 2, deadline=None)
@given(cycles(), st.data())
def test_an_index_follows_jobs_that_change_queues_come_and_go(cycle: Cycle, data: st.DataObject) -> None:
    """A job that is put again is in its new queue only, and a job that is gone is in none."""
    gangs = gangs_of(cycle)
    rows = range(len(cycle.parents))
    index = JobIndex(cycle.gangs, lambda _: True, cycle.job_key)
    here = set()
    for _ in range(3):
        for gang in gangs:
            if data.draw(st.booleans()):
                gang.job.queue_row = data.draw(st.sampled_from(rows))
                gang.job.priority = data.draw(st.integers(1, 3))
                index.put(gang.job.uid, gang.job)
                here.add(gang.job.uid)
            elif data.draw(st.booleans()):
                index.put(gang.job.uid, None)
                here.discard(gang.job.uid)
        there = (gang for gang in gangs if gang.job.uid in here)
        assert index.by_queue(rows) == sorted_by_queue(there, cycle.job_key)


@pytest.mark.slow
@settings(max_examples=5 * settings.default.max_examples // 2, deadline=None)
@given(cycles(), st.data())
def test_kept_heaps_give_the_line_of_new_heaps(cycle: Cycle, data: st.DataObject) -> None:
    """After changes of sums and jobs the line is the one that is built of all jobs."""
    gangs = [gang for gang in gangs_of(cycle) if gang.has_pending()]
    here = {gang.job.uid for gang in gangs}
    for _ in range(4):
        line = JobQueue(cycle, sorted_by_queue((gang for gang in gangs if gang.job.uid in here), cycle.job_key))
        assert drain(cycle.lines.waiting()) == drain(line)
        for gang in gangs:
            if data.draw(st.booleans()):
                cycle.proportion.book(gang.tasks[0], placed=data.draw(st.booleans()))
            if data.draw(st.booleans()):
                here ^= {gang.job.uid}
                gang.job.priority = data.draw(st.integers(1, 3))
                job = gang.job if gang.job.uid in here else None
                cycle.kept.backlog.put(gang.job.uid, job, cycle.proportion)

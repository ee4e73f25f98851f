"""What users of other systems for groups of pods reported, as situations of full size, under each profile of ours.

Every report has a test that is named after it, here or where the plugin is that it concerns:

========================  =============================================================================================
report                    tests
========================  =============================================================================================
scheduler-plugins 114     tests/integration/test_gang_reports.py
scheduler-plugins 117     tests/integration/test_gang_reports.py
scheduler-plugins 358     tests/integration/test_gang_reports.py
scheduler-plugins 397     tests/integration/test_gang_reports.py
scheduler-plugins 682     tests/integration/test_gang_reports.py
scheduler-plugins 713     tests/integration/test_gang_reports.py
scheduler-plugins 930     tests/integration/test_gang_reports.py
Koordinator 872           tests/integration/test_gang_reports.py
Koordinator 1544          tests/scheduler/test_gangs_on_the_core.py
Koordinator 1919          plugins/coscheduling/tests/test_reports.py tests/scheduler/test_gangs_on_the_core.py
Koordinator 2030          plugins/gang/tests/test_trouble.py plugins/coscheduling/tests/test_reports.py
Koordinator 3185          tests/integration/test_gang_reports.py
========================  =============================================================================================
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.integration.group_history import Way
from tests.integration.groups_checker import Counting
from tests.integration.groups_situation import Situation

HERE = Path(__file__).parents[2]
QUICK = {"permitWaitingTimeSeconds": 10, "deniedPGExpirationTimeSeconds": 3}
CYCLE = {"strategy": "groupCycle"}
COSCHEDULING = Way(config="coscheduling.yaml", counting=Counting.SIGS, args={"Coscheduling": QUICK})
GANG = Way(config="gang.yaml", counting=Counting.GANG)
WAYS = pytest.mark.parametrize(
    "way",
    [
        pytest.param(COSCHEDULING, id="coscheduling"),
        pytest.param(GANG, id="gang"),
        pytest.param(
            Way(config="coscheduling.yaml", counting=Counting.SIGS, args={"Coscheduling": {**QUICK, **CYCLE}}),
            id="coscheduling in one cycle",
        ),
        pytest.param(Way(config="gang.yaml", counting=Counting.GANG, args={"Gang": CYCLE}), id="gang in one cycle"),
    ],
)
#: The longest that a pod rests after a failure.
BACKOFF_SECONDS = 10


@pytest.fixture
def situation(way: Way) -> Iterator[Situation]:
    """Yield an empty cluster under a profile."""
    made = Situation(way, 1)
    yield made
    made.runner.run(made.stop())
    made.runner.close()


def test_every_report_has_a_test_of_its_name() -> None:
    """The table above tells where they are."""
    rows = re.findall(r"^(scheduler-plugins|Koordinator) (\d+) +(.*)$", __doc__ or "", re.MULTILINE)
    assert len(rows) == 12
    for system, number, files in rows:
        name = rf"def test_{system.lower().replace('-', '_')}(_\d+_and)*_{number}_"
        for file in files.split():
            assert re.search(name, (HERE / file).read_text(encoding="utf-8")), (
                f"{file} has no test of {system} {number}"
            )


@WAYS
def test_scheduler_plugins_117_and_114_jobs_finish_and_room_is_never_idle(situation: Situation) -> None:
    """Jobs of 1 to 8 places come every 15 s to two nodes of 8, and run 30 s; room that completes one is soon taken."""
    situation.node(8)
    situation.node(8)
    sizes = [1 + (number * 5) % 8 for number in range(min(60, 2 * settings.default.max_examples))]
    names = [f"default/job{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(len(sizes))]
    ends: dict[int, float] = {}
    pending: dict[int, float] = {}
    now, came = 0.0, 0
    while came < len(sizes) or pending or ends:
        assert now < 1200, f"{len(pending)} jobs still wait"
        if now % 15 == 0 and came < len(sizes):
            situation.declare(names[came], sizes[came])
            situation.pods(names[came], sizes[came])
            pending[came] = now
            came += 1
        situation.run(2.5)
        now += 2.5
        for number in [number for number, end in ends.items() if end <= now]:
            situation.delete(names[number])
            del ends[number]
        states = {number: situation.states(names[number]) for number in pending}
        for number in [number for number, state in states.items() if state["bound"]]:
            ends[number] = now + 30
            del pending[number]
        used = sum(sizes[number] for number in ends)
        for number, since in pending.items():
            held = sum(states[other]["waiting"] for other in pending if other != number)
            if sizes[number] > 16 - used - held:
                pending[number] = now
            assert now - since <= BACKOFF_SECONDS + 2.5, f"room for {names[number]} is idle for {now - since} s"
    assert situation.checker.counts["bound"] == sum(sizes)


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(COSCHEDULING, id="coscheduling"),
        pytest.param(Way(config="coscheduling-ming.yaml", counting=Counting.MING), id="ming"),
    ],
)
@pytest.mark.parametrize("apart", [0, 1], ids=["at once", "a second apart"])
def test_scheduler_plugins_358_all_six_are_bound_within_the_wait(situation: Situation, apart: float) -> None:
    """A window of 3 s, a wait of 10 s, room for all: nobody follows minutes later."""
    situation.node(6)
    situation.declare("default/g", 6, wait=10)
    for _ in range(6):
        situation.pods("default/g", 1)
        situation.run(apart)
    situation.run(10)
    assert situation.states("default/g") == {"bound": 6}


@WAYS
@pytest.mark.parametrize("object_comes", [0, 2, 5])
def test_scheduler_plugins_397_members_meet_at_the_first_wait(situation: Situation, object_comes: int) -> None:
    """PodGroup and pods in any order: nobody parks while the others wait and give up."""
    situation.node(5)
    for number in range(6):
        if number == object_comes:
            situation.declare("default/g", 5, wait=10)
        if number < 5:
            situation.pods("default/g", 1)
        situation.run(0)
    situation.run(5)
    assert situation.states("default/g") == {"bound": 5}
    assert not any("timeout" in message for message in situation.messages("default/g"))


@WAYS
def test_scheduler_plugins_682_a_hopeless_group_disturbs_nobody(
    situation: Situation, caplog: pytest.LogCaptureFixture
) -> None:
    """Others come and go as if it were not there, its attempts are bounded by events, and the log stays quiet."""
    caplog.set_level(logging.WARNING)
    situation.node(4)
    situation.declare("default/never", 6)
    situation.pods("default/never", 6)
    situation.run(60)
    first = situation.attempts("default/never")
    assert first <= 3
    for number in range(5):
        job = f"default/job{chr(97 + number)}"
        situation.declare(job, 4)
        situation.pods(job, 4)
        situation.run(15)
        assert situation.states(job) == {"bound": 4}
        situation.delete(job)
        situation.run(15)
    assert situation.states("default/never") == {"pending": 6}
    # Five jobs that end are five reasons, of four pods each; two attempts for each.
    assert situation.attempts("default/never") <= first + 2 * 5 * 4
    situation.run(3600)
    assert situation.attempts("default/never") <= first + 2 * 5 * 4 + 3600 // 300 + 1
    assert not caplog.records, [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("way", [pytest.param(COSCHEDULING, id="coscheduling")])
def test_scheduler_plugins_713_holding_ends_where_others_can_use_the_room(situation: Situation) -> None:
    """Nine of ten hold their places for an hour; a group of nine comes, and has them within a minute."""
    situation.node(9)
    situation.declare("default/g", 10, wait=3600)
    situation.pods("default/g", 10)
    situation.run(1)
    assert situation.states("default/g") == {"waiting": 9, "pending": 1}
    situation.declare("default/other", 9)
    situation.pods("default/other", 9)
    situation.run(60)
    assert situation.states("default/other") == {"bound": 9}
    assert situation.states("default/g") == {"pending": 10}


@WAYS
@pytest.mark.parametrize("ends", ["deleted", "failed"])
def test_scheduler_plugins_930_a_member_that_is_gone_is_not_counted(situation: Situation, ends: str) -> None:
    """Room for one of two, the other one was there and is gone: nobody is bound alone, now or later."""
    situation.node(2)
    situation.pods("", 1)
    situation.run(1)
    situation.declare("default/g", 2)
    situation.pods("default/g", 1)
    situation.run(1)
    for _ in range(3):
        if ends == "deleted":
            situation.delete("default/g", 1)
        else:
            situation.fail("default/g")
        situation.pods("default/g", 1)
        situation.run(5)
        assert situation.states("default/g")["bound"] == 0
    situation.pods("default/g", 1)
    situation.run(30)
    assert situation.states("default/g")["bound"] == 0
    situation.delete("")
    situation.delete("default/g")
    situation.pods("default/g", 2)
    situation.run(30)
    assert situation.states("default/g") == {"bound": 2}


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(GANG, id="gang"),
        pytest.param(Way(config="gang.yaml", counting=Counting.GANG, args={"Gang": CYCLE}), id="gang in one cycle"),
    ],
)
@pytest.mark.parametrize("order", ["acbd", "acdb", "cabd", "dbca"])
def test_koordinator_872_interleaved_gang_groups_run_one_after_the_other(situation: Situation, order: str) -> None:
    """{A, B} and {C, D} come interleaved, and there is room for one of them: it runs, and then the other one."""
    situation.node(8)
    for pair in ("ab", "cd"):
        for name in pair:
            situation.declare(f"default/{name}", 4, groups=json.dumps([f"default/{each}" for each in pair]))
    for name in order:
        situation.pods(f"default/{name}", 4)
    situation.run(60)
    first = {name: situation.states(f"default/{name}")["bound"] for name in "abcd"}
    assert sorted(first.values()) == [0, 0, 4, 4], first
    assert first["a"] == first["b"]
    for name, bound in first.items():
        if bound:
            situation.delete(f"default/{name}")
    situation.run(60)
    assert all(situation.states(f"default/{name}")["bound"] == 4 for name, bound in first.items() if not bound)


@WAYS
def test_koordinator_3185_a_gang_of_one_that_is_deleted_while_it_fails_leaves_nothing(situation: Situation) -> None:
    """Neither queue nor waiting pods nor anything else has it any more, whenever it goes."""
    situation.node(1)
    situation.pods("", 1)
    situation.run(1)
    for turns in range(6):
        group = f"default/g{chr(97 + turns)}"
        situation.declare(group, 1)
        situation.pods(group, 1)
        situation.turn(turns)
        situation.delete(group)
        situation.run(0)
        situation.undeclare(group)
    situation.run(400)
    scheduler = situation.framework.scheduler
    assert len(scheduler.queue) == 0
    assert not len(scheduler.waiting_pods)
    assert scheduler.cache.assumed_count == 0

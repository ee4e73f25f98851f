"""What users get wrong about groups of pods, and the corner cases: never a group that is stuck, never a crash.

Each situation is played under the profiles as they are shipped, and the cluster is judged at each moment, as in
`test_gang_histories`. Whatever is wrong is then put right, and the group starts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kube_testserver.errors import StatusError
from kube_testserver.serving.faults import Fault
from tests.integration.group_history import Way
from tests.integration.groups_checker import GANG as PREFIX, Counting
from tests.integration.groups_situation import Situation

COSCHEDULING = Way(config="coscheduling.yaml", counting=Counting.SIGS)
MING = Way(config="coscheduling-ming.yaml", counting=Counting.MING)
GANG = Way(config="gang.yaml", counting=Counting.GANG)
ALL = pytest.mark.parametrize(
    "way",
    [
        pytest.param(COSCHEDULING, id="coscheduling"),
        pytest.param(MING, id="ming"),
        pytest.param(GANG, id="gang"),
        pytest.param(
            Way(config="coscheduling.yaml", counting=Counting.SIGS, args={"Coscheduling": {"strategy": "groupCycle"}}),
            id="coscheduling in one cycle",
        ),
        pytest.param(
            Way(config="gang.yaml", counting=Counting.GANG, args={"Gang": {"strategy": "groupCycle"}}),
            id="gang in one cycle",
        ),
    ],
)
GANGS = pytest.mark.parametrize("way", [pytest.param(GANG, id="gang")])
#: Longer than any window, backoff or look at a kind that is not served.
LONG = 120


@pytest.fixture
def situation(way: Way) -> Iterator[Situation]:
    """Yield a cluster under a profile, with room for nine."""
    made = Situation(way, 1)
    made.node(9)
    yield made
    made.runner.run(made.stop())
    made.runner.close()


def told(situation: Situation, group: str = "default/g") -> str:
    """Return everything that was told of a group's pods."""
    return "\n".join(situation.messages(group))


# --- the minimum


@pytest.mark.parametrize(
    ("way", "minimum", "accepted"),
    [
        pytest.param(COSCHEDULING, 0, False, id="coscheduling 0"),
        pytest.param(COSCHEDULING, -1, False, id="coscheduling negative"),
        pytest.param(COSCHEDULING, "three", False, id="coscheduling word"),
        pytest.param(MING, 0, True, id="ming 0"),
        pytest.param(MING, -1, True, id="ming negative"),
        pytest.param(MING, "three", False, id="ming word"),
        pytest.param(GANG, 0, True, id="gang 0"),
        pytest.param(GANG, -1, False, id="gang negative"),
        pytest.param(GANG, "three", False, id="gang word"),
    ],
)
def test_the_shipped_definitions_refuse_what_cannot_be_meant(
    situation: Situation, minimum: Any, accepted: bool
) -> None:
    """As 422, naming the field; 0 (of ming's, anything below 1) is no constraint where it is let in."""
    situation.pods("default/g", 2)
    if accepted:
        situation.declare("default/g", minimum)
    else:
        with pytest.raises(StatusError, match="minMember") as caught:
            situation.declare("default/g", minimum)
        assert caught.value.status == 422
        situation.run(5)
        assert situation.states("default/g") == {"pending": 2}
        situation.declare("default/g", 2)
    situation.run(LONG)
    assert situation.states("default/g") == {"bound": 2}


@ALL
@pytest.mark.parametrize("minimum", ["three", [3], 1.5, True], ids=["word", "list", "fraction", "truth"])
def test_a_minimum_that_says_nothing_declares_nothing(situation: Situation, minimum: Any) -> None:
    """Members pend until the object is put right."""
    situation.plant("default/g", {"minMember": minimum})
    situation.pods("default/g", 3)
    situation.pods("", 1)
    situation.run(30)
    assert situation.states("default/g") == {"pending": 3}
    assert situation.states("")["bound"] == 1
    situation.undeclare("default/g")
    situation.declare("default/g", 3)
    situation.run(LONG)
    assert situation.states("default/g") == {"bound": 3}


@ALL
def test_raising_the_minimum_when_all_are_bound(situation: Situation) -> None:
    """They stay; one that comes later counts with them, or, once satisfied, is a plain pod."""
    situation.declare("default/g", 3)
    situation.pods("default/g", 3)
    situation.run(5)
    situation.change("default/g", {"spec": {"minMember": 5}})
    situation.pods("default/g", 1)
    situation.run(LONG)
    settled = situation.way.counting is Counting.GANG
    assert situation.states("default/g")["bound"] == (4 if settled else 3)
    situation.pods("default/g", 1)
    situation.run(LONG)
    assert situation.states("default/g") == {"bound": 5}


# --- annotations


@GANGS
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mode", "strictly"),
        ("total-number", "1"),
        ("total-number", "many"),
        ("waiting-time", "soon"),
        ("waiting-time", "-5s"),
        ("groups", "default/h"),
        ("groups", '{"default/h": 1}'),
        ("groups", "[1, 2]"),
        ("match-policy", "sometimes"),
    ],
)
@pytest.mark.parametrize("place", ["object", "pods"])
def test_a_malformed_annotation_means_what_it_would_without(
    situation: Situation, key: str, value: str, place: str
) -> None:
    """Strict, at least the minimum, the default wait, a gang by itself, once satisfied; on objects and on pods."""
    said = {f"{PREFIX}{key}": value}
    situation.declare("default/g", 3)
    if place == "object":
        situation.change("default/g", {"metadata": {"annotations": said}})
    situation.pods("default/g", 2)
    if place == "pods":
        situation.change_pods("default/g", {"metadata": {"annotations": said}})
    situation.run(30)
    assert situation.states("default/g") == {"pending": 2}
    situation.pods("default/g", 1)
    situation.run(5)
    assert situation.states("default/g") == {"bound": 3}
    situation.pods("default/g", 1)
    situation.run(5)
    assert situation.states("default/g") == {"bound": 4}


@GANGS
@pytest.mark.parametrize("value", [None, "", "x", "-"])
def test_a_gang_without_a_usable_minimum_pends_until_a_member_says_one(situation: Situation, value: str | None) -> None:
    """The annotation is missing, or malformed: `gang has not init`; the next pod with a valid one initialises it."""
    said = {f"{PREFIX}name": "g", f"{PREFIX}min-available": value}
    situation.pods("", 2)
    situation.change_pods("", {"metadata": {"annotations": said}, "spec": {"schedulingGates": None}})
    situation.run(0)
    situation.delete("")
    for number in range(2):
        situation.annotated(f"g-{number}", said)
    situation.run(30)
    assert situation.states("default/g") == {"pending": 2}
    assert "gang has not init, gangName: default/g" in told(situation)
    situation.annotated("g-2", {**said, f"{PREFIX}min-available": "3"})
    situation.run(LONG)
    assert situation.states("default/g") == {"bound": 3}


# --- gang groups


@GANGS
@pytest.mark.parametrize(
    "listed",
    [
        pytest.param(["default/h"], id="without itself"),
        pytest.param(["default/g", "default/g", "default/h", "default/h"], id="twice"),
        pytest.param(["g", "default/h"], id="itself without a namespace"),
        pytest.param(["other/g", "default/h"], id="itself in another namespace"),
        pytest.param(["default/g", "default/missing"], id="a member that is missing"),
        pytest.param(["default/g", ""], id="nothing"),
    ],
)
@pytest.mark.parametrize("mode", ["Strict", "NonStrict"])
def test_a_gang_group_that_is_written_wrongly(situation: Situation, listed: list[str], mode: str) -> None:
    """It waits for whom it names, holds up nobody else, and starts when the list is put right.

    A list that is none of `namespace/name` is left out as a whole.
    """
    situation.declare("default/g", 2, mode=mode, groups=json.dumps(listed))
    situation.pods("default/g", 2)
    situation.run(5)
    names_nobody = listed in (["default/g", ""], ["g", "default/h"])
    assert situation.states("default/g")["bound"] == (2 if names_nobody else 0)
    situation.declare("default/h", 2, mode=mode)
    situation.pods("default/h", 2)
    situation.pods("", 1)
    situation.run(30)
    assert situation.states("default/h") == {"bound": 2}
    assert situation.states("")["bound"] >= 1
    situation.change("default/g", {"metadata": {"annotations": {f"{PREFIX}groups": None}}})
    situation.run(LONG)
    assert situation.states("default/g") == {"bound": 2}


# --- members of several schedulers


@ALL
def test_a_group_of_another_namespace_is_another_group(situation: Situation) -> None:
    """Pods do not join it; they pend until there is one of their own."""
    situation.declare("other/g", 2)
    situation.pods("default/g", 2)
    situation.run(30)
    assert situation.states("default/g") == {"pending": 2}
    situation.pods("other/g", 1)
    situation.run(30)
    assert situation.checker.counts["bound"] == 0
    situation.declare("default/g", 2)
    situation.run(LONG)
    assert situation.checker.counts["bound"] == 2
    assert situation.bound_in("default") == 2


@ALL
def test_members_that_name_a_scheduler_which_is_not_there(situation: Situation) -> None:
    """They are nobody's: they count as members, are never bound by this one, and hold up no other group."""
    situation.declare("default/g", 3, wait=600)
    situation.declare("default/h", 2)
    situation.pods("default/g", 2)
    situation.foreign("default/g", 1)
    situation.pods("default/h", 2)
    situation.run(30)
    assert situation.states("default/h") == {"bound": 2}
    assert situation.states("default/g")["bound"] == 0
    situation.pods("default/g", 1)
    situation.run(LONG)
    assert situation.states("default/g") == {"bound": 3, "pending": 1}


# --- what is taken away


@ALL
@pytest.mark.parametrize("seconds", [0, 1, 40])
def test_the_definition_goes_while_members_wait_and_comes_back(situation: Situation, seconds: float) -> None:
    """Whoever waits gives up its place, bound pods stay; with definition and object all goes on."""
    situation.declare("default/f", 2)
    situation.pods("default/f", 2)
    situation.declare("default/g", 10, mode="NonStrict", wait=600)
    situation.pods("default/g", 10)
    situation.run(seconds)
    situation.take_away_definition()
    situation.run(30)
    assert situation.states("default/f")["bound"] == 2
    assert situation.states("default/g") == {"pending": 10}
    situation.pods("", 7)
    situation.run(30)
    assert situation.states("")["bound"] == 2 + 7
    situation.give_definition_back()
    situation.declare("default/g", 10)
    situation.node(10)
    situation.run(LONG)
    assert situation.states("default/g") == {"bound": 10}


@ALL
@pytest.mark.parametrize("status", [403, 409, 500])
def test_statuses_that_are_refused_hold_up_nobody(situation: Situation, status: int) -> None:
    """Neither the groups whose status it is, nor others; for as long as they are refused."""
    situation.server.faults.add(Fault(path=r"/podgroups/[^/]+/status$", status=status))
    for name in "ghi":
        situation.declare(f"default/{name}", 3)
        situation.pods(f"default/{name}", 3)
        situation.run(20)
    assert situation.checker.counts["bound"] == 9
    situation.delete("default/g")
    situation.pods("default/g", 3)
    situation.run(LONG)
    assert situation.states("default/g") == {"bound": 3}


@GANGS
@pytest.mark.parametrize("status", [403, 409])
def test_a_mark_that_is_refused_for_long_still_holds(situation: Situation, status: int) -> None:
    """Members whose time was up are not tried again, whether it could be written or not; new ones start the gang."""
    refusing = situation.server.faults.add(Fault(method="PATCH", path=r"/pods/[^/]+$", status=status))
    situation.declare("default/g", 10, mode="NonStrict", wait=5)
    situation.pods("default/g", 10)
    situation.run(LONG)
    assert refusing.hits
    situation.node(9)
    situation.run(LONG)
    assert situation.states("default/g") == {"pending": 10}
    situation.server.faults.clear()
    situation.run(LONG)
    marked = [
        pod for pod in situation.living("default/g") if pod["metadata"]["annotations"][f"{PREFIX}timeout"] == "true"
    ]
    assert len(marked) == 10
    situation.delete("default/g")
    situation.pods("default/g", 10)
    situation.run(LONG)
    assert situation.states("default/g") == {"bound": 10}


# --- corner cases


@ALL
def test_a_member_of_higher_priority_preempts_a_waiting_one(situation: Situation) -> None:
    """Of another group: the place changes hands in memory, nobody is bound in part, and both run in the end."""
    situation.declare("default/g", 10, mode="NonStrict", wait=600)
    situation.pods("default/g", 10)
    situation.run(1)
    situation.declare("default/h", 4)
    situation.important("default/h", 4)
    situation.run(30)
    assert situation.states("default/h") == {"bound": 4}
    assert situation.states("default/g")["bound"] == 0
    situation.node(9)
    situation.run(LONG)
    assert situation.states("default/g") == {"bound": 10}


@ALL
def test_the_time_is_up_at_the_moment_at_which_the_last_place_comes(situation: Situation) -> None:
    """Whichever is first wins, for all of the group."""
    situation.declare("default/g", 10, mode="NonStrict", wait=30)
    situation.pods("default/g", 10)
    situation.run(30)
    situation.node(1)
    situation.run(LONG)
    assert situation.states("default/g")["bound"] in {0, 10}


@ALL
def test_members_of_different_priority_do_not_preempt_each_other_for_ever(situation: Situation) -> None:
    """More members than places, and some could take the place of others: that ends, and costs few attempts."""
    situation.declare("default/g", 10, wait=600)
    situation.pods("default/g", 6)
    situation.run(1)
    situation.important("default/g", 6)
    situation.run(60)
    assert situation.states("default/g")["bound"] == 0
    assert situation.attempts("default/g") <= 12
    situation.node(9)
    situation.run(LONG)
    assert situation.states("default/g") == {"bound": 12}

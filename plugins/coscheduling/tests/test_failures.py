"""Groups that do not fit: what they are told, what they give back, how long they are refused, and what wakes them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pyscheduler.api import Pod
from pyscheduler.cluster.embedded.serving.faults import Fault

GATES = pytest.mark.parametrize(
    "gates",
    [
        pytest.param("SchedulerPopFromBackoffQ=false", id="backoff"),
        pytest.param("SchedulerPopFromBackoffQ=true", id="pop from backoff"),
    ],
)


@pytest.mark.parametrize(
    ("minimum", "room", "percentage", "waiting"),
    [
        pytest.param(10, 9, 10, 9, id="10 percent of ten is one"),
        pytest.param(10, 8, 10, 0, id="two of ten is more"),
        pytest.param(10, 9, 9, 0, id="a percent less"),
        pytest.param(3, 2, 33, 0, id="a third is more than 33 percent"),
        pytest.param(3, 2, 34, 2, id="and less than 34"),
        pytest.param(10, 9, 0, 0, id="0 always rejects"),
        pytest.param(10, 1, 100, 1, id="100 never rejects"),
    ],
)
async def test_the_share_that_may_be_missing(
    world: Any, minimum: int, room: int, percentage: int, waiting: int
) -> None:
    """At most that share missing: all who wait keep their nodes. More: nobody does, and the text names the pod."""
    world.nodes(room)
    world.schedule(podGroupRejectPercentage=percentage)
    world.group("g", minimum)
    world.pods("g", minimum)
    await world.settle()
    assert world.states("g").get("waiting", 0) == waiting
    told = "".join(world.messages("g-"))
    rejected = f"PodGroup default/g gets rejected due to Pod g-{room} is unschedulable even after PostFilter"
    assert (rejected in told) is (waiting == 0)
    assert ("optimistic rejection in PostFilter" in told) is (waiting == 0)


@GATES
async def test_the_window_after_a_failure(world: Any, gates: str, attempts: Counter[str]) -> None:
    """Refused for the time configured, with that time in the text; then tried again, because there is a node more."""
    world.nodes(2)
    world.schedule(gates=gates, deniedPGExpirationTimeSeconds=7)
    world.group("g", 3)
    world.pods("g", 3)
    await world.settle(2)
    world.cluster.add_node("more", allocatable={"cpu": "1", "pods": "9"})
    await world.settle(4)
    assert "pod with pgName: default/g last failed in 7s, deny" in "".join(world.messages("g-"))
    assert world.states("g") == {"pending": 3}
    await world.settle(1)
    assert world.states("g") == {"bound": 3}
    assert max(attempts.values()) <= 4, attempts


@GATES
@pytest.mark.parametrize("window", [pytest.param(0, id="no window"), pytest.param(3, id="window")])
async def test_a_group_one_place_short_is_not_tried_without_a_reason(
    world: Any, gates: str, window: int, attempts: Counter[str]
) -> None:
    """Its own rollback is no reason, neither is the end of a window: at most two attempts a pod, and two per event."""
    world.nodes(3)
    world.schedule(gates=gates, deniedPGExpirationTimeSeconds=window)
    world.group("g", 4)
    world.pods("g", 4)
    await world.settle(100)
    assert world.states("g") == {"pending": 4}
    assert max(attempts.values()) <= 2, attempts
    for number in range(3):
        attempts.clear()
        world.cluster.add_node(f"small-{number}", allocatable={"cpu": "500m", "pods": "9"})
        await world.settle(40)
        assert max(attempts.values()) <= 2, attempts
        assert world.states("g") == {"pending": 4}
    world.cluster.add_node("enough", allocatable={"cpu": "1", "pods": "9"})
    await world.settle(40)
    assert world.states("g") == {"bound": 4}


async def test_the_flush_tries_a_group_that_does_not_fit_once(world: Any, attempts: Counter[str]) -> None:
    """Five minutes on, one member finds that nothing has changed, and the others are refused for that."""
    world.nodes(1)
    world.schedule(deniedPGExpirationTimeSeconds=20)
    world.group("g", 4, minResources={"cpu": "9"})
    world.pods("g", 4)
    await world.settle(10)
    before = len([message for message in world.messages("g-") if "resource gap" in message])
    await world.settle(340)
    after = len([message for message in world.messages("g-") if "resource gap" in message])
    assert before == 1
    # Aggregated events may hide equal ones; the attempts are exact: first, and flushed.
    assert after - before <= 1
    assert max(attempts.values()) <= 2, attempts


async def test_group_backoff(world: Any) -> None:
    """A rejected group with enough pods is refused with the text of scheduler-plugins while smaller ones pass."""
    world.nodes(3)
    world.schedule(deniedPGExpirationTimeSeconds=0, podGroupBackoffSeconds=5)
    world.group("big", 5)
    world.pods("big", 5)
    world.group("small", 1)
    world.pods("small", 1)
    await world.settle()
    assert "podGroup default/big failed recently" in "".join(world.messages("big-"))
    assert world.states("small") == {"bound": 1}


async def test_too_few_and_gated_siblings(world: Any) -> None:
    """The numbers are told; a gate counts as a sibling that cannot come; taking it off starts the group."""
    world.nodes(3)
    world.schedule()
    world.group("g", 3)
    world.pods("g", 2)
    await world.settle()
    expected = "pre-filter pod g-0 cannot find enough sibling pods, current pods number: 2, minMember of group: 3"
    assert expected in world.result("g-0").message
    world.pods("g", 1, start=2, scheduling_gates=["quota"])
    await world.settle(2)
    assert "pre-filter pod g-0 cannot proceed due to gated pods in the same PodGroup" in world.result("g-0").message
    world.cluster.patch(Pod, "g-2", {"spec": {"schedulingGates": None}})
    await world.settle()
    assert world.states("g") == {"bound": 3}


async def test_a_refusal_at_pre_filter_is_followed_by_post_filter(world: Any) -> None:
    """The message ends with the group's rejection, after the message of preemption where that is on."""
    rejected = "PodGroup default/g gets rejected due to Pod g-0 is unschedulable even after PostFilter"
    world.nodes(3)
    world.schedule(preemption=True)
    world.group("g", 2)
    world.pods("g", 1)
    await world.settle()
    assert world.result("g-0").message.endswith(
        "minMember of group: 2. no new claims to deallocate, preemption: 0/3 nodes are available: "
        f"3 Preemption is not helpful for scheduling., {rejected}"
    ), world.result("g-0").message
    # That is no failed attempt: the missing member starts the group at once.
    world.pods("g", 1, start=1)
    await world.settle()
    assert world.states("g") == {"bound": 2}


async def test_a_refused_member_rejects_those_who_wait(world: Any) -> None:
    """The group needs more members than there are since its PodGroup was changed."""
    world.nodes(2)
    world.schedule(podGroupRejectPercentage=40, deniedPGExpirationTimeSeconds=0)
    world.group("g", 3)
    world.pods("g", 3)
    await world.settle()
    assert world.states("g") == {"waiting": 2, "pending": 1}
    world.cluster.patch(world.kind("sigs"), "g", {"spec": {"minMember": 5}})
    world.pods("g", 1, start=3)
    await world.settle()
    assert "cannot find enough sibling pods, current pods number: 4" in world.result("g-3").message
    assert world.states("g") == {"pending": 4}
    assert any("optimistic rejection in PostFilter" in message for message in world.messages("g-"))


async def test_a_refused_member_starts_the_backoff_of_its_group(world: Any) -> None:
    """There are enough members, but one is gated; it is let in during the backoff, and the backoff's end wakes all."""
    world.nodes(3)
    world.schedule(podGroupBackoffSeconds=5, deniedPGExpirationTimeSeconds=0)
    world.group("g", 3)
    world.pods("g", 1, scheduling_gates=["quota"])
    world.pods("g", 2, start=1)
    await world.settle()
    told = "".join(world.messages("g-"))
    assert "cannot proceed due to gated pods in the same PodGroup" in told
    assert "podGroup default/g failed recently" in told
    world.cluster.patch(Pod, "g-0", {"spec": {"schedulingGates": None}})
    await world.settle(4.9)
    assert world.states("g") == {"pending": 3}
    await world.settle(0.2)
    assert world.states("g") == {"bound": 3}


async def test_a_pod_in_no_group_is_told_so_by_post_filter(world: Any) -> None:
    """Its message ends with the plugin's words, as with scheduler-plugins."""
    world.nodes(1)
    world.schedule(preemption=True)
    world.cluster.add_pod("plain", requests={"cpu": "2"})
    await world.settle()
    assert world.result("plain").message.endswith(", can not find pod group"), world.result("plain").message


async def test_members_are_told_that_siblings_are_gone(world: Any) -> None:
    """Not that their group failed a while ago, when that is not what keeps them waiting any more."""
    world.nodes(2)
    world.schedule(deniedPGExpirationTimeSeconds=0)
    world.group("g", 3)
    world.pods("g", 3)
    await world.settle(30)
    assert world.states("g") == {"pending": 3}
    world.cluster.delete_pod("g-0")
    await world.settle(3)
    for name in ("g-1", "g-2"):
        expected = f"pre-filter pod {name} cannot find enough sibling pods, current pods number: 2"
        assert expected in world.result(name).message


async def test_waiting_members_are_told_the_new_number(world: Any) -> None:
    """A sibling that comes, and is still not enough, changes what the others say."""
    world.nodes(3)
    world.schedule()
    world.group("g", 9)
    world.pods("g", 2)
    await world.settle()
    world.pods("g", 3, start=2)
    await world.settle(2)
    for number in range(5):
        told = "cannot find enough sibling pods, current pods number: 5, minMember of group: 9."
        expected = f"0/3 nodes are available: pre-filter pod g-{number} {told}"
        assert world.result(f"g-{number}").message.startswith(expected)


async def test_a_short_group_evicts_nobody(world: Any) -> None:
    """Preemption is not even thought of for a group that could not start."""
    world.nodes(2)
    world.schedule(preemption=True)
    for number in range(2):
        world.cluster.add_pod(f"low-{number}", requests={"cpu": "1"})
    await world.settle()
    world.group("hi", 5)
    world.pods("hi", 2, priority=100)
    await world.settle(20)
    assert world.result("low-0").bound
    assert world.result("low-1").bound
    assert "No preemption victims found" not in world.result("hi-0").message


async def test_terminal_members_are_no_siblings(world: Any) -> None:
    """Neither one that succeeded nor one that failed helps a group to its number."""
    world.nodes(3)
    world.group("g", 3)
    label = {"scheduling.x-k8s.io/pod-group": "g"}
    for name, phase in (("done", "Succeeded"), ("broken", "Failed")):
        world.cluster.add_pod(name, node_name="n0", labels=label, status={"phase": phase})
    world.schedule()
    world.pods("g", 2)
    await world.settle()
    assert "current pods number: 2, minMember of group: 3" in world.result("g-0").message


@pytest.mark.parametrize("profile", [pytest.param((), id="PostFilter on"), pytest.param(("postFilter",), id="off")])
async def test_nothing_depends_on_post_filter(world: Any, profile: tuple[str, ...]) -> None:
    """With the extension point disabled groups end by their time, and are all or nothing just the same."""
    world.nodes(2)
    world.schedule(disable=profile, permitWaitingTimeSeconds=10, deniedPGExpirationTimeSeconds=3)
    world.group("g", 3)
    world.pods("g", 3)
    await world.settle(9)
    assert world.states("g") == ({"waiting": 2, "pending": 1} if profile else {"pending": 3})
    await world.settle(2)
    assert world.states("g") == {"pending": 3}
    world.cluster.add_node("more", allocatable={"cpu": "1", "pods": "9"})
    await world.settle(30)
    assert world.states("g") == {"bound": 3}


async def test_a_waiting_member_is_deleted(world: Any) -> None:
    """Its siblings give back what they hold; the group is tried again when its window ends, and tells its number."""
    world.nodes(2)
    world.schedule(disable=("postFilter",), deniedPGExpirationTimeSeconds=3)
    world.group("g", 3)
    world.pods("g", 3)
    await world.settle()
    world.cluster.delete_pod("g-0")
    await world.settle()
    assert world.states("g") == {"pending": 2}
    await world.settle(4)
    assert any("current pods number: 2, minMember of group: 3" in world.result(f"g-{n}").message for n in (1, 2))


async def test_a_surplus_pod_whose_binding_fails_denies_nobody(world: Any) -> None:
    """The group has its minimum without it."""
    world.nodes(4)
    world.schedule()
    world.group("g", 3)
    world.pods("g", 3)
    await world.settle()
    world.cluster.server.faults.add(Fault(path=r"/g-3/binding$", status=400, times=1))
    world.pods("g", 1, start=3)
    await world.settle(15)
    assert world.states("g") == {"bound": 4}
    assert not any("last failed in" in message for message in world.messages("g-"))


@pytest.mark.parametrize(
    ("preemptors", "ends", "bound"),
    [
        pytest.param("g", "refused", 2, id="its own members', refused in the window"),
        pytest.param("", "deleted", 1, id="plain pods', deleted"),
        pytest.param("undeclared", "refused", 1, id="another group's members', refused at Permit"),
    ],
)
async def test_the_end_of_a_nomination_is_a_reason_to_try_a_group_again(
    world: Any, preemptors: str, ends: str, bound: int
) -> None:
    """It failed while room was kept for somebody; where that is over, the end of its window wakes it."""
    world.nodes(1, cpu="2")
    world.schedule(preemption=True, gates="SchedulerPopFromBackoffQ=false")
    world.cluster.add_pod("victim", requests={"cpu": "2"})
    await world.settle()
    world.group("g", 2 if preemptors == "g" else 1)
    labels = {"scheduling.x-k8s.io/pod-group": preemptors}
    for name in ("urgent-0", "urgent-1"):
        world.cluster.add_pod(name, priority=100, requests={"cpu": "1"}, labels=labels)
    await world.settle(0.1)
    world.cluster.delete_pod("victim")
    assert world.result("urgent-0").pod.status.nominated_node_name == "n0"
    world.pods("g", 1)
    await world.settle()
    assert "PodGroup default/g gets rejected due to Pod g-0" in world.result("g-0").message
    if ends == "deleted":
        world.cluster.delete_pod("urgent-0")
        world.cluster.delete_pod("urgent-1")
    await world.settle(29)
    assert world.states("g").get("bound") == bound

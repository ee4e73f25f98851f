"""Groups that do not fit: messages, rollback, the time for which they are refused, and events that wake them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler.api import Pod


@pytest.mark.sampled(2)
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
async def test_reject_percentage_is_the_share_that_may_be_missing(
    world: Any, minimum: int, room: int, percentage: int, waiting: int
) -> None:
    """Waiting members keep their nodes if at most this share is missing; otherwise all are rejected."""
    await world.start_with_group(minimum, nodes=room, podGroupRejectPercentage=percentage)
    assert world.states("g").get("waiting", 0) == waiting
    told = "".join(world.messages("g-"))
    rejected = f"PodGroup default/g gets rejected due to Pod g-{room} is unschedulable even after PostFilter"
    assert (rejected in told) is (waiting == 0)
    assert ("optimistic rejection in PostFilter" in told) is (waiting == 0)


async def test_failed_group_is_refused_for_the_window(world: Any, gates: str, attempts: Counter[str]) -> None:
    """The message has the configured time; after it the group is retried, because a node was added."""
    await world.start_with_group(3, nodes=2, seconds=2, gates=gates, deniedPGExpirationTimeSeconds=7)
    world.cluster.add_node("more", allocatable={"cpu": "1", "pods": "9"})
    await world.settle(4)
    assert "pod with pgName: default/g last failed in 7s, deny" in "".join(world.messages("g-"))
    assert world.states("g") == {"pending": 3}
    await world.settle(1)
    assert world.states("g") == {"bound": 3}
    assert max(attempts.values()) <= 4, attempts


@pytest.mark.sampled(2)
@pytest.mark.parametrize("window", [pytest.param(0, id="no window"), pytest.param(3, id="window")])
async def test_group_one_node_short_is_not_retried_without_an_event(
    world: Any, gates: str, window: int, attempts: Counter[str]
) -> None:
    """Neither its own rollback nor the end of a window retries it: at most two attempts per pod, and two per event."""
    await world.start_with_group(4, nodes=3, seconds=100, gates=gates, deniedPGExpirationTimeSeconds=window)
    assert world.states("g") == {"pending": 4}
    assert max(attempts.values(), default=0) <= 2, attempts
    for number in range(3):
        attempts.clear()
        world.cluster.add_node(f"small-{number}", allocatable={"cpu": "500m", "pods": "9"})
        await world.settle(40)
        assert max(attempts.values(), default=0) <= 2, attempts
        assert world.states("g") == {"pending": 4}
    world.cluster.add_node("enough", allocatable={"cpu": "1", "pods": "9"})
    await world.settle(40)
    assert world.states("g") == {"bound": 4}


async def test_flush_retries_a_group_that_does_not_fit_once(world: Any, attempts: Counter[str]) -> None:
    """After five minutes one member is tried and fails, and the others are refused."""
    await world.start_with_group(
        4, nodes=1, seconds=10, spec={"minResources": {"cpu": "9"}}, deniedPGExpirationTimeSeconds=20
    )
    before = len([message for message in world.messages("g-") if "resource gap" in message])
    await world.settle(340)
    after = len([message for message in world.messages("g-") if "resource gap" in message])
    assert before == 1
    # Aggregated events may hide equal ones; the attempts are exact: first, and flushed.
    assert after - before <= 1
    assert max(attempts.values(), default=0) <= 2, attempts


async def test_group_backoff(world: Any) -> None:
    """A rejected group with enough pods is refused with scheduler-plugins' message; smaller groups are scheduled."""
    world.nodes(3)
    world.schedule(deniedPGExpirationTimeSeconds=0, podGroupBackoffSeconds=5)
    world.group("big", 5, pods=5)
    world.group("small", 1, pods=1)
    await world.settle()
    assert "podGroup default/big failed recently" in "".join(world.messages("big-"))
    assert world.states("small") == {"bound": 1}


async def test_too_few_and_gated_siblings(world: Any) -> None:
    """The message has the numbers; a gated member counts as a sibling; without its gate the group starts."""
    await world.start_with_group(3, pods=2, nodes=3)
    expected = "pre-filter pod g-0 cannot find enough sibling pods, current pods number: 2, minMember of group: 3"
    assert expected in world.result("g-0").message
    world.pods("g", 1, start=2, scheduling_gates=["quota"])
    await world.settle(2)
    assert "pre-filter pod g-0 cannot proceed due to gated pods in the same PodGroup" in world.result("g-0").message
    world.cluster.patch(Pod, "g-2", {"spec": {"schedulingGates": None}})
    await world.settle()
    assert world.states("g") == {"bound": 3}


async def test_a_refusal_at_pre_filter_is_followed_by_post_filter(world: Any) -> None:
    """The message ends with the group's rejection, after that of preemption."""
    rejected = "PodGroup default/g gets rejected due to Pod g-0 is unschedulable even after PostFilter"
    await world.start_with_group(2, pods=1, nodes=3, preemption=True)
    assert world.result("g-0").message.endswith(
        "minMember of group: 2. no new claims to deallocate, preemption: 0/3 nodes are available: "
        f"3 Preemption is not helpful for scheduling., {rejected}"
    ), world.result("g-0").message
    # That is no failed attempt: the missing member starts the group at once.
    world.pods("g", 1, start=1)
    await world.settle()
    assert world.states("g") == {"bound": 2}


async def test_refused_member_rejects_the_waiting_members(world: Any) -> None:
    """A PodGroup that needs more members than exist rejects waiting members."""
    await world.start_with_group(3, nodes=2, podGroupRejectPercentage=40, deniedPGExpirationTimeSeconds=0)
    assert world.states("g") == {"waiting": 2, "pending": 1}
    world.cluster.patch(world.kind("sigs"), "g", {"spec": {"minMember": 5}})
    world.pods("g", 1, start=3)
    await world.settle()
    assert "cannot find enough sibling pods, current pods number: 4" in world.result("g-3").message
    assert world.states("g") == {"pending": 4}
    assert any("optimistic rejection in PostFilter" in message for message in world.messages("g-"))


async def test_a_refused_member_starts_the_backoff_of_its_group(world: Any) -> None:
    """The group has enough members, one of them gated; the gate is removed during the backoff, whose end wakes all."""
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


async def test_post_filter_adds_nothing_for_a_plain_pod(world: Any) -> None:
    """Only the message of a member without its PodGroup says that the group is missing."""
    world.nodes(1)
    world.schedule(preemption=True)
    world.cluster.add_pod("plain", requests={"cpu": "2"})
    await world.settle()
    message = world.result("plain").message
    assert message.startswith("0/1 nodes are available")
    assert "pod group" not in message


async def test_message_changes_when_siblings_are_deleted(world: Any) -> None:
    """It no longer says that the group failed, because too few siblings are the reason now."""
    await world.start_with_group(3, nodes=2, seconds=30, deniedPGExpirationTimeSeconds=0)
    assert world.states("g") == {"pending": 3}
    world.cluster.delete_pod("g-0")
    await world.settle(3)
    for name in ("g-1", "g-2"):
        expected = f"pre-filter pod {name} cannot find enough sibling pods, current pods number: 2"
        assert expected in world.result(name).message


async def test_message_shows_the_new_number_of_members(world: Any) -> None:
    """A new sibling changes the message of the others, although it is not enough."""
    await world.start_with_group(9, pods=2, nodes=3)
    world.pods("g", 3, start=2)
    await world.settle(2)
    for number in range(5):
        told = "cannot find enough sibling pods, current pods number: 5, minMember of group: 9."
        expected = f"0/3 nodes are available: pre-filter pod g-{number} {told}"
        assert world.result(f"g-{number}").message.startswith(expected)


async def test_group_with_too_few_members_evicts_no_pod(world: Any) -> None:
    """There is no preemption for a group that could not start."""
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


@pytest.mark.parametrize("restarts", [False, True])
async def test_succeeded_members_of_a_started_group_count_as_siblings(world: Any, restarts: bool) -> None:
    """The last pods of a Job with more completions than parallelism start, after a restart of the scheduler as well."""
    world.nodes(3)
    world.group("g", 2)
    label = {"scheduling.x-k8s.io/pod-group": "g"}
    if restarts:
        for name in ("g-0", "g-1"):
            world.cluster.add_pod(name, node_name="n0", labels=label, status={"phase": "Succeeded"})
        world.schedule()
    else:
        world.pods("g", 2)
        world.schedule()
        await world.settle()
        assert world.states("g") == {"bound": 2}
        for name in ("g-0", "g-1"):
            world.cluster.patch(Pod, name, {"status": {"phase": "Succeeded"}}, namespace="default", status=True)
    world.pods("g", 1, start=2)
    await world.settle(5)
    assert world.result("g-2").bound


async def test_ended_members_of_a_group_that_never_started_do_not_count(world: Any) -> None:
    """Neither those that succeeded nor those that failed."""
    world.nodes(3)
    world.group("g", 4)
    label = {"scheduling.x-k8s.io/pod-group": "g"}
    for name, phase in (("done", "Succeeded"), ("broken", "Failed")):
        world.cluster.add_pod(name, node_name="n0", labels=label, status={"phase": phase})
    world.schedule()
    world.pods("g", 3)
    await world.settle()
    assert "current pods number: 3, minMember of group: 4" in world.result("g-0").message


@pytest.mark.parametrize("profile", [pytest.param((), id="PostFilter on"), pytest.param(("postFilter",), id="off")])
async def test_groups_work_without_post_filter(world: Any, profile: tuple[str, ...]) -> None:
    """With the extension point disabled, groups time out and are still bound together or not at all."""
    await world.start_with_group(
        3, nodes=2, seconds=9, disable=profile, permitWaitingTimeSeconds=10, deniedPGExpirationTimeSeconds=3
    )
    assert world.states("g") == ({"waiting": 2, "pending": 1} if profile else {"pending": 3})
    await world.settle(2)
    assert world.states("g") == {"pending": 3}
    world.cluster.add_node("more", allocatable={"cpu": "1", "pods": "9"})
    await world.settle(30)
    assert world.states("g") == {"bound": 3}


async def test_deleting_a_waiting_member_rejects_the_others(world: Any) -> None:
    """The group is retried after its window, with the new number of members in the message."""
    await world.start_with_group(3, nodes=2, disable=("postFilter",), deniedPGExpirationTimeSeconds=3)
    world.cluster.delete_pod("g-0")
    await world.settle()
    assert world.states("g") == {"pending": 2}
    await world.settle(4)
    assert any("current pods number: 2, minMember of group: 3" in world.result(f"g-{n}").message for n in (1, 2))


async def test_failed_binding_of_a_surplus_pod_does_not_deny_the_group(world: Any) -> None:
    """A group that has its minimum without the pod is not denied."""
    await world.start_with_group(3, nodes=4)
    world.cluster.server.faults.add(Fault(path=r"/g-3/binding$", status=400, times=1))
    world.pods("g", 1, start=3)
    await world.settle(15)
    assert world.states("g") == {"bound": 4}
    assert not any("last failed in" in message for message in world.messages("g-"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("preemptors", "ends", "bound"),
    [
        pytest.param("g", "refused", 2, id="its own members', without which it does not fail"),
        pytest.param("", "deleted", 1, id="plain pods', deleted"),
        pytest.param("undeclared", "refused", 1, id="another group's members', refused at Permit"),
    ],
)
async def test_end_of_a_nomination_retries_a_group(world: Any, preemptors: str, ends: str, bound: int) -> None:
    """A group that failed because of a nomination is woken by the end of its window after the nomination ended."""
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
    # A further member must not end the nominations of a group that fits without it.
    fails = preemptors != "g"
    assert ("PodGroup default/g gets rejected due to Pod g-0" in world.result("g-0").message) is fails
    if ends == "deleted":
        world.cluster.delete_pod("urgent-0")
        world.cluster.delete_pod("urgent-1")
    await world.settle(29)
    assert world.states("g").get("bound") == bound


@pytest.mark.slow
async def test_rollbacks_do_not_wake_other_groups_for_ever(world: Any, attempts: Counter[str]) -> None:
    """Six groups of two and room for one pod: each is tried a few times, and then only by the flush."""
    world.nodes(1)
    world.schedule(deniedPGExpirationTimeSeconds=20)
    for name in "abcdef":
        world.group(name, 2, pods=2)
    await world.settle(60)
    early = attempts.total()
    await world.clock.advance(1_500)
    flushes = 1_500 / 300 + 1
    # Each flush tries all twelve, and a member that fits has the others tried once more.
    assert attempts.total() - early <= flushes * 12 * 3
    world.cluster.add_node("more", allocatable={"cpu": "1", "pods": "9"})
    await world.settle(60)
    assert sum(world.states(name).get("bound", 0) == 2 for name in "abcdef") == 1


async def test_room_held_during_a_failure_wakes_the_group_when_freed(world: Any) -> None:
    """A group that fits only without what another group holds is retried as soon as that group gives it back."""
    world.nodes(4)
    world.schedule(deniedPGExpirationTimeSeconds=2, podGroupRejectPercentage=40, deadlock={"enabled": False})
    world.group("large", 5, pods=5, scheduleTimeoutSeconds=30)
    await world.settle(5)
    assert world.states("large")["waiting"] == 4
    world.group("small", 3, pods=3, scheduleTimeoutSeconds=200)
    await world.settle(10)
    assert world.states("small").get("bound", 0) == 0
    await world.clock.advance(45)
    assert world.states("small") == {"bound": 3}

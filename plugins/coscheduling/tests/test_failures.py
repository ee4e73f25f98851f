"""Groups that do not fit: messages, rollback, the time for which they are refused, and events that wake them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pyscheduler.api import Pod


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


async def test_members_share_a_failure_only_if_no_member_waits(world: Any) -> None:
    """A failure that would reject waiting members, or that PreFilter would prevent, needs an attempt."""
    await world.start_with_group(3, nodes=2, pods=3, podGroupRejectPercentage=40, deniedPGExpirationTimeSeconds=0)
    assert world.states("g") == {"waiting": 2, "pending": 1}
    world.group("full", 2, pods=2)
    world.group("few", 4, pods=2)
    await world.settle()
    shared = {name: world.plugin.shared_failure(world.cluster.pod(name)) for name in ("g-2", "full-0", "few-0")}
    assert [name for name, repeat in shared.items() if repeat is not None] == ["full-0"]


async def test_members_in_a_window_share_no_failure(world: Any) -> None:
    """PreFilter refuses them: that is another failure."""
    await world.start_with_group(2, nodes=1, cpu="500m", deniedPGExpirationTimeSeconds=20)
    assert world.plugin.shared_failure(world.cluster.pod("g-0")) is None
    await world.settle(25)
    assert world.plugin.shared_failure(world.cluster.pod("g-0")) is not None

"""Waits at Permit: which members count, how long they wait, and how the waits end."""

from __future__ import annotations

import json
from typing import Any

import pytest


async def test_plain_pods_are_not_affected(world: Any) -> None:
    """Pods without a group, or with an empty label, are bound one by one."""
    world.nodes(2)
    world.schedule()
    world.cluster.add_pod("plain", requests={"cpu": "1"})
    world.cluster.add_pod("empty", requests={"cpu": "1"}, labels={"scheduling.x-k8s.io/pod-group": ""})
    await world.settle()
    assert world.result("plain").bound
    assert world.result("empty").bound


async def test_pods_without_a_group_can_be_refused(world: Any) -> None:
    """With `requireGroup` a plain pod is refused with a message that says what it needs."""
    world.nodes(1)
    world.schedule(requireGroup=True)
    world.cluster.add_pod("plain", requests={"cpu": "1"})
    await world.settle()
    expected = "pod has no pod group, set annotation scheduling.k8s.io/group-name"
    assert expected in world.result("plain").message


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("said", "argument", "seconds", "text"),
    [
        pytest.param(5, 30, 5, "5s", id="the group's"),
        pytest.param(0, 90, 90, "1m30s", id="the argument where the group says 0"),
        pytest.param(-3, 20, 20, "20s", id="the argument where the group says less"),
        pytest.param(None, 0, 60, "1m0s", id="60 where nobody says"),
        pytest.param(3600, 10, 3600, "1h0m0s", id="longer than 15 minutes"),
    ],
)
async def test_wait_time_of_members(world: Any, said: int | None, argument: int, seconds: int, text: str) -> None:
    """The group's value counts, then the arg, then 60 seconds; the message has Go's notation; there is no limit."""
    world.nodes(1)
    world.schedule(permitWaitingTimeSeconds=argument, podGroupRejectPercentage=100)
    world.group("g", 2, pods=2, dialect="ming", **({} if said is None else {"scheduleTimeoutSeconds": said}))
    await world.settle(seconds - 1)
    assert world.states("g", dialect="ming") == {"waiting": 1, "pending": 1}
    await world.settle(1)
    assert f"rejected due to timeout after waiting {text} at plugin Coscheduling" in "".join(world.messages("g-"))


@pytest.mark.parametrize("minimum", [pytest.param(0, id="0"), pytest.param(-4, id="negative")])
async def test_a_minimum_of_0_or_less_is_no_constraint(world: Any, minimum: int) -> None:
    """Members are bound like plain pods."""
    await world.start_with_group(minimum, pods=2, nodes=1, dialect="ming")
    assert world.states("g", dialect="ming") == {"bound": 1, "pending": 1}


async def test_group_with_a_word_as_minimum_is_not_declared(world: Any) -> None:
    """Members stay pending with the message for a missing group until the object is corrected."""
    world.nodes(1)
    world.schedule()
    world.group("g", "one", pods=1, dialect="ming")
    await world.settle()
    assert "PodGroup not found" in world.result("g-0").message
    world.change("g", dialect="ming", minMember=1)
    await world.settle()
    assert world.result("g-0").bound


async def test_members_of_different_profiles_are_refused(world: Any) -> None:
    """A group cannot be split over two profiles with the plugin; when one pod is deleted, the rest is scheduled."""
    world.nodes(4)
    world.schedule(profiles=("one", "two"))
    world.group("g", 2)
    world.pods("g", 2, scheduler_name="one")
    world.pods("g", 1, start=2, scheduler_name="two")
    await world.settle()
    text = 'all pods in a single pod group should have the same .spec.schedulerName set, got: "one" and "two"'
    assert text in "".join(world.messages("g-"))
    bound = world.states("g").get("bound", 0)
    world.cluster.delete_pod("g-2")
    await world.settle(30)
    assert world.states("g") == {"bound": 2}
    assert bound in {0, 2}


async def test_a_member_of_a_profile_without_the_plugin_is_a_plain_pod(world: Any) -> None:
    """It counts once it is bound."""
    # Two schedulers that know nothing of each other's plans need room for both.
    world.nodes(3, cpu="2")
    world.schedule()
    world.group("g", 2)
    world.pods("g", 1, scheduler_name="somebody-else")
    world.pods("g", 1, start=1)
    await world.settle()
    assert world.states("g")["waiting"] == 1
    text = {"kind": "KubeSchedulerConfiguration", "profiles": [{"schedulerName": "somebody-else"}]}
    other = world.cluster.framework(config=json.dumps({"apiVersion": "kubescheduler.config.k8s.io/v1", **text}))
    await other.settle()
    await world.settle()
    assert world.states("g") == {"bound": 2}


async def test_recreated_pod_is_another_member(world: Any) -> None:
    """A wait of the deleted member does not count for the new one, and no member counts twice."""
    await world.start_with_group(3, nodes=2, podGroupRejectPercentage=100, deniedPGExpirationTimeSeconds=2)
    for name in ("g-0", "g-1"):
        world.cluster.delete_pod(name)
    world.pods("g", 2)
    await world.settle(30)
    assert world.states("g") == {"waiting": 2, "pending": 1}


@pytest.mark.parametrize("target", [pytest.param("small", id="another group"), pytest.param(None, id="none")])
async def test_failed_pod_is_retried_after_it_changes_its_group(world: Any, target: str | None) -> None:
    """The pod ignored the room that its old group gave back, so the change of the group retries it."""
    world.nodes(3)
    world.schedule()
    world.group("large", 4)
    world.group("small", 1)
    world.pods("large", 4)
    await world.settle(30)
    assert world.states("large") == {"pending": 4}
    world.relabel("large-3", target)
    await world.settle(3)
    assert world.result("large-3").bound


async def test_members_of_groups_are_not_signed(world: Any) -> None:
    """Plain pods are signed; the result for a member depends on other members and on the time."""
    world.nodes(1, cpu="8")
    world.group("g", 1)
    world.schedule()
    world.pods("g", 1)
    world.cluster.add_pod("plain")
    await world.settle()
    assert world.plugin.sign_pod(world.cluster.pod("plain")) == ()
    signed = world.plugin.sign_pod(world.cluster.pod("g-0"))
    assert signed.message == "pods of a group are not signable"

"""Declarations of gangs, and what PreFilter refuses."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.framework import ConfigError, NotFoundError
from pyscheduler_gang.args import GangArgs


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param({"defaultTimeout": "-1s"}, "coeSchedulingArgs DefaultTimeoutSeconds invalid", id="timeout"),
        pytest.param({"controllerWorkers": 0}, "coeSchedulingArgs ControllerWorkers invalid", id="workers"),
        pytest.param({"enablePreemption": True}, "enablePreemption: gangs cannot preempt", id="preemption"),
        pytest.param({"defaultMatchPolicy": "some"}, 'defaultMatchPolicy: "some" is none of', id="policy"),
        pytest.param({"dialects": ["kai"]}, "dialects: kai cannot be served", id="dialects"),
        pytest.param({"deadlock": {"graceSeconds": -1}}, "deadlock.graceSeconds: Invalid value: -1", id="grace"),
        pytest.param({"surprise": 1}, "surprise", id="unknown"),
    ],
)
def test_bad_args_are_one_clear_error(world: Any, args: dict[str, Any], message: str) -> None:
    """Named as in the file."""
    with pytest.raises(ConfigError, match=message):
        world.schedule(**args)


def test_all_bad_args_are_in_one_error() -> None:
    """In one list."""
    with pytest.raises(ValueError, match=r"\[.*DefaultTimeoutSeconds.*, .*ControllerWorkers.*\]"):
        GangArgs(default_timeout_seconds=-1, controller_workers=0)
    assert GangArgs(default_timeout_seconds=0).wait_seconds == 600


async def test_pod_annotations_count_before_the_object(world: Any, said: Any) -> None:
    """The first member counts; a Warning event says once that others differ."""
    world.schedule()
    world.node("n", 9)
    world.gang("g", 5)
    world.pods("g", 2, gang="g", annotations=said(min_available="3"))
    world.pods("h", 1, gang="g", annotations=said(min_available="4"))
    await world.settle(5)
    assert world.states() == {"bound": 3}
    warnings = world.cluster.events("InconsistentGang")
    assert len(warnings) == 1
    assert "members disagree on min: 3 counts, not 4" in warnings[0]["note"]


async def test_members_of_two_profiles_are_refused(world: Any) -> None:
    """The message is that of the in-tree plugin; pods of other schedulers do not count (corner cases 18 and 29)."""
    world.schedule(profiles=("pyscheduler", "other"))
    world.node("n", 9)
    world.gang("g", 2, pods=1)
    world.pods("h", 1, gang="g", scheduler_name="other")
    await world.settle(3)
    assert (
        'all pods in a single pod group should have the same .spec.schedulerName set, got: "pyscheduler" and "other"'
        in (world.result("g-0").message)
    )
    world.cluster.delete_pod("h-0")
    world.pods("f", 1, gang="g", scheduler_name="default-scheduler")
    await world.settle(15)
    world.pods("g", 1, gang="g", start=1)
    await world.settle(15)
    assert world.states("g") == {"bound": 2}


def test_profiles_share_their_gangs_and_so_their_args(world: Any) -> None:
    """One scheduler has one set of gangs."""
    framework = world.schedule(profiles=("one", "two"))
    plugins = [profile.plugins["Gang"] for profile in framework.scheduler.profiles.values()]
    assert plugins[0].gangs is plugins[1].gangs
    assert plugins[0].gangs.profiles == {"one", "two"}


async def test_the_pages_show_every_gang(world: Any) -> None:
    """The pages have all fields, under both paths; an unknown gang is a 404."""
    framework = world.schedule()
    world.node("n", 1)
    world.gang("g", 2, pods=2, timeout=90, mode="NonStrict", total_number="4")
    await world.settle(1)
    for path in ("/apis/v1/plugins/Coscheduling", "/apis/v1/plugins/Gang"):
        everything = framework.get_route(f"{path}/gangs")
        shown = framework.get_route(f"{path}/gang/default/g")
        assert everything == {"default/g": shown}
        with pytest.raises(NotFoundError, match="cannot find gang default/h"):
            framework.get_route(f"{path}/gang/default/h")
    assert shown | {"createTime": "", "waitDeadline": ""} == {
        "name": "default/g",
        "waitTime": 90 * 10**9,
        "createTime": "",
        "mode": "NonStrict",
        "gangMatchPolicy": "once-satisfied",
        "minRequiredNumber": 2,
        "totalChildrenNum": 4,
        "gangGroup": ["default/g"],
        "children": ["default/g-0", "default/g-1"],
        "pendingChildren": ["default/g-1"],
        "waitingForBindChildren": ["default/g-0"],
        "boundChildren": [],
        "onceResourceSatisfied": False,
        "gangGroupInfo": {"gangGroupId": "default/g", "gangs": ["default/g"], "onceResourceSatisfied": False},
        "gangFrom": "GangFromPodGroupCrd",
        "hasGangInit": True,
        "scheduleCycle": 1,
        "scheduleCycleValid": True,
        "childrenScheduleRoundMap": {"default/g-0": 0, "default/g-1": 0},
        "waitDeadline": "",
        "timedOut": [],
        "deadlockState": "",
        "yieldCount": 0,
        "problems": [],
    }
    assert shown["waitDeadline"] > shown["createTime"]

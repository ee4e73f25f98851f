"""Declarations of gangs, and what PreFilter refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyscheduler.framework import ConfigError, NotFoundError
from pyscheduler_gang.args import GangArgs

LIGHT = "pod-group.scheduling.sigs.k8s.io/"


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


async def test_a_gang_needs_no_object(world: Any, said: Any) -> None:
    """Annotations or the older labels declare a gang."""
    world.schedule()
    world.node("n", 9)
    world.pods("a", 3, annotations=said(name="one", min_available="3"))
    world.pods("l", 3, labels={f"{LIGHT}name": "two", f"{LIGHT}min-available": "3"})
    world.pods("alone", 1, annotations=said(name="three", min_available="2"))
    world.pods("plain", 1)
    await world.settle(5)
    assert (world.states("a-"), world.states("l"), world.states("plain")) == ({"bound": 3}, {"bound": 3}, {"bound": 1})
    assert world.result("alone-0").state == "pending"


async def test_pods_may_come_before_their_object(world: Any) -> None:
    """The gang is undeclared until its object comes, and again after its object is deleted."""
    world.schedule()
    world.node("n", 2)
    world.pods("g", 3, gang="g")
    await world.settle()
    assert all("gang has not init, gangName: default/g" in world.result(f"g-{each}").message for each in range(3))
    world.gang("g", 3, mode="NonStrict")
    await world.settle(2)
    assert world.states() == {"waiting": 2, "pending": 1}
    world.ungang("g")
    await world.settle(15)
    assert world.states() == {"pending": 3}
    assert any("gang has not init" in note for note in world.notes("g-0"))
    record = world.record("default/g")
    assert len(record.state.pending) == 3
    assert not record.state.group.is_declared
    world.gang("g", 2, mode="NonStrict")
    await world.settle(15)
    assert world.states() == {"bound": 2, "pending": 1}


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


async def test_gang_group_waits_for_missing_partners(world: Any) -> None:
    """The message names partners that are absent, not declared, or have too few members."""
    world.schedule()
    world.node("n", 9)
    listed = json.dumps(["default/a", "default/b"])
    world.gang("a", 1, pods=1, groups=listed)
    await world.settle()
    shown = "gangGroup [default/a default/b] basic check: memberGangs [default/b]"
    tail = ", current gang: default/a, podName: default/a-0"
    assert f"{shown} doesn't exists{tail}" in world.result("a-0").message
    world.pods("b", 1, gang="b")
    world.cluster.delete_pod("a-0")
    world.pods("a", 1, gang="a")
    await world.settle(2)
    assert f"{shown} has not init{tail}" in world.result("a-0").message
    world.gang("b", 2, groups=listed)
    await world.settle(5)
    assert f"{shown} child pod not collect enough{tail}" in world.result("a-0").message
    world.pods("b", 1, gang="b", start=1)
    await world.settle(5)
    assert world.states() == {"bound": 3}


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

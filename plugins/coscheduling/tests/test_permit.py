"""Waiting for each other: who counts, how long it lasts, and how it ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyscheduler.api import Pod
from pyscheduler.cluster.embedded.serving.faults import Fault


async def test_a_group_is_bound_when_its_minimum_has_nodes(world: Any) -> None:
    """The members before the last wait, the last lets all go."""
    world.nodes(3)
    world.schedule()
    world.group("g", 3)
    world.pods("g", 2)
    await world.settle()
    assert world.states("g") == {"pending": 2}
    world.pods("g", 1, start=2)
    await world.settle()
    assert world.states("g") == {"bound": 3}


async def test_plain_pods_are_left_alone(world: Any) -> None:
    """Pods without a group, or with an empty label, are bound one by one."""
    world.nodes(2)
    world.schedule()
    world.cluster.add_pod("plain", requests={"cpu": "1"})
    world.cluster.add_pod("empty", requests={"cpu": "1"}, labels={"scheduling.x-k8s.io/pod-group": ""})
    await world.settle()
    assert world.result("plain").bound
    assert world.result("empty").bound


async def test_pods_without_a_group_can_be_refused(world: Any) -> None:
    """With `requireGroup` a plain pod is told what it lacks."""
    world.nodes(1)
    world.schedule(requireGroup=True)
    world.cluster.add_pod("plain", requests={"cpu": "1"})
    await world.settle()
    expected = "pod has no pod group, set annotation scheduling.k8s.io/group-name"
    assert expected in world.result("plain").message


async def test_a_group_that_nobody_declared_is_refused_at_permit(world: Any) -> None:
    """The pod passes filters, is refused with the text of old, and binds once the object is there."""
    world.nodes(2)
    world.schedule()
    world.pods("g", 2)
    await world.settle()
    assert "PodGroup not found" in world.result("g-0").message
    world.group("g", 2)
    await world.settle()
    assert world.states("g") == {"bound": 2}


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
async def test_how_long_members_wait(world: Any, said: int | None, argument: int, seconds: int, text: str) -> None:
    """The group decides, then the argument, then 60 seconds; the message has Go's form; nothing is cut."""
    world.nodes(1)
    world.schedule(permitWaitingTimeSeconds=argument, podGroupRejectPercentage=100)
    world.group("g", 2, dialect="ming", **({} if said is None else {"scheduleTimeoutSeconds": said}))
    world.pods("g", 2, dialect="ming")
    await world.settle(seconds - 1)
    assert world.states("g", dialect="ming") == {"waiting": 1, "pending": 1}
    await world.settle(1)
    assert f"rejected due to timeout after waiting {text} at plugin Coscheduling" in "".join(world.messages("g-"))


async def test_the_first_to_wait_has_the_others_tried(world: Any) -> None:
    """Siblings leave backoff and the unschedulable pods as soon as one of them has a node."""
    world.nodes(1)
    world.schedule(podGroupRejectPercentage=0, deniedPGExpirationTimeSeconds=0)
    world.group("g", 3)
    world.pods("g", 3)
    await world.settle(2)
    assert world.states("g") == {"pending": 3}
    world.cluster.add_node("more", allocatable={"cpu": "2", "pods": "9"})
    await world.settle(2)
    assert world.states("g") == {"bound": 3}


async def test_members_beyond_the_minimum_bind_one_by_one(world: Any) -> None:
    """Once the minimum is bound, each further member is bound when there is room; its failure rolls nobody back."""
    world.nodes(3)
    world.schedule()
    world.group("g", 3)
    world.pods("g", 5)
    await world.settle()
    assert world.states("g") == {"bound": 3, "pending": 2}
    assert not any("even after PostFilter" in message for message in world.messages("g-"))
    world.cluster.add_node("more", allocatable={"cpu": "1", "pods": "9"})
    await world.settle(15)
    assert world.states("g") == {"bound": 4, "pending": 1}


async def test_a_lower_minimum_lets_waiting_members_go_at_once(world: Any) -> None:
    """No pod has to come along for the new number to count."""
    world.nodes(2)
    world.schedule(podGroupRejectPercentage=100)
    world.group("g", 3)
    world.pods("g", 3)
    await world.settle(3)
    assert world.states("g") == {"waiting": 2, "pending": 1}
    world.change("g", minMember=2)
    await world.settle()
    assert world.states("g") == {"bound": 2, "pending": 1}


@pytest.mark.parametrize("minimum", [pytest.param(0, id="0"), pytest.param(-4, id="negative")])
async def test_a_minimum_of_0_or_less_is_no_constraint(world: Any, minimum: int) -> None:
    """Members bind like plain pods, and nothing divides by their number."""
    world.nodes(1)
    world.schedule()
    world.group("g", minimum, dialect="ming")
    world.pods("g", 2, dialect="ming")
    await world.settle()
    assert world.states("g", dialect="ming") == {"bound": 1, "pending": 1}


async def test_a_minimum_that_is_a_word_leaves_the_group_undeclared(world: Any) -> None:
    """Members stay pending with the text for a group that is not there, until the object is mended."""
    world.nodes(1)
    world.schedule()
    world.group("g", "one", dialect="ming")
    world.pods("g", 1, dialect="ming")
    await world.settle()
    assert "PodGroup not found" in world.result("g-0").message
    world.change("g", dialect="ming", minMember=1)
    await world.settle()
    assert world.result("g-0").bound


async def test_a_deleted_group_ends_the_waits_of_its_members(world: Any) -> None:
    """Waiting members are told why, bound ones stay, and a new object starts the group anew."""
    world.nodes(2)
    world.schedule(podGroupRejectPercentage=100)
    world.group("g", 3)
    world.pods("g", 3)
    await world.settle()
    assert world.states("g") == {"waiting": 2, "pending": 1}
    world.cluster.delete(world.kind("sigs"), "g")
    await world.settle(1)
    assert world.states("g") == {"pending": 3}
    assert any("PodGroup not found" in message for message in world.messages("g-"))
    world.group("g", 2)
    await world.settle(30)
    assert world.states("g") == {"bound": 2, "pending": 1}


async def test_a_pod_that_changes_its_group_while_it_waits_is_rejected_first(world: Any) -> None:
    """It leaves the old group, whose others give back what they hold, and completes the new one."""
    world.nodes(3)
    world.schedule(podGroupRejectPercentage=100)
    world.group("old", 4)
    world.group("new", 1)
    world.pods("old", 4)
    await world.settle()
    assert world.states("old") == {"waiting": 3, "pending": 1}
    labels = {"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "new"}}}
    world.cluster.patch(Pod, "old-0", labels)
    await world.settle(30)
    assert world.states("new") == {"bound": 1}
    assert world.states("old") == {"pending": 3}


async def test_one_failed_binding_is_made_up_for(world: Any) -> None:
    """The others are on their way and stay bound; the pod whose binding failed counts them and follows."""
    world.nodes(3)
    world.schedule(deniedPGExpirationTimeSeconds=3)
    world.group("g", 3)
    world.cluster.server.faults.add(Fault(path=r"/g-1/binding$", status=400, times=1))
    world.pods("g", 3)
    await world.settle()
    assert world.states("g") == {"bound": 2, "pending": 1}
    await world.settle(20)
    assert world.states("g") == {"bound": 3}


async def test_all_bindings_fail_and_the_group_is_tried_as_a_group(world: Any) -> None:
    """Everybody comes back, and all are bound together later."""
    world.nodes(3)
    world.schedule(deniedPGExpirationTimeSeconds=3)
    world.group("g", 3)
    world.cluster.server.faults.add(Fault(path=r"/g-\d/binding$", status=400, times=3))
    world.pods("g", 3)
    await world.settle()
    assert world.states("g") == {"pending": 3}
    await world.settle(20)
    assert world.states("g") == {"bound": 3}


async def test_a_node_that_goes_takes_its_group_along(world: Any) -> None:
    """The pod that held it is rejected, the others roll back, and the group starts again where there is room."""
    world.nodes(2)
    world.schedule(podGroupRejectPercentage=100, deniedPGExpirationTimeSeconds=3)
    world.group("g", 3)
    world.pods("g", 3)
    await world.settle()
    assert world.states("g") == {"waiting": 2, "pending": 1}
    world.cluster.delete_node("n0")
    await world.settle()
    assert world.states("g").get("bound", 0) == 0
    assert any('node "n0" is gone' in message for message in world.messages("g-"))
    world.cluster.add_node("big", allocatable={"cpu": "2", "pods": "9"})
    await world.settle(30)
    assert world.states("g") == {"bound": 3}


async def test_members_of_different_profiles_are_refused(world: Any) -> None:
    """Two profiles with the plugin do not share a group; when one of them gives up its pod, the other goes on."""
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
    """Somebody else binds it, and it counts as bound."""
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


async def test_the_same_name_in_two_namespaces_is_two_groups(world: Any) -> None:
    """Members of one namespace do not count in the other."""
    world.nodes(4)
    world.schedule()
    for namespace in ("one", "two"):
        world.cluster.server.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        world.group("g", 2, namespace=namespace)
    world.pods("g", 1, namespace="one")
    world.pods("g", 1, namespace="two")
    await world.settle()
    assert world.states("g") == {"pending": 2}
    world.pods("g", 1, start=1, namespace="two")
    await world.settle()
    assert world.states("g") == {"pending": 1, "bound": 2}


async def test_a_pod_made_again_under_its_name_is_another_pod(world: Any) -> None:
    """The waits of a deleted member are not the new one's, and nobody is counted twice."""
    world.nodes(2)
    world.schedule(podGroupRejectPercentage=100, deniedPGExpirationTimeSeconds=2)
    world.group("g", 3)
    world.pods("g", 3)
    await world.settle()
    for name in ("g-0", "g-1"):
        world.cluster.delete_pod(name)
    world.pods("g", 2)
    await world.settle(30)
    assert world.states("g") == {"waiting": 2, "pending": 1}


async def test_a_restart_with_half_a_group_bound(world: Any) -> None:
    """Members that were bound before count; the rest completes the number."""
    world.nodes(4)
    world.group("g", 4)
    world.cluster.add_pod("g-0", node_name="n0", requests={"cpu": "1"}, labels={"scheduling.x-k8s.io/pod-group": "g"})
    world.cluster.add_pod("g-1", node_name="n1", requests={"cpu": "1"}, labels={"scheduling.x-k8s.io/pod-group": "g"})
    world.schedule()
    world.pods("g", 1, start=2)
    await world.settle()
    assert "current pods number: 3, minMember of group: 4" in world.result("g-2").message
    world.pods("g", 1, start=3)
    await world.settle()
    assert world.states("g") == {"bound": 4}


@pytest.mark.parametrize("target", [pytest.param("small", id="another group"), pytest.param(None, id="none")])
async def test_a_pod_that_failed_in_one_group_is_tried_for_what_it_is_now(world: Any, target: str | None) -> None:
    """Its group gave back room without waking it; where it does not belong there any more, that room is news."""
    world.nodes(3)
    world.schedule()
    world.group("large", 4)
    world.group("small", 1)
    world.pods("large", 4)
    await world.settle(30)
    assert world.states("large") == {"pending": 4}
    world.cluster.patch(Pod, "large-3", {"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": target}}})
    await world.settle(3)
    assert world.result("large-3").bound

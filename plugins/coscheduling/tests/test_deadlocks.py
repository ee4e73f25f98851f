"""Deadlocks: winners, victims, leases, and the room that is kept for the winner."""

from __future__ import annotations

from typing import ClassVar

import pytest

from plugins.coscheduling.tests.deadlock_cluster import GRACE, DeadlockCluster
from pyscheduler.api import Pod
from pyscheduler.framework import CycleState, FilterPlugin, NodeInfo, Status
from pyscheduler.testing import FakeCluster

#: So long after a deadlock began it is resolved at the latest: the grace time, and a look now and then.
SOON = GRACE + 1.5


@pytest.fixture
def world(pyscheduler_cluster: FakeCluster) -> DeadlockCluster:
    """Give an empty cluster that knows the groups of both plugins."""
    return DeadlockCluster(pyscheduler_cluster)


async def three_gangs(world: DeadlockCluster) -> None:
    """Let a, b and c, of five each, hold three, three and four of ten slots."""
    world.node("n0", 5)
    world.node("n1", 5)
    for name, held in (("a", 3), ("b", 3), ("c", 4)):
        world.hold(name, held, 5 - held)
    for name, held in (("a", 3), ("b", 3), ("c", 4)):
        world.lack(name, 5 - held)
    await world.settle()
    assert [world.states(name) for name in "abc"] == [
        {"waiting": 3, "pending": 2},
        {"waiting": 3, "pending": 2},
        {"waiting": 4, "pending": 1},
    ]


async def test_three_gangs_that_hold_3_3_and_4_of_ten_end_5_5_and_then_the_third(world: DeadlockCluster) -> None:
    """The oldest gang wins, the youngest yields, and is bound when there is room."""
    world.schedule()
    await three_gangs(world)
    await world.settle(3 * SOON)
    assert [world.states(name) for name in "abc"] == [{"bound": 5}, {"bound": 5}, {"pending": 5}]
    assert any('Gang "default/c" yields to gang "default/a": resource deadlock among 3 gangs' in text
               for text in world.messages("c-hi"))  # fmt: skip
    assert world.annotated() == set()
    assert world.deadlocks.counts["resolved"] in {1, 2}
    assert world.deadlocks.counts["expired"] == 0
    for number in range(3):
        world.cluster.delete_pod(f"a-hi-{number}")
    for number in range(2):
        world.cluster.delete_pod(f"a-lo-{number}")
    await world.settle(15)
    assert world.states("c") == {"bound": 5}


async def test_no_group_yields_before_the_grace_time(world: DeadlockCluster) -> None:
    """A deadlock is resolved only after the grace time."""
    world.schedule(deadlock={"graceSeconds": 20})
    await three_gangs(world)
    await world.settle(19)
    assert world.deadlocks.counts["resolved"] == 0
    await world.settle(2)
    assert world.deadlocks.counts["resolved"] == 1


async def test_no_group_yields_if_disabled(world: DeadlockCluster) -> None:
    """With `enabled: false` groups hold their nodes until they time out."""
    world.schedule(deadlock={"enabled": False})
    await three_gangs(world)
    await world.settle(120)
    assert [world.states(name)["waiting"] for name in "abc"] == [3, 3, 4]


@pytest.mark.slow
@pytest.mark.parametrize("plugin", ["Coscheduling", "Gang"])
async def test_two_groups_that_hold_nine_of_eighteen_each(world: DeadlockCluster, plugin: str) -> None:
    """Groups of ten that miss one member each: the older is bound, the other gives up its nodes."""
    for number in range(3):
        world.node(f"n{number}", 6)
    world.schedule()
    for name in "ab":
        world.hold(name, 9, 1, plugin=plugin)
    for name in "ab":
        world.lack(name, 1)
    await world.settle()
    assert [world.states(name) for name in "ab"] == [{"waiting": 9, "pending": 1}] * 2
    await world.settle(SOON)
    assert world.states("a") == {"bound": 10}
    assert "bound" not in world.states("b")


async def test_a_group_and_a_gang_yield_to_each_other(world: DeadlockCluster) -> None:
    """One resolver serves both plugins: a group of Coscheduling yields to an older gang."""
    world.node("n", 18)
    world.schedule()
    world.hold("a", 9, 1, plugin="Gang")
    world.hold("b", 9, 1, plugin="Coscheduling")
    world.lack("a", 1)
    world.lack("b", 1)
    await world.settle(SOON)
    assert world.states("a") == {"bound": 10}
    assert any("yields to gang" in text for text in world.messages("b-hi"))


async def test_the_higher_priority_wins_though_it_is_younger(world: DeadlockCluster) -> None:
    """Priority counts before age, and a lower priority never makes a higher one yield."""
    world.node("n", 8)
    world.schedule()
    for name, priority in (("old", 5), ("new", 50)):
        world.group(name, 5)
        world.pods(name, 4, priority=priority)
    world.pods("old", 1, start=4, priority=5)
    world.pods("new", 1, start=4, priority=50)
    await world.settle(SOON)
    assert world.states("new") == {"bound": 5}
    assert world.bound("old") == 0


async def test_lower_rank_that_would_fit_does_not_win_over_a_higher_rank(world: DeadlockCluster) -> None:
    """A higher-ranked holder does not yield to a lower rank, although that would fit."""
    world.node("n", 4)
    world.schedule()
    world.cluster.add_pod("plain", requests={"cpu": "1"}, node_name="n")
    world.group("high", 4)
    world.pods("high", 4, priority=50)
    await world.settle()
    world.group("low", 2)
    world.pods("low", 2)
    await world.settle(30)
    assert world.states("high") == {"waiting": 3, "pending": 1}
    assert world.deadlocks.counts["yielded"] == 0
    world.cluster.delete_pod("plain")
    await world.settle(15)
    assert world.states("high") == {"bound": 4}


async def test_a_gated_member_keeps_a_holder_from_winning_but_not_from_yielding(world: DeadlockCluster) -> None:
    """A holder with a gated member cannot win, and yields to a group that can be complete."""
    world.node("n", 4)
    world.schedule()
    world.group("g", 4)
    world.pods("g", 3)
    world.pods("g", 1, start=3, scheduling_gates=["later"])
    await world.settle(SOON)
    assert world.states("g") == {"waiting": 3, "gated": 1}
    world.group("w", 2)
    world.pods("w", 2)
    await world.settle(SOON)
    assert world.states("w") == {"bound": 2}
    assert world.bound("g") == 0


async def test_nine_of_ten_held_for_ever_while_others_could_use_the_room(world: DeadlockCluster) -> None:
    """scheduler-plugins #713: the tenth member never fits, so the nine yield to a group that fits."""
    world.node("n", 9)
    world.schedule()
    world.group("ten", 10, plugin="Coscheduling")
    world.pods("ten", 10)
    await world.settle()
    assert world.states("ten") == {"waiting": 9, "pending": 1}
    world.group("three", 3, plugin="Coscheduling")
    world.pods("three", 3)
    await world.settle(SOON)
    assert world.states("three") == {"bound": 3}


async def test_without_post_filter_groups_yield_too(world: DeadlockCluster) -> None:
    """In a profile without PostFilter any holder may have to yield."""
    world.node("n", 8)
    world.schedule(disable={"postFilter": "Coscheduling"})
    for name in "ab":
        world.group(name, 6, plugin="Coscheduling")
        world.pods(name, 4, prefix=f"{name}-hi", priority=10)
    for name in "ab":
        world.pods(name, 2, prefix=f"{name}-lo")
    await world.settle()
    assert [world.states(name) for name in "ab"] == [{"waiting": 4, "pending": 2}] * 2
    await world.settle(SOON)
    assert world.states("a") == {"bound": 6}
    assert world.bound("b") == 0


async def test_gang_groups_yield_and_win_as_a_whole(world: DeadlockCluster) -> None:
    """A gang group is one contender."""
    world.node("n", 8)
    world.schedule()
    for names in (("a", "b"), ("c", "d")):
        listed = "[" + ",".join(f'"default/{name}"' for name in names) + "]"
        for name in names:
            world.group(name, 3, groups=listed)
            world.pods(name, 2, prefix=f"{name}-hi", priority=10)
    for name in "abcd":
        world.pods(name, 1, prefix=f"{name}-lo")
    await world.settle()
    assert [world.states(name) for name in "abcd"] == [{"waiting": 2, "pending": 1}] * 4
    await world.settle(SOON)
    assert [world.bound(name) for name in "abcd"] == [3, 3, 0, 0]
    assert any('yields to gang "default/a,default/b"' in text for text in world.messages("c-hi"))


async def test_bound_pods_are_never_evicted(world: DeadlockCluster) -> None:
    """Bound pods stay bound through several resolutions."""
    world.node("n", 6)
    world.schedule()
    world.cluster.add_pod("plain", requests={"cpu": "1"}, node_name="n")
    for name in "abc":
        world.group(name, 4)
        world.pods(name, 2 if name != "c" else 1, prefix=f"{name}-hi", priority=10)
    for name in "abc":
        world.pods(name, 2 if name != "c" else 3, prefix=f"{name}-lo")
    before: set[str] = set()
    for _ in range(20):
        await world.settle(2)
        assert before <= world.bound_pods()
        before = world.bound_pods()
    assert world.bound("a") == 4


async def test_a_holder_that_never_fits_yields_whatever_its_priority(world: DeadlockCluster) -> None:
    """A gang larger than the cluster neither wins nor blocks one that fits."""
    world.node("n", 10)
    world.schedule()
    world.group("x", 12)
    world.pods("x", 12, priority=100)
    await world.settle()
    assert world.states("x") == {"waiting": 10, "pending": 2}
    world.group("y", 4)
    world.pods("y", 4)
    await world.settle(SOON)
    assert world.states("y") == {"bound": 4}
    assert world.bound("x") == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["daemon", "static", "plain"])
async def test_never_fits_is_checked_on_a_cluster_with_daemons_only(world: DeadlockCluster, kind: str) -> None:
    """Daemons' and static pods count on the empty cluster; a plain pod does not."""
    world.node("n", 10)
    mirror = {"kubernetes.io/config.mirror": "1"} if kind == "static" else {}
    world.cluster.add_pod("other", requests={"cpu": "3"}, node_name="n", annotations=mirror)
    if kind == "daemon":
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
        world.cluster.patch(Pod, "other", {"metadata": {"ownerReferences": [owner]}}, namespace="default")
    world.schedule()
    world.group("x", 8)
    world.pods("x", 8, priority=10)
    await world.settle()
    assert world.states("x") == {"waiting": 7, "pending": 1}
    world.group("y", 2)
    world.pods("y", 2)
    await world.settle(SOON)
    # Of a higher priority, x gives way only because it is hopeless.
    assert world.bound("y") == (0 if kind == "plain" else 2)


@pytest.mark.parametrize(("aging", "winner"), [pytest.param(0, "new", id="off"), pytest.param(5, "old", id="on")])
async def test_aging_counts_waiting_as_priority(world: DeadlockCluster, aging: int, winner: str) -> None:
    """With `agingSeconds` a long wait raises the priority of a group."""
    world.node("n", 8)
    world.schedule(deadlock={"agingSeconds": aging})
    world.group("old", 5)
    world.pods("old", 4)
    world.pods("old", 1, start=4, scheduling_gates=["later"])
    await world.settle(60)
    world.cluster.patch(Pod, "old-4", {"spec": {"schedulingGates": None}}, namespace="default")
    world.group("new", 5)
    world.pods("new", 5, priority=3)
    await world.settle(SOON)
    assert world.bound(winner) == 5


@pytest.mark.slow
async def test_a_strict_gang_wins_and_never_yields(world: DeadlockCluster) -> None:
    """A Strict gang holds no nodes between its passes, so it can only win."""
    world.node("n", 9)
    world.schedule()
    world.group("loose", 10)
    world.pods("loose", 10)
    await world.settle()
    assert world.states("loose") == {"waiting": 9, "pending": 1}
    world.group("strict", 5, mode="Strict")
    world.pods("strict", 6)
    await world.settle(SOON)
    assert world.bound("strict") >= 5
    assert not any("yields" in text for text in world.messages("strict"))


async def test_other_groups_leave_the_room_to_the_winner(world: DeadlockCluster) -> None:
    """Plain pods of the same priority do not take the room that was freed for the winner."""
    world.node("n", 8)
    world.schedule()
    for number in range(6):
        world.cluster.add_pod(f"plain-{number}", requests={"cpu": "1"}, labels={"set": "plain"}, scheduling_gates=["x"])
    await world.settle(1)
    for name in "ab":
        world.group(name, 6)
        world.pods(name, 4, prefix=f"{name}-hi", priority=10)
    for name in "ab":
        world.pods(name, 2, prefix=f"{name}-lo")
    await world.settle()
    assert [world.states(name) for name in "ab"] == [{"waiting": 4, "pending": 2}] * 2
    for number in range(6):
        patch = {"spec": {"schedulingGates": None}}
        world.cluster.patch(Pod, f"plain-{number}", patch, namespace="default")
    await world.settle(SOON)
    assert world.states("a") == {"bound": 6}
    assert world.bound("plain") <= 2
    queue = world.running.scheduler.queue
    plain = [info for pod in world.cluster.pods() if pod.name.startswith("plain") and (info := queue.get(pod.uid))]
    assert not plain or max(info.attempts for info in plain) > 1, "what was given up has not woken them"


class Picky(FilterPlugin):
    """Lets pods labelled `doomed` fit wherever somebody only asks, and nowhere in earnest, until `mercy`."""

    name: ClassVar[str] = "Picky"
    mercy: ClassVar[bool] = False

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Refuse."""
        if "doomed" in pod.labels and state.trial is None and not self.mercy:
            return Status.unschedulable("no")
        return None


async def test_expired_lease_excludes_the_winner(world: DeadlockCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A winner that was not complete in time does not win again before room appears."""
    world.node("n", 8)
    world.schedule(enable=[Picky], deadlock={"yieldLeaseSeconds": 5})
    for name in "ab":
        world.group(name, 5)
        world.pods(name, 4, prefix=f"{name}-hi", priority=10)
    world.pods("a", 1, prefix="a-lo", extra_labels={"doomed": ""})
    world.pods("b", 1, prefix="b-lo")
    await world.settle(GRACE + 1)
    page = world.page("a")
    assert page["deadlockState"].startswith("Winner")
    page = world.page("b")
    assert (page["deadlockState"], page["yieldCount"]) == ("Yielded to default/a for 5 s", 1) or page[
        "deadlockState"
    ].startswith("Yielded to default/a")
    assert world.states("b") == {"pending": 5}
    assert world.running.scheduler.queue.nominator.nodes or world.states("a") == {"waiting": 4, "pending": 1}
    await world.settle(5)
    assert (world.deadlocks.counts["expired"], world.deadlocks.counts["excluded"]) == (1, 1)
    assert world.page("a")["deadlockState"] == "Excluded"
    assert not world.running.scheduler.queue.nominator.nodes
    await world.settle(15)
    assert world.states("b") == {"bound": 5}
    assert world.page("a")["yieldCount"] == 1
    monkeypatch.setattr(Picky, "mercy", True)
    for number in range(4):
        world.cluster.delete_pod(f"b-hi-{number}")
    await world.settle(15)
    assert world.states("a") == {"bound": 5}


async def test_yielded_group_is_refused_during_the_lease(world: DeadlockCluster) -> None:
    """A member that is tried during the lease gets a message with the winner."""
    world.node("n", 8)
    world.schedule(enable=[Picky], deadlock={"yieldLeaseSeconds": 20})
    for name in "ab":
        world.group(name, 5)
        world.pods(name, 4, prefix=f"{name}-hi", priority=10)
    world.pods("a", 1, prefix="a-lo", extra_labels={"doomed": ""})
    world.pods("b", 1, prefix="b-lo")
    await world.settle(GRACE + 1)
    world.pods("b", 1, start=9)
    await world.settle(10)
    assert any('gang "default/b" has yielded to gang "default/a"' in text for text in world.messages("b-9"))
    assert world.annotated() == set()


async def test_a_winner_that_is_deleted_ends_the_lease(world: DeadlockCluster) -> None:
    """The groups that yielded are retried at once, and no winner is excluded."""
    world.node("n", 8)
    world.schedule(enable=[Picky])
    for name in "ab":
        world.group(name, 5)
        world.pods(name, 4, prefix=f"{name}-hi", priority=10)
    world.pods("a", 1, prefix="a-lo", extra_labels={"doomed": ""})
    world.pods("b", 1, prefix="b-lo")
    await world.settle(GRACE + 1)
    world.cluster.delete_pod("a-lo-0")
    await world.settle(15)
    assert world.states("b") == {"bound": 5}
    assert (world.deadlocks.counts["expired"], world.deadlocks.counts["excluded"]) == (0, 0)


async def test_unsolvable_deadlock_is_tried_once(world: DeadlockCluster) -> None:
    """If no group can be complete, holders keep their nodes, and the search is not repeated."""
    world.node("n", 8)
    world.schedule()
    for name in "ab":
        world.group(name, 9)
        world.pods(name, 4, prefix=f"{name}-hi", priority=10)
    for name in "ab":
        world.pods(name, 5, prefix=f"{name}-lo")
    await world.settle(60)
    assert [world.states(name) for name in "ab"] == [{"waiting": 4, "pending": 5}] * 2
    assert world.deadlocks.counts["resolved"] == 0


async def test_deadlock_across_two_profiles_is_resolved(world: DeadlockCluster) -> None:
    """One resolver serves all profiles."""
    world.node("n", 8)
    world.schedule(profiles=("pyscheduler", "second"))
    for name, profile in (("a", "pyscheduler"), ("b", "second")):
        world.group(name, 5)
        world.pods(name, 4, prefix=f"{name}-hi", priority=10, scheduler_name=profile)
    world.pods("a", 1, prefix="a-lo")
    world.pods("b", 1, prefix="b-lo", scheduler_name="second")
    await world.settle(SOON)
    assert world.states("a") == {"bound": 5}
    assert any("yields" in text for text in world.messages("b-hi"))


async def test_restart_begins_a_new_grace_time(world: DeadlockCluster) -> None:
    """After a restart the order of winners is rebuilt from when pods were created."""
    world.node("n", 8)
    first = world.schedule(deadlock={"enabled": False})
    world.group("old", 5)
    world.pods("old", 4)
    world.pods("old", 1, start=4, priority=-1)
    await world.settle(10)
    world.group("new", 5)
    world.pods("new", 5)
    await world.settle(1)
    await first.close()
    world.schedule()
    await world.settle(SOON)
    assert world.states("old") == {"bound": 5}

"""The cache: pods are assumed, confirmed, corrected, forgotten; nodes and pods come and go in any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from pyscheduler.api import QuantityError
from pyscheduler.cache.errors import CacheError
from pyscheduler.framework import NodeInfo, PodInfo, PySchedulerError
from pyscheduler.testing.builders import make_node
from tests.malformed import bad_node

if TYPE_CHECKING:
    from tests.cache.conftest import World


TERMS = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {}, "topologyKey": "zone"}]
    }
}


def on(world: World, name: str) -> list[str] | None:
    """Return the names of the pods on a node, None when no snapshot would have it."""
    info = world.update().get(name)
    return None if info is None else sorted(pod.pod.name for pod in info.pods)


# Pods


@pytest.mark.parametrize(
    ("changes", "is_news"),
    [
        pytest.param({"resource_version": "9"}, False, id="version"),
        pytest.param({"resource_version": "9", "labels": {"zone": "1"}}, True, id="labels"),
        pytest.param({"annotations": {"who": "me"}}, True, id="annotations"),
        pytest.param({"deletion_timestamp": "2026-01-01T00:00:00Z"}, True, id="deletion"),
    ],
)
def test_an_echo_is_no_news(world: World, changes: dict[str, object], *, is_news: bool) -> None:
    """The echo of a binding leaves the generation alone, unless something came with it that plugins look at."""
    world.node("a")
    assumed = world.assumed("p", "a", requests={"cpu": "1"})
    world.update()
    before = world.cache.generation
    pod = replace(assumed.pod, metadata=replace(assumed.pod.metadata, **changes))
    echo = assumed.with_pod(pod)
    world.cache.add_pod(echo)
    assert (world.cache.generation > before) is is_news
    assert not world.cache.is_assumed("uid-p")
    assert world.cache.get_pod("uid-p") is echo
    info = world.update().get("a")
    assert info is not None
    (seen,) = info.pods
    assert seen is (echo if is_news else assumed)
    assert world.snapshot.nodes.requested("cpu").tolist() == [1000]
    world.cache.check_invariants()


def test_an_echo_puts_the_pod_last(world: World) -> None:
    """Pods stand in the order in which they would after a removal and an addition; snapshots see it at once."""
    world.node("a")
    pods = [world.assumed(name, "a", affinity=TERMS if name != "q" else None) for name in "pqr"]
    world.update()
    world.cache.add_pod(pods[0].with_pod(pods[0].pod))
    info = world.update().get("a")
    assert info is not None
    assert [pod.pod.name for pod in info.pods] == ["r", "q", "p"]
    assert [pod.pod.name for pod in info.pods_with_affinity] == ["r", "p"]
    assert [pod.pod.name for pod in info.pods_with_required_anti_affinity] == ["r", "p"]
    world.cache.check_invariants()


def test_the_informer_corrects_an_assumption(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A pod that was bound elsewhere moves there; nothing of it stays behind."""
    world.node("a")
    world.node("b")
    world.assumed("p", "a", requests={"cpu": "1"}, host_ports=[80])
    world.update()
    world.bound("p", "b", requests={"cpu": "1"}, host_ports=[80])
    assert (on(world, "a"), on(world, "b")) == ([], ["p"])
    assert world.snapshot.nodes.requested("cpu").tolist() == [0, 1000]
    assert world.snapshot.nodes.host_port_conflicts("0.0.0.0", "TCP", 80).tolist() == [1]
    assert caplog.messages == ["Pod was bound to another node than assumed pod=default/p node=b assumed_node=a"]
    assert not world.cache.is_assumed("uid-p")


def test_a_forgotten_pod_leaves_no_trace(world: World) -> None:
    """Forgetting gives back all that assuming took, and forgetting again does nothing."""
    world.node("a")
    info = world.assumed("p", "a", requests={"cpu": "1"})
    world.update()
    world.cache.forget_pod(info.pod)
    world.cache.forget_pod(info.pod)
    assert on(world, "a") == []
    assert world.snapshot.nodes.requested("cpu").tolist() == [0]
    assert (world.cache.pod_count, world.cache.get_pod("uid-p")) == (0, None)


def test_a_pod_is_removed_from_the_node_it_is_known_on(world: World) -> None:
    """The last state that a relist found may lack the node, or name another one; only the latter is strange."""
    world.node("a")
    for number, node_name in enumerate(["", "b"]):
        world.bound("p", "a")
        world.cache.remove_pod(world.pod("p", node_name).pod)
        assert on(world, "a") == []
        assert world.warnings.counts["pod_changed_node"] == number


def test_a_pod_that_changes_its_node_moves(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The API forbids it; the cache follows, and says that something is wrong."""
    world.node("a")
    world.node("b")
    old = world.bound("p", "a")
    world.cache.update_pod(old.pod, world.pod("p", "b"))
    assert (on(world, "a"), on(world, "b")) == ([], ["p"])
    assert world.warnings.counts["pod_changed_node"] == 1
    assert caplog.messages == ["Pod changed its node pod=default/p node=b known_node=a"]


def assume_known(world: World, info: PodInfo) -> None:
    """Assume a pod that is there."""
    world.cache.assume_pod(info)


def add_again(world: World, info: PodInfo) -> None:
    """Add a pod that is there and bound."""
    world.cache.add_pod(info)


def update_unknown(world: World, info: PodInfo) -> None:
    """Update a pod that was never added."""
    world.cache.update_pod(world.pod("unknown", "a").pod, world.pod("unknown", "a"))


def update_assumed(world: World, info: PodInfo) -> None:
    """Update a pod before its binding was reported."""
    assumed = world.assumed("assumed", "a")
    world.cache.update_pod(assumed.pod, assumed)


def update_to_nowhere(world: World, info: PodInfo) -> None:
    """Update a pod to a version without a node."""
    world.cache.update_pod(info.pod, world.pod("p"))


def remove_unknown(world: World, info: PodInfo) -> None:
    """Remove a pod that was never added."""
    world.cache.remove_pod(world.pod("unknown", "a").pod)


def forget_bound(world: World, info: PodInfo) -> None:
    """Forget a pod that the API server reported bound."""
    world.cache.forget_pod(info.pod)


def forget_elsewhere(world: World, info: PodInfo) -> None:
    """Forget a pod on a node where it is not assumed."""
    world.assumed("assumed", "a")
    world.cache.forget_pod(world.pod("assumed", "b").pod)


def assume_nowhere(world: World, info: PodInfo) -> None:
    """Assume a pod without a node."""
    world.cache.assume_pod(world.pod("new"))


def add_nowhere(world: World, info: PodInfo) -> None:
    """Confirm an assumption with a pod that has no node."""
    world.assumed("assumed", "a")
    world.cache.add_pod(world.pod("assumed"))


def remove_unknown_node(world: World, info: PodInfo) -> None:
    """Remove a node that was never added."""
    world.cache.remove_node(make_node("unknown"))


def remove_ghost(world: World, info: PodInfo) -> None:
    """Remove a node that is known through its pods only."""
    world.bound("early", "ghost")
    world.cache.remove_node(make_node("ghost"))


@pytest.mark.parametrize(
    ("act", "message"),
    [
        pytest.param(assume_known, "pod default/p is in the cache, so it cannot be assumed", id="assume known"),
        pytest.param(add_again, "pod default/p is in the cache already", id="add again"),
        pytest.param(update_unknown, "pod default/unknown is not in the cache, so it cannot be updated", id="update"),
        pytest.param(
            update_assumed, "pod default/assumed is assumed, so it should be added before it is updated", id="too early"
        ),
        pytest.param(update_to_nowhere, "pod default/p has no node, so it cannot be in the cache", id="node vanishes"),
        pytest.param(remove_unknown, "pod default/unknown is not in the cache, so it cannot be removed", id="remove"),
        pytest.param(forget_bound, "pod default/p is bound, so it cannot be forgotten", id="forget bound"),
        pytest.param(
            forget_elsewhere, "pod default/assumed is to be forgotten on node b but is on node a", id="forget elsewhere"
        ),
        pytest.param(assume_nowhere, "pod default/new has no node, so it cannot be in the cache", id="no node"),
        pytest.param(add_nowhere, "pod default/assumed has no node, so it cannot be in the cache", id="lost node"),
        pytest.param(
            remove_unknown_node, "node unknown is not in the cache, so it cannot be removed", id="no such node"
        ),
        pytest.param(remove_ghost, "node ghost is not in the cache, so it cannot be removed", id="ghost"),
    ],
)
def test_contradictions_are_reported(world: World, act: Callable[[World, PodInfo], None], message: str) -> None:
    """A call that contradicts what is known raises one line that names the culprit, and changes nothing of it."""
    world.node("a")
    world.node("b")
    info = world.bound("p", "a")
    with pytest.raises(CacheError) as caught:
        act(world, info)
    assert str(caught.value) == message
    assert isinstance(caught.value, PySchedulerError)
    assert on(world, "a") in (["p"], ["assumed", "p"])


def test_a_pod_without_uid_is_refused(world: World) -> None:
    """Pods are told apart by uid."""
    info = world.pod("p", "a")
    nameless = info.with_pod(type(info.pod)(spec=info.pod.spec))
    with pytest.raises(CacheError, match="has no uid"):
        world.cache.add_pod(nameless)
    assert world.cache.pod_count == 0


# Nodes


def test_a_node_that_cannot_be_read_changes_nothing(world: World) -> None:
    """Its amounts are refused with an error; the version known before stays, and a new node stays unknown."""
    world.node("a", allocatable={"cpu": "2"}, images={"red:1": 1})
    world.bound("p", "a")
    for name in ("a", "b"):
        with pytest.raises(QuantityError):
            world.cache.add_node(bad_node(name, {"cpu": "much"}, images={"blue:1": 1}))
    assert on(world, "a") == ["p"]
    assert on(world, "b") is None
    assert world.snapshot.nodes.allocatable("cpu").tolist() == [2000]
    assert world.snapshot.nodes.image("blue:1") is None


def test_callers_get_a_copy_of_the_node(world: World) -> None:
    """What they do to it does not reach the cache."""
    returned = world.cache.add_node(make_node("a"))
    assert isinstance(returned, NodeInfo)
    returned.add_pod(world.pod("p", "a"))
    assert on(world, "a") == []


# Snapshots


def test_several_snapshots_follow_one_cache(world: World, picture: Callable[..., dict[str, object]]) -> None:
    """Each is brought up to date from where it stands."""
    other = world.fresh()
    for name in ("a", "b", "c"):
        world.node(name)
    world.update()
    world.cache.remove_node(make_node("a"))
    world.bound("p", "b")
    world.cache.update_snapshot(other)
    world.cache.remove_node(make_node("c"))
    world.update()
    world.cache.update_snapshot(other)
    assert picture(other) == picture(world.snapshot) == picture(world.fresh())
    assert [info.name for info in other.nodes] == ["b"]


def test_a_snapshot_that_slept_through_many_removals_catches_up(world: World) -> None:
    """The log of removals is bounded; a snapshot that is older than the log is compared name by name."""
    world.node("stays")
    world.node("goes")
    late = world.fresh()
    world.cache.remove_node(make_node("goes"))
    for number in range(1100):
        world.cache.remove_node(world.node(f"n{number}"))
    assert len(world.cache._removals) < 1100
    world.cache.update_snapshot(late)
    assert [info.name for info in late.nodes] == ["stays"]


def test_rows_stand_in_the_order_in_which_nodes_came(world: World) -> None:
    """Pods that came in between do not matter."""
    for name in "abcd":
        world.node(name)
    world.bound("p", "a")
    world.bound("q", "c")
    assert [info.name for info in world.update().nodes] == ["a", "b", "c", "d"]


def test_the_dump_is_plain_data(world: World) -> None:
    """It says what is on each node, gone ones included, and which pods are assumed."""
    world.node("a", allocatable={"cpu": "2", "memory": "1Ki", "pods": "3"})
    world.bound("p", "a", requests={"cpu": "1", "example.com/gpu": "1"})
    world.assumed("q", "b")
    amounts = {"cpu": 0, "memory": 0, "ephemeral-storage": 0}
    assert list(world.cache.dump()) == [
        {
            "node": "a",
            "deleted": False,
            "requested": amounts | {"cpu": 1000, "example.com/gpu": 1},
            "allocatable": {"cpu": 2000, "memory": 1024, "ephemeral-storage": 0, "example.com/gpu": 0, "pods": 3},
            "pods": ["default/p"],
            "assumed": [],
        },
        {
            "node": "b",
            "deleted": True,
            "requested": amounts,
            "allocatable": amounts | {"pods": 0},
            "pods": ["default/q"],
            "assumed": ["default/q"],
        },
    ]
    assert world.cache.node_names() == {"a"}
    assert sorted(world.cache.pod_keys().values()) == ["default/p", "default/q"]


def test_a_dump_bears_changes(world: World) -> None:
    """It is taken in pieces: what goes meanwhile is left out."""
    for name in "abc":
        world.node(name)
    dump = world.cache.dump()
    assert next(dump)["node"] == "a"
    world.cache.remove_node(make_node("b"))
    assert [each["node"] for each in dump] == ["c"]

"""Volcano's `subGroupPolicy`: sub-groups are placed whole, and the job starts with enough of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from pyscheduler.testing import FakeCluster, VirtualClock

POLICY: dict[str, Any] = {"name": "tp", "matchLabelKeys": ["slice"], "subGroupSize": 4, "minSubGroups": 2}


def members(volcano: Any, counts: Mapping[str, int], *, start: int = 0, **keywords: Any) -> None:
    """Create pods of the job g: of each value of the label `slice` so many, in turn."""
    keywords.setdefault("requests", {"cpu": "1"})
    for number in range(start, start + max(counts.values())):
        for value, count in counts.items():
            if number - start < count:
                labels = {"slice": value} if value else {}
                volcano.cluster.add_pod(
                    f"s{value}-{number}",
                    labels=labels,
                    annotations={"scheduling.k8s.io/group-name": "g"},
                    scheduler_name="batch",
                    **keywords,
                )


def bound(volcano: Any) -> Mapping[str, int]:
    """Count the bound pods by slice."""
    return Counter(pod.name.partition("-")[0] for pod in volcano.cluster.pods() if pod.node_name)


def message(volcano: Any, name: str) -> str:
    """Return the message of a pod's condition."""
    pod = next(pod for pod in volcano.cluster.pods() if pod.name == name)
    return next(each.message for each in pod.status.conditions if each.type == "PodScheduled")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("cpus", "expected"),
    [(7, {}), (8, {"s0": 4, "s1": 4}), (11, {"s0": 4, "s1": 4}), (12, {"s0": 4, "s1": 4, "s2": 4})],
)
async def test_sub_groups_are_bound_whole(volcano: Any, cpus: int, expected: Mapping[str, int]) -> None:
    """Two of three sub-groups of four start the job; the third one starts whole or not at all."""
    volcano.nodes(1, cpu=str(cpus))
    volcano.queue("default")
    await volcano.start()
    volcano.group("g", "default", 8, subGroupPolicy=[POLICY])
    members(volcano, {"0": 4, "1": 4, "2": 4})
    await volcano.pass_time()
    assert bound(volcano) == expected
    if not expected:
        text = "Sub-groups without nodes for their size: tp: 1 of 2 sub-groups (tp/1 0/4, tp/2 0/4)"
        assert text in message(volcano, "s0-0")


async def test_a_job_with_too_few_sub_groups_is_not_valid(volcano: Any) -> None:
    """Enough pods in one sub-group do not help; the second sub-group starts the job."""
    volcano.nodes(1, cpu="16")
    volcano.queue("default")
    await volcano.start()
    volcano.group("g", "default", 4, subGroupPolicy=[POLICY])
    members(volcano, {"0": 6})
    await volcano.pass_time()
    assert not bound(volcano)
    assert "Not enough valid subGroups of each task for gang-scheduling" in message(volcano, "s0-0")
    assert volcano.group_status("g")["phase"] == "Inqueue"
    members(volcano, {"1": 4})
    await volcano.pass_time()
    assert bound(volcano) == {"s0": 6, "s1": 4}


async def test_pods_that_no_policy_matches_are_placed_one_by_one(volcano: Any) -> None:
    """They come after the sub-groups that the job needs."""
    volcano.nodes(1, cpu="9")
    volcano.queue("default")
    await volcano.start()
    volcano.group("g", "default", 8, subGroupPolicy=[POLICY])
    members(volcano, {"": 3, "0": 4, "1": 4})
    await volcano.pass_time()
    assert bound(volcano) == {"s0": 4, "s1": 4, "s": 1}


async def test_a_sub_group_with_a_small_room_leaves_it_to_another(volcano: Any) -> None:
    """A sub-group whose pods are too large gives up what it took, and the others start."""
    volcano.nodes(2, cpu="5")
    volcano.queue("default")
    await volcano.start()
    volcano.group("g", "default", 8, subGroupPolicy=[POLICY])
    members(volcano, {"0": 4}, requests={"cpu": "3"})
    members(volcano, {"1": 4, "2": 4})
    await volcano.pass_time()
    assert bound(volcano) == {"s1": 4, "s2": 4}


async def test_a_replaced_member_completes_its_sub_group(volcano: Any) -> None:
    """A sub-group that lost a pod gets the new one; the others stay."""
    volcano.nodes(1, cpu="8")
    volcano.queue("default")
    await volcano.start()
    volcano.group("g", "default", 8, subGroupPolicy=[POLICY])
    members(volcano, {"0": 4, "1": 4})
    await volcano.pass_time()
    volcano.cluster.delete_pod("s1-2")
    await volcano.pass_time()
    members(volcano, {"1": 1}, start=9)
    await volcano.pass_time()
    assert bound(volcano) == {"s0": 4, "s1": 4}


STEPS = st.one_of(
    st.tuples(st.just("pods"), st.sampled_from("0123"), st.integers(1, 4)),
    st.tuples(st.just("pods"), st.sampled_from("0123"), st.integers(1, 4)),
    st.tuples(st.just("delete"), st.sampled_from("0123"), st.integers(0, 9)),
    st.tuples(st.just("node"), st.just(""), st.integers(1, 5)),
)


@pytest.mark.slow
def test_no_sub_group_starts_in_part_in_any_history(volcano: Any) -> None:
    """Whatever comes and goes, pods are bound in sub-groups that have their size, and only if two of them do."""
    fired: Counter[str] = Counter()

    @settings(max_examples=settings.default.max_examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps=st.lists(STEPS, min_size=6, max_size=14))
    def run(steps: list[tuple[str, str, int]]) -> None:
        asyncio.run(live(type(volcano)(FakeCluster(clock=VirtualClock()), "volcano"), steps, fired))

    run()
    assert fired["started"]
    assert fired["waited"]


async def live(volcano: Any, steps: list[tuple[str, str, int]], fired: Counter[str]) -> None:
    """Play a history, and check after each step what was bound in it."""
    volcano.nodes(1, cpu="6")
    volcano.queue("default")
    await volcano.start()
    volcano.group("g", "default", 8, subGroupPolicy=[POLICY])
    members(volcano, {"0": 4, "1": 3})
    known: set[str] = set()
    for number, (what, value, count) in enumerate(steps, start=1):
        pods = sorted(pod.name for pod in volcano.cluster.pods() if pod.name.startswith(f"s{value}-"))
        if what == "pods":
            members(volcano, {value: count}, start=10 * number)
        elif what == "node":
            volcano.cluster.add_node(f"m{number}", allocatable={"cpu": str(count), "memory": "64Gi", "pods": "110"})
        elif pods:
            volcano.cluster.delete_pod(pods[count % len(pods)])
        await volcano.pass_time()
        placed = {pod.uid: pod.name.partition("-")[0] for pod in volcano.cluster.pods() if pod.node_name}
        counts = Counter(placed.values())
        fresh = {name for uid, name in placed.items() if uid not in known}
        assert all(counts[name] >= POLICY["subGroupSize"] for name in fresh), counts
        whole = sum(size >= POLICY["subGroupSize"] for size in counts.values())
        assert not fresh or whole >= POLICY["minSubGroups"], counts
        fired["started" if fresh else "waited"] += 1
        known = set(placed)
    await volcano.cluster.close()

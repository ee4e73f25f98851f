"""Whom a PodGroup preempts, on random clusters: as if units were given back one by one."""

from __future__ import annotations

import random
from collections.abc import Iterable

import attrs
import pytest

from pyscheduler.testing import FakeCluster
from tests.scheduler.in_tree_groups import members, named, states
from tests.scheduler.test_group_preemption import GATES, member_of, notes, pod_group


@attrs.define
class Unit:
    """Pods that are evicted together, each of one core."""

    key: tuple[int, bool, int]
    pods: list[str] = attrs.Factory(list)


def evicted_one_by_one(units: Iterable[Unit], free: int, wanted: int) -> set[str]:
    """Return the pods that a search evicts which puts back unit by unit; `free` in cores."""
    room = free + sum(len(unit.pods) for unit in units)
    victims: set[str] = set()
    for unit in sorted(units, key=lambda unit: unit.key):
        if wanted <= room - len(unit.pods):
            room -= len(unit.pods)
        else:
            victims |= set(unit.pods)
    return victims if wanted <= room else set()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("counts", [True, False], ids=["places are counted", "places are tried"])
@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(6, 18))])
async def test_random_clusters_against_a_search_unit_by_unit(cluster: FakeCluster, seed: int, counts: bool) -> None:
    """Counting places, and trying several units at a time, leave the victims that trying single ones leaves."""
    rng = random.Random(seed)
    framework = cluster.framework(feature_gates=GATES)
    # All priorities differ: kube-scheduler orders equal units at random.
    priorities = iter(rng.sample(range(1, 300), 100))
    groups = {f"v{number}": (next(priorities), rng.random() < 0.6) for number in range(rng.randrange(1, 5))}
    for name, (priority, whole) in groups.items():
        pod_group(cluster, name, priority=priority, minimum=1, whole=whole)
    units: dict[str, Unit] = {}
    free = 0
    for number in range(rng.randrange(2, 7)):
        cores = rng.randrange(2, 9)
        cluster.add_node(f"n{number}", allocatable={"cpu": str(cores)})
        for core in range(cores):
            if rng.random() < 0.1:
                free += 1
                continue
            name, group, priority = f"p{number}-{core}", rng.choice(["", *groups]), next(priorities)
            spec = member_of(group) if group else {"terminationGracePeriodSeconds": 0}
            cluster.add_pod(name, requests={"cpu": "1"}, priority=priority, node_name=f"n{number}", spec=spec)
            whole = bool(group) and groups[group][1]
            counted = groups[group][0] if whole else priority
            if counted < 150:
                units.setdefault(group if whole else name, Unit((-counted, not group, 0))).pods.append(name)
    count = free + rng.randrange(1, 12)
    expected = evicted_one_by_one(units.values(), free, count)
    pod_group(cluster, "g", priority=150, minimum=count)
    members(cluster, "g", count - 1, priority=150)
    # Places are counted for members that are alike, which one whose CPU is written in another way is not.
    members(cluster, "g", 1, start=count - 1, cpu="1" if counts else "1000m", priority=150)
    await framework.settle()
    await cluster.clock.advance(15)
    assert set(notes(cluster)) == expected
    assert states(framework, named("g", count)) == {"bound" if expected else "pending": count}
    cluster.assert_invariants()

"""How many gangs of unlike members find their places in one order, in two, and in the best of all orders."""

from __future__ import annotations

import asyncio
import random

import attrs
import pytest

from pyscheduler.scheduler.in_tree_groups import InTreeGroups
from pyscheduler.testing import FakeCluster
from tests.scheduler.in_tree_groups import GATES, group, serve_groups
from tests.scheduler.test_group_cycle import zone_affinity


@attrs.frozen
class Gang:
    """Nodes (name, zone, cores), and members (cores, zone or "", whether the zone is required)."""

    nodes: list[tuple[str, str, int]]
    members: list[tuple[int, str, bool]]

    @classmethod
    def draw(cls, rng: random.Random, *, sizes: bool, zones: bool) -> Gang:
        """Return a gang of two to five members that differ in size, in the zones that they want, or in both."""
        nodes = [(f"n{number}", rng.choice("ab"), rng.randrange(2, 9)) for number in range(rng.randrange(2, 5))]
        members = []
        for _ in range(rng.randrange(2, 6)):
            cores = rng.randrange(1, 6) if sizes else 2
            zone, required = rng.choice((("", False), ("a", True), ("b", True), ("a", False), ("b", False)))
            members.append((cores, zone if zones else "", required))
        return cls(nodes, members)

    def fits(self) -> bool:
        """Tell whether some assignment places all members."""
        free = {name: cores for name, _, cores in self.nodes}

        def place(left: list[tuple[int, str, bool]]) -> bool:
            if not left:
                return True
            (cores, zone, required), *rest = left
            for name, where, _ in self.nodes:
                if free[name] >= cores and not (required and zone and zone != where):
                    free[name] -= cores
                    if place(rest):
                        return True
                    free[name] += cores
            return False

        return place(self.members)

    async def is_bound(self, *, tries_again: bool) -> bool:
        """Tell whether a scheduler binds the gang at once."""
        cluster = FakeCluster(seed=1)
        serve_groups(cluster)
        for name, zone, cores in self.nodes:
            cluster.add_node(name, allocatable={"cpu": str(cores)}, labels={"zone": zone})
        framework = cluster.framework(feature_gates=GATES)
        (in_tree,) = (each for each in framework.scheduler.writers if isinstance(each, InTreeGroups))
        in_tree.tries_again = tries_again
        group(cluster, "g", minimum=len(self.members))
        await framework.settle()
        for number, (cores, zone, required) in enumerate(self.members):
            affinity = {"affinity": zone_affinity(zone, required=required)} if zone else {}
            spec = {"schedulingGroup": {"podGroupName": "g"}, **affinity}
            cluster.add_pod(f"g{number}", requests={"cpu": str(cores)}, spec=spec)
        await framework.settle()
        bound = [framework.result(f"g{number}").bound for number in range(len(self.members))]
        await cluster.close()
        assert all(bound) or not any(bound), "a gang is partial"
        return all(bound)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("sizes", "zones", "expected"),
    [
        pytest.param(True, False, (9, 7, 9), id="sizes"),
        pytest.param(False, True, (13, 12, 12), id="zones"),
        pytest.param(True, True, (6, 5, 6), id="both"),
    ],
)
def test_the_second_order_places_most_gangs_that_the_first_does_not(
    sizes: bool, zones: bool, expected: tuple[int, int, int]
) -> None:
    """Of 16 gangs: those that fit at all, those bound in the first order, and those bound in either."""
    rng = random.Random(7)
    gangs = [Gang.draw(rng, sizes=sizes, zones=zones) for _ in range(16)]
    fitting = [gang for gang in gangs if gang.fits()]
    once, twice = (
        sum(asyncio.run(gang.is_bound(tries_again=tries_again)) for gang in fitting) for tries_again in (False, True)
    )
    assert (len(fitting), once, twice) == expected

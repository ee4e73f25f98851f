"""Rows of third parties: offered by a hook, imported when `PodGrouper` is enabled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
import pytest

from plugins.podgrouper.tests.conftest import CONFIG
from plugins.podgrouper.tests.workloads import item, pod
from pyscheduler.api import Pod
from pyscheduler.framework import ConfigError, PluginError
from pyscheduler.framework.hooks import PluginRegistry
from pyscheduler.podgroup import GroupObject
from pyscheduler.runtime.assembly.registry import Registry
from pyscheduler.testing import FakeCluster, FakeFramework
from pyscheduler_podgrouper.contract import Grouper, GroupPlan, Lookup, Owner
from pyscheduler_podgrouper.generic import generic
from pyscheduler_podgrouper.kinds import PODGROUPS, kinds_of_row


def two(top: Owner, chain: Sequence[Owner], member: Pod, lookup: Lookup) -> GroupPlan:
    """Return a group of two members."""
    return attrs.evolve(generic(top, chain, member, lookup), min_member=2)


def broken(*_: object) -> GroupPlan:
    """Fail as a rule with a mistake does."""
    raise ZeroDivisionError("no parts")


ROW: Final = Grouper(group="acme.example", kind="Duo", plural="duos", versions=("v1",), rule=two)
BROKEN: Final = Grouper(group="acme.example", kind="Solo", plural="solos", versions=("v1",), rule=broken)
CLASH: Final = Grouper(group="batch", kind="Job", plural="jobs", versions=("v1",), rule=two)
NONE: Final = "no row"


def make(cluster: FakeCluster, *names: str) -> FakeFramework:
    """Return a scheduler whose registry has these rows of this module."""

    def offer(registry: PluginRegistry) -> None:
        for name in names:
            registry.add_grouper(name, f"{__name__}:{name}")

    return cluster.framework(config=CONFIG % ("{name: PodGrouper}", "{}"), register=offer)


async def test_a_kind_of_a_third_party_is_grouped_by_its_rule(pyscheduler_cluster: FakeCluster) -> None:
    """Its kind is watched; a rule that fails is a failure of the pod, and the others are grouped."""
    cluster = pyscheduler_cluster
    for kind in (PODGROUPS, *kinds_of_row(ROW), *kinds_of_row(BROKEN)):
        cluster.serve(kind)
    await make(cluster, "ROW", "BROKEN").start()
    for name, kind in (("duo", "Duo"), ("solo", "Solo")):
        owner = cluster.server.add(item("acme.example/v1", kind, name))[0]
        spec = {"containers": [{"name": "c", "image": "i"}]}
        cluster.server.add(pod(name, owner, spec=spec))
    await cluster.clock.advance(0.5)
    (group,) = cluster.objects(PODGROUPS.type)
    assert isinstance(group, GroupObject)
    assert (group.name.startswith("pg-duo-"), group.spec.min_member) == (True, 2)
    (event,) = cluster.events("PodGrouperWarning")
    assert event["note"] == "the rule failed: ZeroDivisionError: no parts"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("NONE", r"is not a pyscheduler_podgrouper\.contract\.Grouper", id="no row"),
        pytest.param("MISSING", "cannot be imported", id="not there"),
        pytest.param("CLASH", "there are two rules for batch/v1 Job; remove one of them", id="a kind of ours"),
    ],
)
def test_a_row_that_cannot_be_used_is_a_mistake_of_the_configuration(
    pyscheduler_cluster: FakeCluster, name: str, said: str
) -> None:
    """The message names the row, its distribution and what is wrong."""
    with pytest.raises(ConfigError, match=said) as caught:
        make(pyscheduler_cluster, name)
    assert len(str(caught.value).splitlines()) == 1


def test_two_offers_of_one_name_are_refused() -> None:
    """The same offer again changes nothing."""
    registry = Registry()
    registry.add_grouper("duo", "acme.rows:ROW")
    registry.add_grouper("duo", "acme.rows:ROW")
    with pytest.raises(PluginError, match='"duo" is offered by this program already'):
        registry.add_grouper("duo", "other.rows:ROW")

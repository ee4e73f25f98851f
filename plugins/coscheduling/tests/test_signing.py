"""Signatures of pods in profiles with this plugin."""

from __future__ import annotations

from typing import Any


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

"""A plugin schedules the pods of its profile by a source of work of its own."""

from __future__ import annotations

import random
from typing import Any, ClassVar

import pytest

from pyscheduler.api import Pod
from pyscheduler.framework import ConfigError, PreEnqueuePlugin
from pyscheduler.framework.work_sources import WorkSourcePlugin
from pyscheduler.scheduler.work import Work
from pyscheduler.testing import FakeCluster, make_pod


class Shelf:
    """Holds the pods of a profile and has no work: nothing of them is ever bound."""

    has_work = False

    def __init__(self, profile: str) -> None:
        self.held_profiles = (profile,)

    def next(self) -> Work | None:
        return None


class OwnWork(PreEnqueuePlugin, WorkSourcePlugin):
    """Adds a shelf."""

    shelves: ClassVar[list[Shelf]] = []

    def pre_enqueue(self, pod: Pod) -> None:
        return None

    def add_work_source(self, scheduler: Any, profile: Any, rng: random.Random) -> None:
        shelf = Shelf(profile.name)
        self.shelves.append(shelf)
        scheduler.add_source(shelf)


class OtherWork(OwnWork):
    """Does the same."""


class NoWork(PreEnqueuePlugin, WorkSourcePlugin):
    """Cannot have a source."""

    def pre_enqueue(self, pod: Pod) -> None:
        return None

    def add_work_source(self, scheduler: Any, profile: Any, rng: random.Random) -> None:
        raise ConfigError("no source today @ $.profiles")


async def test_the_source_of_a_plugin_is_added_once(cluster: FakeCluster) -> None:
    """It is among the sources of the scheduler, and has the pods of its profile."""
    OwnWork.shelves.clear()
    framework = cluster.framework(enable=[OwnWork])
    assert framework.scheduler.sources == OwnWork.shelves
    assert len(OwnWork.shelves) == 1
    cluster.add_node("n1")
    cluster.add_pod("a", requests={"cpu": "1"})
    await cluster.clock.advance(60)
    assert cluster.pod("a").node_name == ""
    plugin = framework.scheduler.profiles["pyscheduler"].plugins["OwnWork"]
    assert isinstance(plugin, OwnWork)
    assert plugin.note_of_single_pod("pyscheduler", make_pod("a")) == ""
    with pytest.raises(ConfigError, match="the args of this plugin cannot change while the scheduler runs"):
        plugin.prepare_args({})


def test_two_sources_of_one_profile_are_refused(cluster: FakeCluster) -> None:
    """Only one of them can have the pods."""
    with pytest.raises(
        ConfigError, match='a profile has one plugin that schedules its pods itself, disable "OtherWork"'
    ):
        cluster.framework(enable=[OwnWork, OtherWork])


def test_what_keeps_a_plugin_from_its_source_is_reported(cluster: FakeCluster) -> None:
    """With the words of the plugin."""
    with pytest.raises(ConfigError, match="no source today"):
        cluster.framework(enable=[NoWork])

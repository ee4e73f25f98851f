"""Building a profile: what it is made of, and everything that can be wrong with it."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from pyscheduler.api import ConfigMap, Pod, Service, kind_of
from pyscheduler.framework import (
    BindPlugin,
    ClusterEventWithHint,
    ConfigError,
    CycleState,
    EnqueueExtensions,
    ExtensionPoint,
    FilterPlugin,
    Handle,
    NodeInfo,
    Plugin,
    PreEnqueuePlugin,
    Status,
)
from pyscheduler.framework.profile import EnabledPlugin, PluginSet
from pyscheduler.runtime.profile import Profile

CONFIG_MAPS = kind_of(ConfigMap, "configmaps")
SERVICES = kind_of(Service, "services")


@attrs.frozen(kw_only=True)
class LimitArgs:
    limit: int = 3


class Limit(PreEnqueuePlugin):
    args_type = LimitArgs
    watches = (CONFIG_MAPS, SERVICES)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return None


@attrs.frozen
class NeedyArgs:
    limit: int


#: Where an exception was raised, in a message.
PLACE = re.compile(r", test_profile_builder\.py:\d+ in [\w.]+")


class Needy(Plugin):
    args_type = NeedyArgs


class Picky(Plugin):
    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        raise ConfigError("limit is wrong", "name is wrong")


class Failing(Plugin):
    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        raise ValueError("no such table")


class Idle(FilterPlugin):
    """Forgot its filter."""


class Plain(Plugin):
    """Says nothing about args."""


class Worker(Plugin):
    async def run(self) -> None:
        """End at once."""


class Deaf(FilterPlugin, EnqueueExtensions):
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        raise ValueError("no events")


def test_a_plugin_is_made_once_with_its_args_and_its_handle(kit: Any) -> None:
    """A plugin gets its own args object and the handle of its profile."""
    args = LimitArgs(limit=7)
    profile = kit.profile(Limit, args={"Limit": args})
    plugin = profile.plugins["Limit"]
    assert plugin.args is args
    assert plugin.handle is profile.handle
    assert profile.args["Limit"] is args
    assert plugin.handle.profile_name == "pyscheduler"


def test_args_that_are_not_given_are_the_defaults(kit: Any) -> None:
    """A plugin with args never sees None."""
    assert kit.profile(Limit).plugins["Limit"].args == LimitArgs()


def test_watched_kinds_are_declared_before_plugins_are_made(kit: Any) -> None:
    """A plugin may ask for its listers as soon as it is made."""
    seen: list[object] = []

    class Eager(Limit):
        def __init__(self, args: object = None, handle: Handle | None = None) -> None:
            super().__init__(args, handle)
            seen.extend(kit.declared)

    kit.profile(Eager)
    assert seen == [CONFIG_MAPS, SERVICES]


@pytest.mark.parametrize(
    ("plugin", "problem"),
    [
        pytest.param(
            Needy,
            'plugin "Needy" needs args: TypeError: NeedyArgs.__init__() missing 1 required positional argument: '
            "'limit' @ $.profiles['pyscheduler'].pluginConfig",
            id="args without defaults",
        ),
        pytest.param(
            Failing,
            "initializing plugin \"Failing\": ValueError: no such table @ $.profiles['pyscheduler'].plugins",
            id="a constructor that fails",
        ),
        pytest.param(
            Deaf,
            "plugin \"Deaf\" cannot register its events: ValueError: no events @ $.profiles['pyscheduler'].plugins",
            id="registration fails",
        ),
    ],
)
def test_a_mistake_is_one_line_with_its_path(kit: Any, plugin: type[Plugin], problem: str) -> None:
    """Each mistake says what, where, and whose."""
    kit.register(plugin)
    spec = kit.spec(plugin.name, "Sort", "Binder")
    with pytest.raises(ConfigError) as caught:
        Profile.build(spec, kit.registry, kit.services)
    assert without_places(caught.value) == (problem,)


def without_places(error: ConfigError) -> tuple[str, ...]:
    """Return the problems without the lines of this file that raised."""
    return tuple(PLACE.sub("", problem) for problem in error.problems)


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        pytest.param({"Limit": 3}, 'plugin "Limit": want args to be of type LimitArgs, got int', id="of another type"),
        pytest.param(
            {"Lmit": LimitArgs()},
            'args are given for plugin "Lmit", which no installed distribution offers, did you mean "Limit"?',
            id="for a plugin that nobody offers",
        ),
    ],
)
def test_wrong_args_are_refused(kit: Any, args: dict[str, object], problem: str) -> None:
    """Args must be of the class that the plugin names, and for a plugin that exists."""
    with pytest.raises(ConfigError) as caught:
        kit.profile(Limit, args=args)
    assert caught.value.problems == (f"{problem} @ $.profiles['pyscheduler'].pluginConfig",)


def test_a_plugin_without_an_args_class_gets_what_the_file_says(kit: Any) -> None:
    """Like kube-scheduler, which hands args of unknown type through as they are."""
    profile = kit.profile(Plain, args={"Plain": {"weight": 2}})
    assert profile.plugins["Plain"].args == {"weight": 2}


def test_args_for_a_plugin_that_is_not_enabled_are_ignored(kit: Any, caplog: pytest.LogCaptureFixture) -> None:
    """As in kube-scheduler; a line of the log says so."""
    kit.register(Limit)
    spec = attrs.evolve(kit.spec("Sort", "Binder", args={"Limit": LimitArgs()}), args_index={"Limit": 2})
    profile = Profile.build(spec, kit.registry, kit.services)
    assert set(profile.plugins) == {"Sort", "Binder"}
    assert caplog.messages == [
        "Args have no effect: the profile does not enable plugin \"Limit\" @ $.profiles['pyscheduler'].pluginConfig[2]"
    ]


def test_misspelt_names_among_args_have_their_place(kit: Any) -> None:
    """The position is that in the file."""
    kit.register(Limit)
    spec = attrs.evolve(kit.spec("Sort", "Binder", args={"Lmit": {}}), args_index={"Lmit": 1})
    with pytest.raises(ConfigError) as caught:
        Profile.build(spec, kit.registry, kit.services)
    assert caught.value.problems == (
        (
            'args are given for plugin "Lmit", which no installed distribution offers, did you mean "Limit"? '
            "@ $.profiles['pyscheduler'].pluginConfig[1]"
        ),
    )


def test_plugins_that_lack_some_of_their_points_are_logged(kit: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A plugin that is named under single extension points may need the others."""

    class Counts(PreEnqueuePlugin, FilterPlugin):
        def pre_enqueue(self, pod: Pod) -> Status | None:
            return None

        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
            return None

    kit.register(Counts)
    caplog.set_level(logging.INFO, logger="pyscheduler")
    only = PluginSet(enabled=(EnabledPlugin("Counts"),))
    Profile.build(kit.spec("Sort", "Binder", plugins={ExtensionPoint.FILTER: only}), kit.registry, kit.services)
    assert caplog.messages == [
        (
            'Plugin "Counts" also defines preEnqueue, where the profile does not enable it; enable it at multiPoint, '
            "which means all of its extension points @ $.profiles['pyscheduler'].plugins"
        )
    ]
    caplog.clear()
    off = PluginSet(disabled=("Counts",))
    chosen = {ExtensionPoint.FILTER: only, ExtensionPoint.PRE_ENQUEUE: off}
    Profile.build(kit.spec("Sort", "Binder", plugins=chosen), kit.registry, kit.services)
    assert not caplog.messages


def test_all_mistakes_are_told_at_once(kit: Any) -> None:
    """One run of the command line tells everything that is wrong with a profile."""
    kit.register(Picky, Failing, Limit)
    spec = kit.spec(
        "Picky",
        "Failing",
        "Lmit",
        "Sort",
        "Binder",
        plugins={ExtensionPoint.FILTER: PluginSet(enabled=(EnabledPlugin("Sort"),))},
        args={"Gone": 1, "Lmit": 2},
    )
    with pytest.raises(ConfigError) as caught:
        Profile.build(spec, kit.registry, kit.services)
    place = "$.profiles['pyscheduler']"
    assert isinstance(caught.value.__cause__, ValueError)
    assert f"no such table, test_profile_builder.py:{Failing.__init__.__code__.co_firstlineno + 1} in " in str(
        caught.value
    )
    assert without_places(caught.value) == (
        f'plugin "Lmit" does not exist, did you mean "Limit"? @ {place}.plugins.multiPoint',
        f'plugin "Sort" does not extend FilterPlugin plugin @ {place}.plugins.filter.enabled[0]',
        f'args are given for plugin "Gone", which no installed distribution offers @ {place}.pluginConfig',
        f'initializing plugin "Picky": limit is wrong @ {place}.pluginConfig',
        f'initializing plugin "Picky": name is wrong @ {place}.pluginConfig',
        f'initializing plugin "Failing": ValueError: no such table @ {place}.plugins',
    )


def test_a_profile_must_sort_and_bind(kit: Any) -> None:
    """Without a queue sort or a bind plugin there is no profile."""
    kit.register()
    with pytest.raises(ConfigError) as caught:
        Profile.build(kit.spec(name="lone"), kit.registry, kit.services)
    assert caught.value.problems == (
        (
            'only one queue sort plugin required for profile with scheduler name "lone", '
            "but got 0; write `multiPoint: {enabled: [{name: PrioritySort}]}` under `plugins` "
            "@ $.profiles['lone'].plugins.queueSort"
        ),
        "at least one bind plugin is needed for profile with scheduler name \"lone\" @ $.profiles['lone'].plugins.bind",
    )


def test_a_profile_that_only_runs_plugins_schedules_nothing(kit: Any) -> None:
    """It needs no bind plugin, unless another plugin takes part in scheduling."""
    kit.register(Worker, Limit, Idle)
    names = [Worker.name, Limit.name, "Sort"]
    assert not Profile.build(kit.spec(*names), kit.registry, kit.services).schedules
    assert Profile.build(kit.spec(*names, "Binder"), kit.registry, kit.services).schedules
    for wrong in ([*names, Idle.name], ["Sort", Limit.name]):
        with pytest.raises(ConfigError, match="at least one bind plugin is needed"):
            Profile.build(kit.spec(*wrong), kit.registry, kit.services)


def test_a_profile_needs_a_name(kit: Any) -> None:
    """Pods could not ask for a profile without one."""
    kit.register()
    with pytest.raises(ConfigError, match="scheduler name is needed"):
        Profile.build(kit.spec("Sort", "Binder", name=""), kit.registry, kit.services)


def test_a_missing_bind_plugin_is_reported_once(kit: Any) -> None:
    """What follows from a plugin that does not load is not reported on top of it."""
    kit.register()
    with pytest.raises(ConfigError) as caught:
        Profile.build(kit.spec("Sort", "Bindre"), kit.registry, kit.services)
    assert len(caught.value.problems) == 1


def test_a_plugin_may_take_part_in_some_extension_points_only(kit: Any) -> None:
    """A plugin that is enabled at one extension point is left alone at the others it knows."""

    class Both(Limit, BindPlugin):
        name = "Both"

        async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
            return None

    kit.register(Both)
    bind = {ExtensionPoint.BIND: PluginSet(enabled=(EnabledPlugin("Both"),))}
    profile = Profile.build(kit.spec("Sort", plugins=bind), kit.registry, kit.services)
    assert profile.points[ExtensionPoint.BIND] == ("Both",)
    assert profile.points[ExtensionPoint.PRE_ENQUEUE] == ()

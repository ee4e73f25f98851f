"""Several profiles of one scheduler."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from pyscheduler.framework import ConfigError, QueuedPodInfo, QueueSortPlugin
from pyscheduler.runtime.assembly.profile_set import build_profiles


@attrs.frozen
class FairArgs:
    window: int = 1


class Fair(QueueSortPlugin):
    args_type = FairArgs

    def sort_key(self, info: QueuedPodInfo) -> tuple[object, ...]:
        return ()


def problems_of(kit: Any, *specs: Any) -> tuple[str, ...]:
    """Build and return what was wrong."""
    with pytest.raises(ConfigError) as caught:
        build_profiles(specs, kit.registry, kit.services)
    return caught.value.problems


def test_profiles_are_built_by_name(kit: Any) -> None:
    """Profiles keep the order of the file."""
    kit.register()
    profiles = build_profiles(
        [kit.spec("Sort", "Binder", name=name) for name in ("b", "a")], kit.registry, kit.services
    )
    assert list(profiles) == ["b", "a"]
    assert profiles["a"].event_recorder.controller == "a"


def test_profiles_share_one_order(kit: Any) -> None:
    """There is one queue, so there is one QueueSort plugin."""
    kit.register(Fair)
    specs = [kit.spec("Sort", "Binder", name="a"), kit.spec("Fair", "Binder", name="b")]
    assert problems_of(kit, *specs) == (
        'different queue sort plugins for profile "b": "Fair", first: "Sort" @ $.profiles[\'b\'].plugins.queueSort',
    )


def test_profiles_share_the_args_of_the_order(kit: Any) -> None:
    """The one QueueSort plugin has one set of args, defaults included."""
    kit.register(Fair)
    one, same, other = (
        kit.spec("Fair", "Binder", name=name, args=args)
        for name, args in [("a", {}), ("b", {"Fair": FairArgs(1)}), ("c", {"Fair": FairArgs(2)})]
    )
    assert len(build_profiles([one, same], kit.registry, kit.services)) == 2
    assert problems_of(kit, one, other) == (
        "different queue sort plugin args for profile \"c\" @ $.profiles['c'].pluginConfig",
    )


def test_the_mistakes_of_all_profiles_are_told_at_once(kit: Any) -> None:
    """A file with two broken profiles is mended in one go."""
    kit.register()
    good, broken = kit.spec("Sort", "Binder", name="a"), kit.spec("Sort", name="b")
    problems = problems_of(kit, good, broken, attrs.evolve(broken, scheduler_name="c"), good)
    assert len(problems) == 3
    assert 'scheduler name "b"' in problems[0]
    assert 'scheduler name "c"' in problems[1]
    assert problems[2] == "duplicate profile with scheduler name \"a\" @ $.profiles['a']"


def test_there_is_at_least_one_profile(kit: Any) -> None:
    """A scheduler without a profile would schedule nothing, for ever."""
    assert problems_of(kit) == ("at least one profile is required @ $.profiles",)

"""Profiles reach the runtime with their plugins in order and every plugin's args as the class it asks for."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import attrs
import pytest

from pyscheduler.config.load import default_configuration, loads
from pyscheduler.config.profiles import profiles
from pyscheduler.framework import ConfigError, ExtensionPoint
from pyscheduler.framework.in_tree_args import IN_TREE_ARGS, NodeResourcesFitArgs, ScoringStrategy
from pyscheduler.framework.plugin_args import Duration, Quantity
from pyscheduler.framework.profile import EnabledPlugin, PluginSet

if TYPE_CHECKING:
    from decimal import Decimal
from typing import Any


@attrs.frozen(kw_only=True)
class MineArgs:
    weight: int = 1
    permit_wait_seconds: Duration = attrs.field(default=60.0, validator=attrs.validators.gt(0))


@attrs.frozen(kw_only=True)
class NeedyArgs:
    queue: str


@attrs.frozen(kw_only=True)
class UnreadableArgs:
    amount: Decimal


@attrs.frozen(kw_only=True)
class TimedArgs:
    grace: dt.timedelta = dt.timedelta(0)


@attrs.frozen(kw_only=True)
class LooseArgs:
    """Defaults of wrong types, and some that are right."""

    wait_seconds: Duration = "30s"  # type: ignore[assignment]
    memory: Quantity = "1Gi"  # type: ignore[assignment]
    number: int = "x"  # type: ignore[assignment]
    names: tuple[str, ...] = "a"  # type: ignore[assignment]
    limit: int = None  # type: ignore[assignment]
    share: float = 1
    either: Mapping[str, int] | None = None
    converted: tuple[str, ...] = attrs.field(default="a", converter=tuple)


class PlainArgs:
    """No attrs class."""


TYPES: dict[str, Any] = {
    "Mine": MineArgs,
    "Needy": NeedyArgs,
    "Unreadable": UnreadableArgs,
    "Plain": PlainArgs,
    "Timed": TimedArgs,
    "Loose": LooseArgs,
    "Text": "TextArgs",
}


def no_types(name: str) -> type | None:
    """Know no plugin but kube-scheduler's own, which nobody needs to ask for."""
    assert name not in IN_TREE_ARGS
    return None


def test_the_default_profile() -> None:
    """It is kube-scheduler's, under our name."""
    (spec,) = profiles(default_configuration(), no_types)
    assert spec.scheduler_name == "pyscheduler"
    assert [(each.name, each.weight) for each in spec.multi_point.enabled if each.weight] == [
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("NodeResourcesFit", 1),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("DynamicResources", 2),
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
    ]
    assert (spec.plugins, spec.percentage_of_nodes_to_score) == ({}, None)
    assert spec.args == {name: kind() for name, kind in IN_TREE_ARGS.items()}


def test_plugins_are_given_per_extension_point(config_text: Callable[[str], str]) -> None:
    """What is enabled in order, what is disabled by name; points of which nothing is said are left out."""
    config = loads(
        config_text("""
            profiles:
            - schedulerName: a
              percentageOfNodesToScore: 0
              plugins:
                preEnqueue: {enabled: [{name: B}, {name: A}]}
                score: {enabled: [{name: Mine, weight: 3}], disabled: [{name: ImageLocality}]}
                postBind: {disabled: [{name: '*'}]}
                multiPoint: {disabled: [{name: '*'}], enabled: [{name: Mine}]}
            - schedulerName: b
        """)
    )
    first, second = profiles(config, no_types)
    assert (first.scheduler_name, first.percentage_of_nodes_to_score) == ("a", 0)
    assert first.multi_point == PluginSet(enabled=(EnabledPlugin("Mine"),), disabled=("*",))
    assert first.plugins == {
        ExtensionPoint.PRE_ENQUEUE: PluginSet(enabled=(EnabledPlugin("B"), EnabledPlugin("A"))),
        ExtensionPoint.SCORE: PluginSet(enabled=(EnabledPlugin("Mine", 3),), disabled=("ImageLocality",)),
        ExtensionPoint.POST_BIND: PluginSet(disabled=("*",)),
    }
    assert second.scheduler_name == "b"
    assert len(second.multi_point.enabled) == 20


@pytest.mark.parametrize(
    ("text", "name", "args"),
    [
        pytest.param(
            "{name: Mine, args: {weight: 2, permitWait: 5s}}",
            "Mine",
            MineArgs(weight=2, permit_wait_seconds=5),
            id="typed",
        ),
        pytest.param("{name: Mine, args: {kind: MineArgs}}", "Mine", MineArgs(), id="with its kind"),
        pytest.param("{name: Mine}", "Mine", MineArgs(), id="configured without args"),
        pytest.param("{name: Other, args: {}}", "Mine", MineArgs(), id="not configured"),
        pytest.param("{name: Unknown, args: {a: [1]}}", "Unknown", {"a": [1]}, id="of a plugin that nobody knows"),
        pytest.param("{name: Needy, args: {a: 1}}", "Needy", {"a": 1}, id="of a plugin that is not enabled"),
        pytest.param(
            "{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}",
            "NodeResourcesFit",
            NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type="MostAllocated")),
            id="in-tree",
        ),
    ],
)
def test_args_are_of_the_class_that_the_plugin_asks_for(
    config_text: Callable[[str], str], text: str, name: str, args: object
) -> None:
    """An enabled plugin always gets args; what nobody can type stays as it is in the file."""
    config = loads(
        config_text(f"profiles: [{{plugins: {{score: {{enabled: [{{name: Mine}}]}}}}, pluginConfig: [{text}]}}]")
    )
    (spec,) = profiles(config, TYPES.get)
    assert spec.args[name] == args


def test_plugins_without_args_get_none(config_text: Callable[[str], str]) -> None:
    """A plugin without args is not in the mapping."""
    (spec,) = profiles(loads(config_text("profiles: [{pluginConfig: [{name: NodeName}]}]")), no_types)
    assert "NodeName" not in spec.args


@pytest.mark.parametrize(
    ("name", "config", "problems"),
    [
        pytest.param(
            "Mine",
            "[{name: A}, {name: Mine, args: {wieght: 1, permitWait: 5}}]",
            [
                (
                    'plugin "Mine": unknown field "wieght", did you mean "weight"? '
                    "@ $.profiles[0].pluginConfig[1].args.wieght"
                ),
                (
                    'plugin "Mine": expected a duration such as "15s" or "1m30s", found 5 '
                    "@ $.profiles[0].pluginConfig[1].args.permitWait"
                ),
            ],
            id="structure",
        ),
        pytest.param(
            "Mine",
            "[{name: Mine, args: {permitWait: 0s}}]",
            ["plugin \"Mine\": 'permitWait' must be > 0: 0.0 @ $.profiles[0].pluginConfig[0].args.permitWait"],
            id="validator",
        ),
        pytest.param(
            "Mine",
            "[{name: Mine, args: {kind: YoursArgs}}]",
            [
                (
                    'plugin "Mine": args for plugin Mine were not of type MineArgs.kubescheduler.config.k8s.io, '
                    "got YoursArgs.kubescheduler.config.k8s.io @ $.profiles[0].pluginConfig[0].args.kind"
                )
            ],
            id="kind",
        ),
        pytest.param(
            "Needy",
            "[{name: Needy}]",
            ['plugin "Needy": Required value @ $.profiles[0].pluginConfig[0].args.queue'],
            id="missing in what is given",
        ),
        pytest.param(
            "Needy",
            "[]",
            ['plugin "Needy" needs args: Required value at queue @ $.profiles[0].pluginConfig'],
            id="missing because nothing is given",
        ),
        pytest.param(
            "Unreadable",
            "[{name: Unreadable, args: {amount: 1}}]",
            [
                (
                    "plugin \"Unreadable\": args_type UnreadableArgs cannot be read: name 'Decimal' is not defined; "
                    "import it outside TYPE_CHECKING @ $.profiles[0].pluginConfig[0].args"
                )
            ],
            id="a class that cannot be read",
        ),
        pytest.param(
            "Plain",
            "[{name: Plain}]",
            [
                (
                    'plugin "Plain": args_type is PlainArgs, which is no attrs class; set a class with @attrs.frozen '
                    "@ $.profiles[0].pluginConfig[0].args"
                )
            ],
            id="a class that is none of attrs",
        ),
        pytest.param(
            "Text",
            "[]",
            [
                (
                    "plugin \"Text\": args_type is 'TextArgs', which is no attrs class; set a class with @attrs.frozen "
                    "@ $.profiles[0].pluginConfig"
                )
            ],
            id="a text in place of a class, without args",
        ),
        pytest.param(
            "Timed",
            "[]",
            [
                (
                    'plugin "Timed": TimedArgs.grace cannot be read from a file: timedelta is no type of args; '
                    "write Duration @ $.profiles[0].pluginConfig"
                )
            ],
            id="a timedelta",
        ),
        pytest.param(
            "Loose",
            "[]",
            [
                (
                    "plugin \"Loose\": the default of LooseArgs.wait_seconds is '30s'; write the seconds as a number "
                    "@ $.profiles[0].pluginConfig"
                ),
                (
                    "plugin \"Loose\": the default of LooseArgs.memory is '1Gi'; write Quantity('1Gi') "
                    "@ $.profiles[0].pluginConfig"
                ),
                (
                    "plugin \"Loose\": the default of LooseArgs.number is 'x'; its type is int "
                    "@ $.profiles[0].pluginConfig"
                ),
                (
                    "plugin \"Loose\": the default of LooseArgs.names is 'a'; its type is tuple[str, ...] "
                    "@ $.profiles[0].pluginConfig"
                ),
                (
                    'plugin "Loose": the default of LooseArgs.limit is None; write int | None as its type '
                    "@ $.profiles[0].pluginConfig"
                ),
            ],
            id="defaults of a wrong type",
        ),
    ],
)
def test_mistakes_in_args_have_their_path(
    config_text: Callable[[str], str], name: str, config: str, problems: list[str]
) -> None:
    """All of them, as for any other part of the file, with the name of the file."""
    text = f"profiles: [{{plugins: {{filter: {{enabled: [{{name: {name}}}]}}}}, pluginConfig: {config}}}]"
    with pytest.raises(ConfigError) as caught:
        profiles(loads(config_text(text), source="f.yaml"), TYPES.get)
    assert list(caught.value.problems) == problems
    assert str(caught.value).startswith("f.yaml: ")


def test_mistakes_of_all_profiles_are_reported_together(config_text: Callable[[str], str]) -> None:
    """All mistakes are in one error."""
    text = """
        profiles:
        - schedulerName: a
          plugins: {multiPoint: {enabled: [{name: Mine}]}}
          pluginConfig: [{name: Mine, args: {x: 1}}]
        - schedulerName: b
          plugins: {permit: {enabled: [{name: Needy}]}, placementGenerate: {disabled: [{name: A}]}}
    """
    with pytest.raises(ConfigError) as caught:
        profiles(loads(config_text(text)), TYPES.get)
    assert list(caught.value.problems) == [
        'plugin "Mine": unknown field "x" @ $.profiles[0].pluginConfig[0].args.x',
        'plugin "Needy" needs args: Required value at queue @ $.profiles[1].pluginConfig',
    ]


def test_places_are_those_of_the_file(config_text: Callable[[str], str]) -> None:
    """Messages count the entries that the user wrote, before defaults are added."""
    text = """
        profiles:
        - schedulerName: a
        - schedulerName: b
          plugins: {multiPoint: {enabled: [{name: Mine}, {name: NodeAffinity}]}}
    """
    spec = profiles(loads(config_text(text)), TYPES.get)[1]
    places = {each.name: each.place for each in spec.multi_point.enabled}
    assert (spec.path, places["Mine"], places["NodeAffinity"], places["NodeName"]) == ("$.profiles[1]", 0, 1, None)

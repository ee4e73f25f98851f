"""The order of plugins at an extension point; expectations follow kube-scheduler's own tests of multiPoint."""

from __future__ import annotations

import pytest

from pyscheduler.framework import MAX_TOTAL_SCORE, ExtensionPoint, FilterPlugin, Plugin, ScorePlugin
from pyscheduler.framework.profile import EnabledPlugin, PluginSet, ProfileSpec
from pyscheduler.runtime.assembly.expansion import enabled_names, expand, score_weights

CLASSES: dict[str, type[Plugin]] = {name: type(name, (ScorePlugin,), {}) for name in "ABCD"}
CLASSES["F"] = type("F", (FilterPlugin,), {})


def plugin_set(enabled: str = "", disabled: str = "") -> PluginSet:
    """Read `A B:3` as A, and B with weight 3."""
    parts = [each.partition(":") for each in enabled.split()]
    return PluginSet(
        enabled=tuple(EnabledPlugin(name, int(weight or 0)) for name, _, weight in parts),
        disabled=tuple(disabled.split()),
    )


def spec(multi_point: str, score: str = "", disabled: str = "") -> ProfileSpec:
    """Describe a profile that says something of Score and of multiPoint."""
    return ProfileSpec(
        scheduler_name="s",
        multi_point=plugin_set(multi_point),
        plugins={ExtensionPoint.SCORE: plugin_set(score, disabled)},
    )


@pytest.mark.parametrize(
    ("multi_point", "score", "disabled", "order"),
    [
        pytest.param("A B C", "", "", "ABC", id="multiPoint alone"),
        pytest.param("", "C A", "", "CA", id="the extension point alone"),
        pytest.param("A F B", "", "", "AB", id="only where a plugin takes part"),
        pytest.param("A B C", "", "B", "AC", id="one disabled"),
        pytest.param("A B C", "", "*", "", id="all disabled"),
        pytest.param("A B C", "B", "*", "B", id="all disabled but one"),
        pytest.param("A B C", "C", "", "CAB", id="an override comes first"),
        pytest.param("A B C", "C A", "", "CAB", id="overrides keep their own order"),
        pytest.param("A B", "D", "", "ABD", id="an addition comes last"),
        pytest.param("A B C", "D B", "", "BACD", id="override, multiPoint, addition"),
        pytest.param("A B C", "D", "A C", "BD", id="disabled and added"),
        pytest.param("A B", "B", "B", "AB", id="disabled and enabled anew is no override"),
    ],
)
def test_plugins_are_ordered(multi_point: str, score: str, disabled: str, order: str) -> None:
    """Overrides, then the rest of multiPoint, then additions; `disabled` acts on multiPoint alone."""
    problems: list[str] = []
    points = expand(spec(multi_point, score, disabled), CLASSES, problems, path="$")
    assert "".join(points[ExtensionPoint.SCORE]) == order
    assert not problems


@pytest.mark.parametrize(
    ("multi_point", "score", "problem"),
    [
        pytest.param(
            "",
            "A A",
            'plugin "A" already registered as "ScorePlugin" @ $.plugins.score.enabled[1]',
            id="twice at one extension point",
        ),
        pytest.param(
            "A B A",
            "",
            'plugin "A" already registered as "ScorePlugin" @ $.plugins.multiPoint.enabled[2]',
            id="twice at multiPoint",
        ),
        pytest.param(
            "",
            "F",
            'plugin "F" does not extend ScorePlugin plugin @ $.plugins.score.enabled[0]',
            id="where it takes no part",
        ),
    ],
)
def test_mistakes_are_worded_as_in_kube_scheduler(multi_point: str, score: str, problem: str) -> None:
    """A plugin named twice, or where it takes no part, is a mistake; the message has its path."""
    problems: list[str] = []
    expand(spec(multi_point, score), CLASSES, problems, path="$")
    assert problems == [problem]


def test_a_plugin_that_was_not_loaded_is_passed_over() -> None:
    """Whoever loaded the classes has reported it; here it counts as absent."""
    problems: list[str] = []
    points = expand(spec("A X", "X"), CLASSES, problems, path="$")
    assert points[ExtensionPoint.SCORE] == ("A",)
    assert not problems


@pytest.mark.parametrize(
    ("multi_point", "score", "weights"),
    [
        pytest.param("A B:5", "", {"A": 1, "B": 5}, id="one by default"),
        pytest.param("A:5", "A:2", {"A": 2}, id="the extension point's comes before multiPoint's"),
        pytest.param("A:5", "A", {"A": 1}, id="even where it says nothing"),
        pytest.param("F:9 A", "", {"A": 1}, id="only of those that score"),
    ],
)
def test_weights(multi_point: str, score: str, weights: dict[str, int]) -> None:
    """A weight is that of the extension point, else that of multiPoint; none given is one."""
    problems: list[str] = []
    assert score_weights(spec(multi_point, score), CLASSES, problems, path="$") == weights
    assert not problems


@pytest.mark.parametrize(
    ("multi_point", "problem"),
    [
        pytest.param(
            f"A:{MAX_TOTAL_SCORE // 100} B",
            "score plugins: total score of Score plugins could overflow @ $.plugins.multiPoint.enabled[1].weight",
            id="too large together",
        ),
        pytest.param(
            "A:-1",
            'score plugin "A" has weight -1; it must be positive @ $.plugins.multiPoint.enabled[0].weight',
            id="negative",
        ),
    ],
)
def test_impossible_weights_are_refused(multi_point: str, problem: str) -> None:
    """Totals must stay within 64 bits, and no plugin counts against a node."""
    problems: list[str] = []
    score_weights(spec(multi_point), CLASSES, problems, path="$")
    assert problems == [problem]


def test_enabled_names_come_with_their_places() -> None:
    """Each enabled plugin is known once, with every place that names it."""
    assert enabled_names(spec("A B", "B C", "A")) == {"A": ["multiPoint"], "B": ["multiPoint", "score"], "C": ["score"]}

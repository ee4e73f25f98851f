"""What the scheduler says about the methods of a plugin's class before it calls one."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from pyscheduler import FilterPlugin, Plugin, PreFilterPlugin, ReservePlugin, ScorePlugin
from pyscheduler.runtime.assembly import plugin_methods
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.runtime.assembly.plugin_methods import misspelt_methods, wrong_parameters


def plugin(base: type[Plugin], **methods: Any) -> type[Plugin]:
    """Return a class with these methods."""
    return type("Mine", (base,), methods)


def nothing(*_: object) -> None:
    """Take any arguments."""


def with_cache(method: Any) -> Any:
    """Pass one more argument to a method."""

    @functools.wraps(method)
    def wrapper(self: object, *args: object) -> object:
        return method(self, {}, *args)

    return wrapper


@pytest.mark.parametrize(
    ("base", "method", "remedy"),
    [
        pytest.param(ScorePlugin, "normalize_score", 'rename it to "normalize_scores"', id="letter"),
        pytest.param(ScorePlugin, "NormalizeScores", 'rename it to "normalize_scores"', id="Go's case"),
        pytest.param(ReservePlugin, "release_on_trial", 'rename it to "release_in_trial"', id="another word"),
        pytest.param(FilterPlugin, "event_to_register", 'rename it to "events_to_register"', id="events"),
        pytest.param(FilterPlugin, "pre_filter", "inherit PreFilterPlugin", id="interface"),
        pytest.param(ScorePlugin, "why_nodes", "inherit PreFilterPlugin or FilterPlugin", id="one of two interfaces"),
        pytest.param(FilterPlugin, "sign_pods", 'rename it to "sign_pod" and inherit SignPlugin', id="both"),
    ],
)
def test_a_method_that_nobody_calls_is_named(base: type[Plugin], method: str, remedy: str) -> None:
    """The sentence says what to write instead."""
    (found,) = misspelt_methods(plugin(base, **{method: nothing}))
    assert found.startswith(f'plugin "Mine" defines {method}, which is never called; {remedy}, or begin the name')


@pytest.mark.parametrize(
    ("base", "method"),
    [
        pytest.param(ScorePlugin, "normalize_scores", id="right"),
        pytest.param(ScorePlugin, "_normalize_score", id="helper"),
        pytest.param(ScorePlugin, "scores", id="one word"),
        pytest.param(FilterPlugin, "events_to_register", id="without the interface"),
        pytest.param(FilterPlugin, "watched_kinds", id="of the base"),
        pytest.param(PreFilterPlugin, "why_nodes", id="of two interfaces"),
    ],
)
def test_other_methods_are_left_alone(base: type[Plugin], method: str) -> None:
    """Helpers and methods that are called cause no warning."""
    assert not misspelt_methods(plugin(base, **{method: nothing}))


def test_no_installed_plugin_causes_a_false_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    """In-tree plugins and distributions have many helpers, and none of them is taken for a mistake."""
    monkeypatch.setattr(
        plugin_methods, "is_foreign", lambda kind: not kind.__module__.startswith(("builtins", "pyscheduler.framework"))
    )
    registry = discover()
    found = [each for name in registry.names() for each in misspelt_methods(registry.load(name))]
    found += [each for name in registry.names() for each in wrong_parameters(registry.load(name))]
    assert not found


@pytest.mark.parametrize(
    ("method", "function", "complaint"),
    [
        pytest.param("pre_filter", lambda self, state, pod: None, "pre_filter(state, pod, nodes)", id="too few"),
        pytest.param("remove_pod", lambda self, state: None, "remove_pod(state, pod, to_remove, node)", id="optional"),
        pytest.param("may_reuse", lambda self: None, "may_reuse(pod)", id="of every plugin"),
        pytest.param("close", lambda self, reason: None, "close()", id="too many"),
        pytest.param("pre_filter", nothing, "", id="any arguments"),
        pytest.param("pre_filter", staticmethod(lambda state, pod, nodes: None), "", id="static"),
        pytest.param("pre_filter", classmethod(lambda cls, state, pod, nodes: None), "", id="of the class"),
        pytest.param("pre_filter", with_cache(lambda self, cache, state, pod, nodes: None), "", id="decorated"),
        pytest.param("pre_filter", lambda self, state, pod, nodes, cache=None: None, "", id="default"),
    ],
)
def test_parameters_are_compared_with_the_call(method: str, function: Any, complaint: str) -> None:
    """A method that cannot be called as the scheduler calls it is found before the first pod comes."""
    found = wrong_parameters(plugin(PreFilterPlugin, **{"pre_filter": nothing, method: function}))
    assert len(found) == bool(complaint)
    if complaint:
        assert f'plugin "Mine" defines {method}(' in found[0]
        assert found[0].endswith(f"but the scheduler calls {complaint}")

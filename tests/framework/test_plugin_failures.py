"""Failures of plugins: which are the same, what the log says, and where they are."""

from __future__ import annotations

import functools
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from pyscheduler import ConfigError, FilterPlugin
from pyscheduler.framework.plugin_failures import PluginFailure, PluginFailures, error_place, error_text
from pyscheduler.framework.plugin_owners import owner_of
from pyscheduler.framework.recorder import Recorder
from pyscheduler.telemetry import logs


class Counts(Recorder):
    """Keeps the warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warning(self, kind: str) -> None:
        self.warnings.append(kind)


class Spread(FilterPlugin):
    """Fails in several ways."""

    def filter(self, state: Any, pod: Any, node: Any) -> None:
        if pod == "deep":
            self.look_up({}, "zone")
        if pod == "library":
            json.loads("{")
        raise ValueError(f"pod {pod}")

    def look_up(self, table: dict[str, int], key: str) -> int:
        return table[key]


def raised(call: Any, *args: object) -> BaseException:
    """Return what a call raises."""
    try:
        call(*args)
    except Exception as error:  # noqa: BLE001 - whatever it is
        return error
    raise AssertionError("nothing was raised")


def line(text: str) -> int:
    """Return the number of the line of this file that has a text."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, each in enumerate(lines, 1) if text in each)


def test_a_failure_is_logged_once_with_its_traceback_and_then_counted(caplog: pytest.LogCaptureFixture) -> None:
    """The log has the first, the 10th, the 100th; the traceback comes once."""
    counts = Counts()
    failures = PluginFailures(counts)
    spread = Spread()
    with caplog.at_level(logging.INFO):
        for number in range(150):
            error = raised(spread.filter, None, number, None)
            failures.report(error, plugin="Spread", point="Filter", about=f"pod=default/p{number}", call=spread.filter)
    records = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [bool(record.exc_info) for record in records] == [True, False, False]
    place = f"test_plugin_failures.py:{line('raise ValueError(f')} in Spread.filter"
    whose = "plugin=Spread extensionPoint=Filter pod=default"
    assert [record.getMessage() for record in records] == [
        f'Plugin failed {whose}/p0 place="{place}" err="ValueError: pod 0"',
        f'Plugin failed again times=10 {whose}/p9 place="{place}" err="ValueError: pod 9"',
        f'Plugin failed again times=100 {whose}/p99 place="{place}" err="ValueError: pod 99"',
    ]
    assert counts.warnings == ["plugin_error"] * 150
    assert failures.counts == {("Spread", "Filter"): 150}


def test_the_fields_of_a_log_line_are_fields(caplog: pytest.LogCaptureFixture) -> None:
    """In the formatted line plugin, point, pod and place can be searched for."""
    failures, formatter = PluginFailures(Counts()), logs._KeyValueFormatter()
    with caplog.at_level(logging.INFO):
        failures.report(KeyError(1), plugin="Spread", point="Filter", about="event=NodeAdd pod=default/p")
        failures.report(OSError("no=t here"), plugin="", point="Task", about='task="read the prices"')
    lines = [formatter.format(record).partition("plugin_failures ")[2] for record in caplog.records]
    assert lines == [
        'Plugin failed plugin=Spread extensionPoint=Filter event=NodeAdd pod=default/p place="" err="KeyError: 1"',
        'Plugin failed plugin="" extensionPoint=Task task="read the prices" place="" err="OSError: no=t here"',
    ]


def test_another_plugin_point_type_or_line_is_another_failure(caplog: pytest.LogCaptureFixture) -> None:
    """Each of these four has its own traceback."""
    failures = PluginFailures(Counts())
    first = raised(Spread().filter, None, "p", None)
    deep = raised(Spread().filter, None, "deep", None)
    for error, plugin, point in (
        (first, "A", "Filter"),
        (first, "B", "Filter"),
        (first, "A", "Score"),
        (deep, "A", "Filter"),
        (TypeError("never raised"), "A", "Filter"),
        (first, "A", "Filter"),
    ):
        failures.report(error, plugin=plugin, point=point)
    assert [record.getMessage().partition(" plugin")[0] for record in caplog.records] == ["Plugin failed"] * 5


def test_failures_that_are_all_different_are_not_kept_for_ever() -> None:
    """A plugin that makes a new type of exception each time does not fill the memory."""
    failures = PluginFailures(Counts())
    for number in range(1200):
        failures.report(type(f"Error{number}", (Exception,), {})(), plugin="Odd", point="Filter")
    assert len(failures._repeats._counts) == 500
    assert failures.counts == {("Odd", "Filter"): 1200}


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        pytest.param("deep", "return table[key]", id="in a helper of the same file"),
        pytest.param("library", 'json.loads("{")', id="in a library: where the plugin called it"),
        pytest.param("p", "raise ValueError(f", id="in the method"),
    ],
)
def test_the_place_is_in_the_code_of_the_plugin(pod: str, text: str) -> None:
    """A reader is led to the line that the author wrote."""
    spread = Spread()
    error = raised(spread.filter, None, pod, None)
    found = error_place(error, spread.filter)
    assert found.startswith(f"test_plugin_failures.py:{line(text)} in Spread.")
    assert error_place(raised(functools.partial(spread.filter, None), pod, None)) == found


def test_what_was_never_entered_or_raised_is_placed_at_its_definition() -> None:
    """A method that is called with one argument too many, or returns nonsense, has no line of its own."""
    spread = Spread()
    wanted = f"test_plugin_failures.py:{line('def filter')} in Spread.filter"
    assert error_place(raised(spread.filter, 1, 2, 3, 4), spread.filter) == wanted
    assert error_place(TypeError("Filter returned int"), spread.filter) == wanted
    assert error_place(TypeError("Filter returned int")) == ""


def test_texts_and_owners() -> None:
    """Messages for users stand alone; others need their type. A method belongs to its plugin."""
    assert error_text(ConfigError("limit is\nwrong")) == "limit is wrong"
    assert error_text(KeyError("zone")) == "KeyError: 'zone'"
    assert error_text(ValueError()) == "ValueError"
    assert (owner_of(Spread().filter), owner_of(line)) == ("Spread", "")
    failure = PluginFailure(plugin="", point="EventHandler", about="", place="", error=KeyError("zone"))
    assert str(failure) == "code of a plugin failed at EventHandler: KeyError: 'zone'"
    assert failure.traceback == "KeyError: 'zone'\n"


def test_slow_calls_are_logged_once_a_minute_and_all_counted(caplog: pytest.LogCaptureFixture) -> None:
    """The line has plugin, extension point, pod and seconds; another plugin has a minute of its own."""
    failures = PluginFailures(Counts())
    for now in (0.0, 1.0, 59.0, 61.0):
        failures.slow(plugin="A", point="Filter", about="pod=default/p", seconds=0.25, now=now)
    failures.slow(plugin="B", point="Filter", about="pod=default/p", seconds=0.25, now=61.0)
    assert [record.getMessage().partition("here ")[2] for record in caplog.records] == [
        "plugin=A extensionPoint=Filter pod=default/p seconds=0.250 times=1",
        "plugin=A extensionPoint=Filter pod=default/p seconds=0.250 times=4",
        "plugin=B extensionPoint=Filter pod=default/p seconds=0.250 times=1",
    ]
    assert failures._slow == {("A", "Filter"): 4, ("B", "Filter"): 1}

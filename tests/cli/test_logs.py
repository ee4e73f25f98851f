"""Log lines: key=value and JSON say the same, and both can be taken apart."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from pyscheduler.cli import logs

LOG = logging.getLogger("pyscheduler.tests")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Put logging back as it was."""
    root, ours = logging.getLogger(), logging.getLogger("pyscheduler")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


CASES = [
    pytest.param(
        "Bound pod=%s node=%s", ("a/b", "n1"), "Bound pod=a/b node=n1", {"pod": "a/b", "node": "n1"}, id="plain"
    ),
    pytest.param("Failed err=%s", ("no such host",), 'Failed err="no such host"', {"err": "no such host"}, id="spaces"),
    pytest.param(
        'Failed err="%s"',
        ('plugin "Foo": a\nb',),
        'Failed err="plugin \\"Foo\\": a\\nb"',
        {"err": 'plugin "Foo": a\nb'},
        id="quotes and newlines",
    ),
    pytest.param('Failed err="%s"', ("x",), 'Failed err="x"', {"err": "x"}, id="quoted as written"),
    pytest.param("Failed err=%s", ("",), 'Failed err=""', {"err": ""}, id="empty"),
    pytest.param(
        "Passing over %s %s=%s", ("pod", "pod", "a/b"), "Passing over pod pod=a/b", {"pod": "a/b"}, id="field by name"
    ),
    pytest.param(
        "Synced nodes=%d share=%.1f",
        (3, 0.25),
        "Synced nodes=3 share=0.2",
        {"nodes": "3", "share": "0.2"},
        id="numbers",
    ),
    pytest.param("Half of 100%% is %s", ("50",), "Half of 100% is 50", {}, id="no fields"),
    pytest.param("Failed err=%s", ("a=b",), 'Failed err="a=b"', {"err": "a=b"}, id="a field within"),
    pytest.param(
        "Failed err=%r",
        (ValueError("a b"),),
        "Failed err=\"ValueError('a b')\"",
        {"err": "ValueError('a b')"},
        id="repr",
    ),
    pytest.param("Failed level=%s", ("x",), "Failed level=x", {}, id="a field that is called like a part of the line"),
]


@pytest.mark.parametrize(("message", "arguments", "line", "fields"), CASES)
def test_one_line_an_event(
    message: str, arguments: tuple[object, ...], line: str, fields: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A value is quoted where it could not be told from what follows; JSON carries it unquoted."""
    logs.configure(verbosity=2, json=False)
    LOG.warning(message, *arguments)
    stamp, level, name, rest = capsys.readouterr().err.rstrip("\n").split(" ", 3)
    assert (level, name, rest) == ("warning", "pyscheduler.tests", line)
    assert stamp.endswith("Z")
    logs.configure(verbosity=2, json=True)
    LOG.warning(message, *arguments)
    entry = json.loads(capsys.readouterr().err)
    assert (entry.pop("level"), entry.pop("logger")) == ("warning", "pyscheduler.tests")
    assert entry.pop("msg") in line
    assert entry.pop("ts") > 0
    assert entry == fields


def test_errors_carry_their_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """A fault of the program keeps its traceback, within the one line where lines are JSON."""
    try:
        raise ValueError("fault")
    except ValueError:
        logs.configure(verbosity=0, json=True)
        LOG.exception("Failed pod=%s", "a/b")
        logs.configure(verbosity=0, json=False)
        LOG.exception("Failed pod=%s", "a/b")
    first, *rest = capsys.readouterr().err.splitlines()
    assert json.loads(first)["exception"].endswith("ValueError: fault")
    assert rest[-1] == "ValueError: fault"


@pytest.mark.parametrize(
    ("verbosity", "shown"),
    [
        pytest.param(0, ["warning"], id="warnings"),
        pytest.param(2, ["info", "warning"], id="decisions"),
        pytest.param(4, ["debug", "info", "warning"], id="detail"),
    ],
)
def test_verbosity(verbosity: int, shown: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """0 shows warnings, 2 decisions, 4 everything; other libraries are never louder than warnings."""
    logs.configure(verbosity=verbosity, json=False)
    LOG.debug("debug")
    LOG.info("info")
    LOG.warning("warning")
    logging.getLogger("asyncio").info("other")
    assert [line.split()[-1] for line in capsys.readouterr().err.splitlines()] == shown


def test_a_message_that_does_not_fit_its_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    """A message without arguments is not touched, and a mapping fills names."""
    logs.configure(verbosity=2, json=False)
    LOG.warning("100% of %s")
    LOG.warning("%(a)s", {"a": "b c"})
    assert [line.split(" ", 3)[3] for line in capsys.readouterr().err.splitlines()] == ["100% of %s", "b c"]

"""Log lines: key=value and JSON say the same, and both can be taken apart."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st

from pyscheduler.flags.go_values import parse_vmodule
from pyscheduler.telemetry import logs

LOG = logging.getLogger("pyscheduler.tests")


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
        {"nodes": 3, "share": 0.2},
        id="numbers",
    ),
    pytest.param(
        "Synced nodes=%s share=%s done=%s name=%s text=%r",
        (3, 0.25, True, "3", 4),
        "Synced nodes=3 share=0.25 done=True name=3 text=4",
        {"nodes": 3, "share": 0.25, "done": True, "name": "3", "text": 4},
        id="numbers as they come",
    ),
    pytest.param(
        "Waited seconds=%s limit=%.1f",
        (float("inf"), float("nan")),
        "Waited seconds=inf limit=nan",
        {"seconds": "inf", "limit": "nan"},
        id="no numbers of JSON",
    ),
    pytest.param(
        "Said %s nodes=%d",
        ("a\nb\tc", 3),
        "Said a\\nb\\tc nodes=3",
        {"nodes": 3},
        id="a number after control characters",
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
def test_each_event_is_one_line(
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
    assert entry.pop("ts") > 1e12
    assert re.fullmatch(r"telemetry/test_logs\.py:\d+", entry.pop("caller"))
    assert entry.pop("v") == 0
    assert entry == fields


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("requested: pods=1, used: pods=2; all", 'requested: "pods=1", used: "pods=2"; all'),
        ("node=n1", '"node=n1"'),
        ("a == b, --flag=1 (x=2)", "a == b, --flag=1 (x=2)"),
        ('name="a b"', '"name=\\"a" b"'),
    ],
)
def test_text_that_looks_like_a_field_is_in_quotes(text: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A reader sees the words, and a program sees no field."""
    logs.configure(verbosity=2, json=False)
    LOG.warning("Refused pod=%s: %s", "a/b", text)
    assert capsys.readouterr().err.rstrip("\n").endswith(f"Refused pod=a/b: {shown}")


HOSTILE = [
    pytest.param(
        "\n2026-11-21T00:00:00.000000Z info pyscheduler Successfully bound pod=a/b node=n", id="a line of ours"
    ),
    pytest.param('x" pod=evil/pod y="', id="quotes"),
    pytest.param("x pod=evil/pod", id="a field"),
    pytest.param("\r\x1b[2K\x1b[1Aboo", id="a terminal's commands"),
    pytest.param("\u2028\u2029\x85\x9b31m", id="other ends of lines"),
    pytest.param("\\", id="a backslash"),
    pytest.param("\ud800", id="half a character"),
    pytest.param("x" * 1_000_000, id="a megabyte"),
    pytest.param("%s %d %(x)s {}", id="places"),
    pytest.param('{"pod":"evil/pod"}', id="JSON"),
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize(
    "message", ["Failed pod=%s text=%s", 'Failed pod=%s text="%s"', "Failed pod=%s: %s", "Failed pod=%s %r"]
)
def test_user_text_cannot_add_fields(message: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A name or an error is one value on one line: it adds no line, no field, and takes none away."""
    logs.configure(verbosity=2, json=False)
    LOG.warning(message, "a/b", text)
    (line,) = capsys.readouterr().err.splitlines()
    assert len(line) < 5000
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in line)
    fields = dict(re.findall(r'(?:^|\s)(\w+)=("(?:[^"\\]|\\.)*"|[^\s"]+)(?=[:\s]|$)', line))
    assert fields.pop("pod").rstrip(":") == "a/b"
    assert set(fields) <= {"text"}
    logs.configure(verbosity=2, json=True)
    LOG.warning(message, "a/b", text)
    (line,) = capsys.readouterr().err.splitlines()
    entry = json.loads(line)
    assert set(entry) - {"text"} == {"ts", "level", "logger", "caller", "v", "msg", "pod"}
    assert entry["pod"].rstrip(":") == "a/b"
    if len(text) < 1000 and "text" in entry:
        assert entry["text"] in {text, text.encode(errors="backslashreplace").decode()}


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("json_lines", [False, True], ids=["text", "json"])
def test_traceback_is_a_field_of_its_line(text: str, json_lines: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """The text of an error can neither begin a line nor add a field; the traceback is whole."""
    logs.configure(verbosity=0, json=json_lines)
    try:
        raise ValueError(text)
    except ValueError:
        LOG.exception("Failed pod=%s", "a/b")
    (line,) = capsys.readouterr().err.splitlines()
    if json_lines:
        entry = json.loads(line)
        assert set(entry) == {"ts", "level", "logger", "caller", "msg", "pod", "err", "exception"}
        assert len(entry["err"]) < 5000
        exception = entry["exception"]
    else:
        found = re.fullmatch(r'\S+ error pyscheduler\.tests Failed pod=a/b exception=("(?:[^"\\]|\\.)*")', line)
        assert found is not None
        exception = json.loads(found[1])
    assert exception.startswith("Traceback (most recent call last):\n")
    assert exception.endswith(f"ValueError: {text.encode(errors='backslashreplace').decode()}")


def test_error_without_text_keeps_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    """An error whose text cannot be read is logged like any other."""

    class BrokenError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    logs.configure(verbosity=0, json=True)
    LOG.error("Failed", exc_info=BrokenError())
    entry = json.loads(capsys.readouterr().err)
    assert entry["err"] == "<exception str() failed>"


@given(text=st.text(), json_lines=st.booleans())
def test_any_text_is_one_line(text: str, json_lines: bool) -> None:
    """Every text, as a field and in the middle of a message, gives one line that can be taken apart."""
    record = logging.LogRecord("pyscheduler.x", logging.WARNING, "", 0, "Said %s err=%s", (text, text), None)
    formatter = logs._JSONFormatter() if json_lines else logs._KeyValueFormatter()
    line = formatter.format(record)
    assert len(line.splitlines()) == 1
    if json_lines:
        assert json.loads(line)["err"] == text
    else:
        (value,) = re.findall(r' err=("(?:[^"\\]|\\.)*"|[^\s"]+)$', line)
        assert (json.loads(value) if value.startswith('"') else value) == text


def test_errors_have_no_verbosity_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    """A fault of the program has its text in `err`, and no `v`."""
    logs.configure(verbosity=0, json=True)
    LOG.error("Failed pod=%s", "a/b", exc_info=ValueError("fault"))
    entry = json.loads(capsys.readouterr().err)
    assert (entry["err"], entry["exception"]) == ("fault", "ValueError: fault")
    assert "v" not in entry


@pytest.mark.parametrize(
    ("level", "v"),
    [
        pytest.param(logging.DEBUG, 4, id="detail"),
        pytest.param(logging.INFO, 2, id="decisions"),
        pytest.param(logging.WARNING, 0, id="warnings"),
        pytest.param(logging.ERROR, None, id="errors"),
    ],
)
def test_json_lines_carry_their_verbosity(level: int, v: int | None, capsys: pytest.CaptureFixture[str]) -> None:
    """As with Kubernetes' components, `v` says at which -v a line is shown, and an error has none."""
    logs.configure(verbosity=4, json=True)
    LOG.log(level, "Said")
    assert json.loads(capsys.readouterr().err).get("v") == v


@pytest.mark.parametrize(
    ("verbosity", "shown"),
    [
        pytest.param(0, ["warning"], id="warnings"),
        pytest.param(2, ["info", "warning"], id="decisions"),
        pytest.param(4, ["debug", "info", "warning"], id="detail"),
    ],
)
def test_verbosity(verbosity: int, shown: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """0 shows warnings, 2 decisions, 4 everything, of plugins, too; other libraries are never louder than warnings."""
    logs.configure(verbosity=verbosity, json=False)
    for logger in (LOG, logging.getLogger("pyscheduler_batch.sessions.eviction")):
        logger.debug("debug")
        logger.info("info")
        logger.warning("warning")
        assert [line.split()[-1] for line in capsys.readouterr().err.splitlines()] == shown
    logging.getLogger("asyncio").info("other")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("verbosity", "vmodule", "shown"),
    [
        pytest.param(0, "", False, id="warnings only"),
        pytest.param(2, "", True, id="decisions"),
        pytest.param(2, "decision=0", False, id="turned off"),
        pytest.param(0, "decision=2", True, id="turned on"),
    ],
)
def test_verbosity_of_decisions(levels: None, verbosity: int, vmodule: str, shown: bool) -> None:
    """The logger of stories has the verbosity of the program, or that which --vmodule names."""
    logging.getLogger("decision")
    logs.configure(verbosity=verbosity, json=False, vmodule=parse_vmodule(vmodule) if vmodule else None)
    assert logging.getLogger("decision").isEnabledFor(logging.INFO) is shown


def test_a_message_that_does_not_fit_its_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    """A message without arguments is not touched, and a mapping fills names."""
    logs.configure(verbosity=2, json=False)
    LOG.warning("100% of %s")
    LOG.warning("%(a)s", {"a": "b c"})
    assert [line.split(" ", 3)[3] for line in capsys.readouterr().err.splitlines()] == ["100% of %s", "b c"]


# --- levels of modules, and streams -------------------------------------------------------------


@pytest.fixture
def levels() -> Iterator[None]:
    """Give no module a level of its own afterwards."""
    yield
    logs.configure(verbosity=2, json=False)
    assert logging.getLoggerClass() is logging.Logger


@pytest.mark.parametrize(
    ("pattern", "name", "detailed"),
    [
        pytest.param("scheduling_cycle=4", "pyscheduler.scheduler.scheduling_cycle", True, id="by its last part"),
        pytest.param("scheduling_cycle=4", "pyscheduler.scheduler.binding_cycle", False, id="another"),
        pytest.param("*_cycle=4", "pyscheduler.scheduler.binding_cycle", True, id="with a star"),
        pytest.param("queue/*=4", "pyscheduler.queue.nominator", True, id="by its folder"),
        pytest.param("queue/*=4", "pyscheduler.scheduler.queue", False, id="not by a name that is no folder"),
        pytest.param("a=0,scheduling_cycle=4", "pyscheduler.scheduler.scheduling_cycle", True, id="the second pattern"),
        pytest.param("sessions/*=4", "pyscheduler_batch.sessions.source", True, id="of an installed plugin"),
        pytest.param("queue=4", "somebody.queue", False, id="not of others"),
    ],
)
@pytest.mark.parametrize("known", [True, False], ids=["made before", "made after"])
def test_levels_of_modules(
    levels: None, monkeypatch: pytest.MonkeyPatch, pattern: str, name: str, detailed: bool, known: bool
) -> None:
    """`--vmodule` counts for loggers that are there, and for those that are made later."""
    if known:
        logging.getLogger(name)
    else:
        # For the test only: a module keeps its logger, and changes of levels reach none that is not in the table.
        monkeypatch.delitem(logging.root.manager.loggerDict, name, raising=False)
    logs.configure(verbosity=2, json=False, vmodule=parse_vmodule(pattern))
    assert logging.getLogger(name).isEnabledFor(logging.DEBUG) is detailed
    logs.configure(verbosity=2, json=False)
    assert not logging.getLogger(name).isEnabledFor(logging.DEBUG)


def test_streams_can_be_split(capsys: pytest.CaptureFixture[str]) -> None:
    """Errors go to standard error, all else to standard output."""
    logs.configure(verbosity=2, json=False, split_stream=True)
    LOG.error("broken")
    LOG.warning("odd")
    LOG.info("well")
    out = capsys.readouterr()
    assert [line.split()[-1] for line in out.err.splitlines()] == ["broken"]
    assert [line.split()[-1] for line in out.out.splitlines()] == ["odd", "well"]

"""Every field with every kind of value, and two of them wrong at once: refused in lines, or read and shown."""

from __future__ import annotations

import itertools
import typing
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from pyscheduler.config.dump import dump
from pyscheduler.config.fields import fields_of, is_record
from pyscheduler.config.load import loads
from pyscheduler.config.types import API_VERSION, KIND, Configuration
from pyscheduler.framework import ConfigError
from pyscheduler.framework.in_tree_args import IN_TREE_ARGS

#: As they are written in a flow mapping.
VALUES = (
    "null", "''", "x", "0", "1", "-1", "5.0", "5.5", "'1'", "yes", "[]", "{}", "[null]", "[{}]", "{a: b}", "2147483648",
    "18446744073709551616", "1e39", "0x10000000000000000", "10s", "-5s", "!!str 5", "aGVsbG8=", '"a\\nb"',
)  # fmt: skip
HEADER = f"apiVersion: {API_VERSION}\nkind: {KIND}\n"
DEFAULT = loads(HEADER)
#: As many levels below an args class or the configuration are looked at.
DEPTH = 5


def places(kind: Any, depth: int = DEPTH) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every field below a class, and of the items of its lists."""
    for key, field in fields_of(kind).items():
        yield (key,)
        inner: Any = field.type
        below: tuple[str | int, ...] = (key,)
        for arm in (inner, *typing.get_args(inner)):
            if typing.get_origin(arm) in {tuple, list}:
                inner, below = typing.get_args(arm)[0], (key, 0)
                yield below
            elif is_record(arm):
                inner = arm
        if is_record(inner) and depth > 1:
            yield from ((*below, *rest) for rest in places(inner, depth - 1))


def written(path: tuple[str | int, ...], value: str) -> str:
    """Return a flow collection with the value at the path."""
    for step in reversed(path):
        value = f"[{value}]" if isinstance(step, int) else f"{{{step}: {value}}}"
    return value


def outcome(text: str) -> str:
    """Read a text, and what it shows; refusals are lines, and anything but a `ConfigError` is a mistake of ours."""
    try:
        configuration = loads(f"{HEADER}{text}\n")
    except ConfigError as error:
        return "refused" if error.problems and all(len(each.splitlines()) == 1 for each in error.problems) else "odd"
    if configuration != DEFAULT:
        assert loads(dump(configuration)) == configuration
    return "read"


def args_of(name: str, args: str) -> str:
    """Return a profile with the args of one plugin."""
    return f"profiles: [{{pluginConfig: [{{name: {name}, args: {args}}}]}}]"


@pytest.mark.slow
def test_every_field_with_every_value() -> None:
    """Nothing that stands anywhere can do worse than be refused; what is read shows, and reads back the same."""
    counts: Counter[str] = Counter()
    paths = [(path, "") for path in places(Configuration)]
    paths += [(path, name) for name, kind in IN_TREE_ARGS.items() for path in places(kind)]
    for (path, name), value in itertools.product(paths, VALUES):
        text = written(path, value)
        counts[outcome(args_of(name, text) if name else text[1:-1])] += 1
    print(f"{len(paths)} fields: {dict(counts)}")  # noqa: T201 - how often each came about
    assert counts["odd"] == 0
    assert len(paths) > 200
    assert min(counts["read"], counts["refused"]) > 500


@pytest.mark.slow
def test_args_with_two_mistakes() -> None:
    """The second shows although the first is there."""
    counts: Counter[str] = Counter()
    for name, kind in IN_TREE_ARGS.items():
        keys = ("kind", "apiVersion", "unknown", *fields_of(kind))
        for (one, other), value in itertools.product(itertools.combinations(keys, 2), ("1", "x", "null", "[{a: 1}]")):
            counts[outcome(args_of(name, f"{{{one}: {value}, {other}: {value}}}"))] += 1
    print(dict(counts))  # noqa: T201 - the same
    assert counts["odd"] == 0
    assert counts["refused"] > 200
    assert counts["read"] > 10

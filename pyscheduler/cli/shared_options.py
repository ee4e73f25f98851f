"""Command line options that several commands have."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import click

from pyscheduler.flags.declaration import LEVEL, FlagValue

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["block_option", "feature_gates_option", "logging_options", "objects_option"]

P = ParamSpec("P")
R = TypeVar("R")


def block_option(command: Callable[P, R]) -> Callable[P, R]:
    """Add `--block`, as parameter `blocked`."""
    return click.option(
        "--block",
        "blocked",
        multiple=True,
        metavar="NAME",
        help="Ignore the plugins of this distribution or entry point, as if it were not installed; repeatable.",
    )(command)


def feature_gates_option(command: Callable[P, R]) -> Callable[P, R]:
    """Add `--feature-gates`; it may be repeated, and the parameter is one comma-separated text."""
    return click.option(
        "--feature-gates",
        multiple=True,
        callback=lambda _ctx, _param, given: ",".join(given),
        metavar="A=true,B=false",
        help="Set kube-scheduler's feature gates; the defaults are those of Kubernetes 1.36. Repeatable.",
    )(command)


def objects_option(text: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Add `--objects`, whose parameter is a tuple of file names; `text` is its help."""
    return click.option("--objects", multiple=True, metavar="FILE", help=text)


def logging_options(*, default: int = 2) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Add `-v` and `--logging-format`, and set up logging before the command runs."""

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        @click.option(
            "-v",
            "--v",
            "verbosity",
            type=FlagValue(LEVEL, "N"),
            default=default,
            show_default=True,
            metavar="N",
            help="Log verbosity: 0 warnings, 2 decisions, 4 details.",
        )
        @click.option(
            "--logging-format",
            type=click.Choice(["text", "json"]),
            default="text",
            show_default=True,
            help="Format of the log lines.",
        )
        @click.option(
            "--log-format",
            "old_format",
            type=click.Choice(["text", "json"]),
            hidden=True,
            help="Old name of --logging-format.",
        )
        @functools.wraps(command)
        def wrapped(*args: object, verbosity: int, logging_format: str, old_format: str | None, **kwargs: object) -> R:
            from pyscheduler.telemetry.logs import configure

            configure(verbosity=verbosity, json=(old_format or logging_format) == "json")
            return command(*args, **kwargs)

        return wrapped

    return decorate

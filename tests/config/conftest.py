"""Configuration texts for the tests of this room."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest

from pyscheduler.config.load import loads
from pyscheduler.framework import ConfigError

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def config_text() -> Callable[[str], str]:
    """Complete a text with kind and version."""
    return lambda text: HEADER + textwrap.dedent(text)


@pytest.fixture
def problems_in(config_text: Callable[[str], str]) -> Callable[..., list[str]]:
    """Return what is wrong with a text that lacks kind and version."""

    def problems(text: str, **arguments: object) -> list[str]:
        try:
            loads(config_text(text), **arguments)  # type: ignore[arg-type]  # handed through
        except ConfigError as error:
            return list(error.problems)
        return []

    return problems

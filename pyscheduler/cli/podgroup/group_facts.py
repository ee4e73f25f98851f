"""Columns that other Python packages add to `pyscheduler podgroup`, such as the quota that is reserved for a group.

A class that implements `FactReader` returns the values of one column.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import click

from pyscheduler.cli.added_commands import added

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyscheduler.podgroup import GroupDirectory, GroupState
    from pyscheduler.scheduler.ports import ClusterClient

__all__ = ["FactReader", "GroupFact", "fact_headings", "fact_readers"]


@attrs.frozen(kw_only=True)
class GroupFact:
    """A fact about one group."""

    #: The cell of the wide table, and the line of the description; "" for neither.
    cell: str = ""
    line: str = ""
    #: What it adds to the status in JSON and YAML.
    data: Mapping[str, Any]
    #: Why the group waits; "" for another reason.
    reason: str = ""


class FactReader(Protocol):
    """The facts of one heading; one object for each directory of groups."""

    async def read(
        self, client: ClusterClient, directory: GroupDirectory, namespace: str, warn: Callable[[str], None]
    ) -> None:
        """Read from the API server what the groups of a namespace ("" for all) need; optional.

        `warn` is called for a kind that may not be listed.
        """

    def fact(self, state: GroupState) -> GroupFact:
        """Return the fact about a group, by what was read."""
        ...


@cache
def _classes() -> Mapping[str, type[FactReader]]:
    """Return the classes of readers by heading; what cannot be loaded is reported on stderr once, and passed over."""
    found = {}
    for heading, target in added("GROUP_FACTS").items():
        module, _, name = target.partition(":")
        try:
            found[heading] = getattr(import_module(module), name)
        except Exception as error:  # noqa: BLE001 - another distribution's code may raise anything
            click.echo(f"warning: {heading} of groups is left out, because of {target}: {error!r}", err=True)
    return found


def fact_headings() -> Iterable[str]:
    """Return the headings of the facts of all distributions."""
    return _classes().keys()


def fact_readers() -> dict[str, FactReader]:
    """Return new readers of all distributions, by heading."""
    return {heading: made() for heading, made in _classes().items()}

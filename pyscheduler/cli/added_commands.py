"""The additions of other distributions to the command line.

An entry point in the group `pyscheduler.commands` names a light module. Its `COMMANDS` has by name of a command the
module with a click command named `command`, and one line of help. Its `SUBJECTS` has by word, as in `pyscheduler
explain job NAME`, the function that explains such a thing, as `module:function`: it gets the options of `explain`,
both words as `pods`, and returns the exit code. Its `GROUP_FACTS` has by heading what `pyscheduler podgroup` shows of a
group beside its own columns (`podgroup.group_facts`).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

__all__ = ["added"]


def added(attribute: str) -> dict[str, Any]:
    """Return the table of that name of all distributions; of two entries of one name, the first counts.

    A distribution whose module cannot be imported is reported on stderr in one line, and passed over.
    """
    from importlib.metadata import entry_points

    found: dict[str, Any] = {}
    for point in sorted(entry_points(group="pyscheduler.commands"), key=lambda each: each.name):
        try:
            table = dict(getattr(import_module(point.value), attribute, {}))
        except Exception as error:  # noqa: BLE001 - another distribution's code may raise anything
            click.echo(f"warning: commands of {point.value} are left out: {error!r}", err=True)
            continue
        found |= {name: entry for name, entry in table.items() if name not in found}
    return found

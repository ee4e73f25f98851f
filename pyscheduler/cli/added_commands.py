"""The additions of other distributions to the command line.

An entry point in the group `pyscheduler.commands` names a module that imports quickly. The module may have these
tables:

- `COMMANDS`: for each command, the module whose `command` is a click command, and one line of help.
- `SUBJECTS`: for each word that may follow `pyscheduler explain`, such as `job` in `explain job NAME`, a function as
  `module:function`. It gets the options of `explain`, with both words as `pods`, and returns the exit code.
- `GROUP_FACTS`: for each heading, a fact that `pyscheduler podgroup` shows beside its own columns (see
  `podgroup.group_facts`).
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

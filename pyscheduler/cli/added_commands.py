"""Find what other Python packages add to the `pyscheduler` command line.

Such a package declares an entry point in the group `pyscheduler.commands`. The entry point names a module, which may
define these dicts:

- `COMMANDS` adds commands. It maps the name of a command to a module and one line of help. The module's attribute
  `command` is a click command.
- `SUBJECTS` adds words to `explain`, such as `job` in `pyscheduler explain job NAME`. It maps a word to
  `module:function`. This function gets `ExplainOptions` and returns the exit code.
- `GROUP_FACTS` adds columns to `pyscheduler podgroup` (see `podgroup.group_facts`). It maps a heading to a class.
- `POD_STEPS` adds rows to the table of `pyscheduler explain POD` (see `job_steps`).
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

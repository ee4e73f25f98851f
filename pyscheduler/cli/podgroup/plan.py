"""`pyscheduler podgroup plan`: print the groups that the plugin PodGrouper would make for the workloads in a file."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pyscheduler.cli.error_output import print_line
from pyscheduler.framework.errors import ConfigError
from pyscheduler.runtime.assembly.discovery import discover

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["print_plans"]

_DISTRIBUTION: Final = "kube-pyscheduler-podgrouper"


def print_plans(path: str, blocked: Sequence[str]) -> int:
    """Print one answer per line; return the exit code, 1 if a case cannot be read.

    Raises `ConfigError` if the file cannot be read, or if the distribution with the rules is missing or blocked.
    """
    cases, table = _modules(blocked)
    rows = table.third_party_rows(discover(blocked=blocked).extensions())
    failed = False
    for answer in cases.answer_cases(path, table.GrouperTable((*table.GROUPERS, *rows))):
        failed = failed or "error" in answer
        print_line(msgspec.json.encode(answer))
    return int(failed)


def _modules(blocked: Sequence[str]) -> tuple[Any, Any]:
    """Return the modules with the reader of cases and with the table of kinds."""
    if _DISTRIBUTION not in blocked:
        try:
            return import_module("pyscheduler_podgrouper.cases"), import_module("pyscheduler_podgrouper.table")
        except ModuleNotFoundError as error:
            if error.name != "pyscheduler_podgrouper":
                raise
    raise ConfigError(f'the plugin "PodGrouper" is not installed; run "pip install {_DISTRIBUTION}"')

"""Register the command `pyscheduler webhook`, and the column `Reserved` in the output of `pyscheduler podgroup`.

pyscheduler finds this module through the package's entry point in the group `pyscheduler.commands`.
"""

from __future__ import annotations

from typing import Final

__all__ = ["COMMANDS", "GROUP_FACTS"]

COMMANDS: Final = {
    "webhook": ("pyscheduler_quota.cli.webhook", "Keep reserved quota for the groups that reserved it."),
}
"""Command: module with a click command named `command`, and one line of help."""

GROUP_FACTS: Final = {"Reserved": "pyscheduler_quota.cli.group_facts:ReservedQuota"}
"""Heading in the output of `pyscheduler podgroup`: the reader of the facts."""

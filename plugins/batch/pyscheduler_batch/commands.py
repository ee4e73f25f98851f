"""The commands of this distribution; an entry point in the group `pyscheduler.commands` names this module."""

from __future__ import annotations

from typing import Final

__all__ = ["COMMANDS", "SUBJECTS"]

COMMANDS: Final = {
    "queue": ("pyscheduler_batch.cli.queue.command", "Show batch queues, and why a job waits."),
    "binder": ("pyscheduler_batch.cli.binder", "Bind pods by the BindRequests of a scheduler."),
}
"""Command: module with a click command named `command`, and one line of help."""

SUBJECTS: Final = {"job": "pyscheduler_batch.cli.queue.command:explain_job"}
"""Word behind `pyscheduler explain`: the function that explains."""

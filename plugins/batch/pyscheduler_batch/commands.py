"""Additions of the batch package to the command line, such as `pyscheduler queue` and `pyscheduler binder`.

pyscheduler finds this module through the package's entry point in the group `pyscheduler.commands`.
"""

from __future__ import annotations

from typing import Final

__all__ = ["COMMANDS", "POD_STEPS", "SUBJECTS"]

COMMANDS: Final = {
    "queue": ("pyscheduler_batch.cli.queue.command", "Show batch queues, and why a job waits."),
    "binder": ("pyscheduler_batch.cli.binder", "Bind pods by the BindRequests of a scheduler."),
}
"""Command: module with a click command named `command`, and one line of help."""

SUBJECTS: Final = {"job": "pyscheduler_batch.cli.queue.command:explain_job"}
"""Word behind `pyscheduler explain`: the function that explains."""

POD_STEPS: Final = {"batch": "pyscheduler_batch.cli.queue.pod_steps:steps_of_pod"}
"""Name: the function that returns the steps of a pod's job."""

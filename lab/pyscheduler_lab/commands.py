"""The commands that the lab adds to `pyscheduler`."""

from __future__ import annotations

from typing import Final

__all__ = ["COMMANDS"]

COMMANDS: Final = {
    "simulate": ("pyscheduler_lab.cli.simulate", "Run scenarios, or replay a trace of jobs, in virtual time."),
    "lab": ("pyscheduler_lab.cli.lab", "Study scheduling without a cluster; `lab -h` lists the commands."),
    "demo-gang": ("pyscheduler_lab.demo.gang_demo", "Schedule gangs that compete for too few GPUs."),
    "demo-batch": ("pyscheduler_lab.demo.batch_demo", "Let teams share GPUs by quota, borrow and reclaim."),
}
"""Command: module with a click command named `command`, and one line of help."""

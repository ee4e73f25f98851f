"""Additions of the lab to the command line: `pyscheduler simulate`, `lab`, `demo-gang` and `demo-batch`.

pyscheduler finds this module through the package's entry point in the group `pyscheduler.commands`. `COMMANDS` maps the
name of a command to a module (its attribute `command` is a click command) and one line of help.
"""

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

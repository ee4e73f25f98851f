"""What this program says it is."""

from __future__ import annotations

import platform
import sys

__all__ = ["version_text"]


def version_text(value: str) -> str:
    """Return one line with the versions; for `raw`, all that is known, field by field."""
    from importlib.metadata import version

    ours, python = version("kube-pyscheduler"), sys.version.split()[0]
    if value != "raw":
        return f"pyscheduler {ours} (kube-scheduler 1.36), Python {python}"
    fields = {
        "Major": "1",
        "Minor": "36",
        "Version": ours,
        "Python": python,
        "Implementation": platform.python_implementation(),
        "Platform": f"{platform.system().lower()}/{platform.machine()}",
    }
    return "version.Info{" + ", ".join(f'{name}:"{text}"' for name, text in fields.items()) + "}"

"""The version of pyscheduler, and the version of Kubernetes whose scheduler it emulates.

Differs from kube-scheduler: `git_version` in the metric `kubernetes_build_info` is pyscheduler's own version.
"""

from __future__ import annotations

import platform
import sys
from typing import Final

__all__ = ["build_labels", "compatibility_labels", "version_text"]

#: The emulated version of Kubernetes, and the oldest version for which gates can be set.
_LIKE: Final = "1.36"
_OLDEST: Final = "1.35"


def build_labels() -> dict[str, str]:
    """Return the labels of `kubernetes_build_info`: `git_version` is this program's own version."""
    from importlib.metadata import version

    major, minor = _LIKE.split(".")
    known = {
        "major": major,
        "minor": minor,
        "git_version": f"v{version('kube-pyscheduler')}",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
    # Labels that only a Go build fills in.
    return {**dict.fromkeys(("git_commit", "git_tree_state", "build_date", "go_version"), ""), **known}


def compatibility_labels() -> dict[str, str]:
    """Return the labels of `version_info`: the emulated versions, under kube-scheduler's component name."""
    return {"component": "kube", "binary": _LIKE, "emulation": _LIKE, "min_compat": _OLDEST}


def version_text(value: str) -> str:
    """Return one line with the versions; for `raw`, every field."""
    from importlib.metadata import version

    from pyscheduler.framework.hooks import PLUGIN_API

    ours, python = version("kube-pyscheduler"), sys.version.split()[0]
    if value != "raw":
        return f"pyscheduler {ours} (kube-scheduler {_LIKE}, plugin API {PLUGIN_API}), Python {python}"
    fields = {
        "Major": "1",
        "Minor": "36",
        "Version": ours,
        "Python": python,
        "Implementation": platform.python_implementation(),
        "Platform": f"{platform.system().lower()}/{platform.machine()}",
    }
    return "version.Info{" + ", ".join(f'{name}:"{text}"' for name, text in fields.items()) + "}"

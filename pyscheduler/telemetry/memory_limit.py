"""Find how much memory the process may use before the kernel kills it.

The result is the smallest of the machine's memory and the memory limits of the process's cgroups.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["memory_limit_bytes"]


def memory_limit_bytes(root: str = "/") -> float:
    """Return the smallest limit of the cgroup and the groups above it, at most the memory of the machine; in bytes."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for file in _limit_files(Path(root)):
        try:
            limits.append(int(file.read_text(encoding="ascii")))
        except (OSError, ValueError):  # no such group, or "max": no limit
            continue
    return float(min(limits))


def _limit_files(root: Path) -> list[Path]:
    """Return the files that may have a limit, of cgroup v2 and v1."""
    groups = root / "sys" / "fs" / "cgroup"
    try:
        lines = (root / "proc" / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    files: list[Path] = []
    for line in lines:
        _, controllers, name = line.split(":", 2)
        # Within a container the path is seen from the host in v1, and does not exist; its own group is the top then.
        for path in (Path(name), *Path(name).parents):
            if not controllers:
                files.append(groups / path.relative_to("/") / "memory.max")
            elif "memory" in controllers.split(","):
                files.append(groups / "memory" / path.relative_to("/") / "memory.limit_in_bytes")
    return files

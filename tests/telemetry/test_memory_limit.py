"""The memory that a process may use, from its cgroup or its machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyscheduler.telemetry.memory_limit import memory_limit_bytes

MACHINE = memory_limit_bytes("/no/such/folder")


@pytest.mark.parametrize(
    ("cgroup", "files", "limit"),
    [
        pytest.param("0::/\n", {"memory.max": "1048576\n"}, 1 << 20, id="v2 in a container"),
        pytest.param("0::/\n", {"memory.max": "max\n"}, MACHINE, id="v2 without a limit"),
        pytest.param(
            "0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": "4096"}, 4096, id="limit of the group above"
        ),
        pytest.param(
            "4:memory:/docker/x\n0::/\n", {"memory/memory.limit_in_bytes": "8192\n"}, 8192, id="v1 in a container"
        ),
        pytest.param(
            "4:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, MACHINE, id="v1 without a limit"
        ),
        pytest.param("", {}, MACHINE, id="no cgroup"),
    ],
)
def test_limit_is_the_smallest_of_the_groups(tmp_path: Path, cgroup: str, files: dict[str, str], limit: float) -> None:
    """The limit of the process's group or of one above it counts, else the memory of the machine."""
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text(cgroup)
    for name, text in files.items():
        file = tmp_path / "sys" / "fs" / "cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert memory_limit_bytes(str(tmp_path)) == limit


def test_limit_exists_on_this_machine() -> None:
    """Every machine has some memory."""
    assert 0 < memory_limit_bytes() <= MACHINE

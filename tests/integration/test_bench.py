"""`make bench` runs, and compares with what it wrote earlier."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the benchmarks as `make bench` does."""
    return subprocess.run(
        [sys.executable, "-m", "tests.bench", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_a_row_is_measured_and_compared(tmp_path: Path) -> None:
    """JSON goes out, and comes back in as the column to compare with; the target stands beside."""
    first = bench("--short", "--only", "help", "--only", "cycle-small-distinct", "-o", "json")
    assert first.returncode == 0, first.stderr
    found = json.loads(first.stdout)["rows"]
    assert set(found) == {"help", "cycle-small-distinct"}
    assert found["cycle-small-distinct"]["pods_per_second"] > 0
    earlier = tmp_path / "before.json"
    earlier.write_text(first.stdout)
    second = bench("--short", "--only", "help", "--compare", str(earlier))
    assert second.returncode == 0, second.stderr
    line = second.stdout.splitlines()[1]
    assert line.startswith("pyscheduler --help ")
    assert "< 0.3 s" in line
    assert line.rstrip().endswith("%")


def test_the_client_path_is_measured_over_http() -> None:
    """First list, relist and reaction run against a server in a process of its own."""
    done = bench("--short", "--only", "sync", "--only", "relist-changed", "--only", "reaction", "-o", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["rows"]
    assert set(found) == {"sync", "relist-changed", "reaction"}
    assert found["sync"]["sync_cpu_seconds"] > 0
    assert found["relist-changed"]["longest_hold_ms"] > 0
    assert 0 < found["reaction"]["reaction_p50_ms"] <= found["reaction"]["reaction_p99_ms"]


def test_the_search_for_victims_is_measured() -> None:
    """Both when it succeeds and when it is in vain, with the time for which it holds the loop."""
    done = bench("--short", "--only", "preemption", "-o", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["rows"]
    assert set(found) == {"preemption", "preemption-in-vain"}
    for row in found.values():
        assert row["search_ms"] > 0
        assert row["longest_hold_ms"] > 0


def test_waiting_pods_are_measured() -> None:
    """What ten thousand waits take, and how long a verdict for all of them."""
    done = bench("--short", "--only", "waiting", "-o", "json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["rows"].values()
    assert 0 < found["waiting_mib"] < 3
    assert found["seconds"] > 0


def test_what_cannot_be_measured_or_compared(tmp_path: Path) -> None:
    """Mistakes are one line."""
    assert bench("--only", "nothing").stderr.startswith("Error: no such row; there are cycle-small, ")
    path = tmp_path / "before.json"
    assert bench("--only", "help", "--compare", str(path)).stderr.startswith(f"Error: {path} holds no earlier result")

"""`kubectl queue get`: limits of other resources than those of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.batch.queue.test_queue import Run, pod, with_objects

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs `kubectl queue`."""
    return Run(capsys)


def test_get_shows_the_limits_that_hold_pods(run: Run, tmp_path: Path) -> None:
    """A limit of another resource than the table's has a row of its own, unless --resource names one resource."""
    memory = {"quota": 0, "limit": 9000}
    spec = {"resources": {"cpu": {"quota": 0, "limit": 500}, "gpu": {"quota": 2, "limit": -1}, "memory": memory}}
    team = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "team"}, "spec": spec}
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "job", "namespace": "default"},
        "spec": {"minMember": 1, "queue": "team"},
    }
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    objects = with_objects(tmp_path, team, group, pod("job", containers=[container]))
    rows = [line.split() for line in run("get", "team", "--no-headers", objects=objects).splitlines()[:2]]
    assert [row[:6] for row in rows] == [
        ["team", "kai", "Open", "nvidia.com/gpu", "2", "unlimited"],
        ["cpu", "0", "500m", "0", "0", "1"],
    ]
    (line, *_) = run("get", "team", "--no-headers", "--resource", "gpu", objects=objects).splitlines()
    assert "nvidia.com/gpu" in line
    assert "500m" not in run("get", "team", "--resource", "gpu", objects=objects)

"""`explain --objects` with a snapshot of a scheduler."""

from __future__ import annotations

import asyncio
import io
import random
import zipfile
from pathlib import Path

import msgspec
import pytest

from kube_objects.clock import LoopClock
from pyscheduler.api import Node, Pod, decode
from pyscheduler.cluster.readonly_cluster import ReadOnlyCluster, objects_of
from pyscheduler.config.load import load, loads
from pyscheduler.scheduler.assembly import build
from pyscheduler.serving.snapshot_archive import SnapshotArchive
from pyscheduler.testing import node_manifest, pod_manifest
from tests.cli.conftest import Run

#: A profile of the name that the pods have, which does not look at amounts.
_PROFILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: pyscheduler
    plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}
"""


async def snapshot() -> bytes:
    """Return the snapshot of a scheduler that knows a node, a pod that fills it, and one that waits."""
    objects = {
        Node: [node_manifest("n1", allocatable={"cpu": "4"})],
        Pod: [pod_manifest("bound", node_name="n1", requests={"cpu": "3"}), pod_manifest("p", requests={"cpu": "2"})],
    }
    read = {cls: [decode(cls, msgspec.json.encode(one)) for one in manifests] for cls, manifests in objects.items()}
    scheduler = build(load(None), ReadOnlyCluster(objects_of(read)), LoopClock(), random.Random(1))
    await scheduler.start()
    archive = SnapshotArchive(scheduler=scheduler, configuration=lambda: loads(_PROFILE), is_leader=lambda: True)
    return b"".join([part async for part in archive.parts()])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the file of a snapshot."""
    found = tmp_path / "snapshot.zip"
    found.write_bytes(asyncio.run(snapshot()))
    return found


def test_snapshot_is_a_cluster_in_a_file(run: Run, file: Path) -> None:
    """A pod of the snapshot is evaluated on the nodes of the snapshot."""
    code, out, err = run("explain", "p", "--objects", file)
    assert (code, err) == (0, "")
    assert "0/1 nodes are available: 1 Insufficient cpu." in out


def test_snapshot_has_the_configuration(run: Run, file: Path) -> None:
    """`--config` with the same file evaluates the pod with the profile of the scheduler."""
    code, out, err = run("explain", "p", "--objects", file, "--config", file)
    assert (code, err) == (0, "")
    assert "would be placed on n1" in out
    assert str(file) in out


@pytest.mark.parametrize("kept", [200, -40], ids=["beginning", "no directory"])
def test_incomplete_snapshot_is_one_error(run: Run, file: Path, kept: int) -> None:
    """A download that was cut off is named as such."""
    file.write_bytes(file.read_bytes()[:kept])
    code, _, err = run("explain", "p", "--objects", file)
    assert code == 1
    assert err.startswith(f"error: {file}: the zip file is incomplete or damaged: ")
    assert err.endswith("; fetch it again\n")


def test_other_zip_file_is_an_error(run: Run, file: Path) -> None:
    """A zip file without objects is no snapshot."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("a.yaml", "kind: Node")
    file.write_bytes(data.getvalue())
    code, _, err = run("explain", "p", "--objects", file)
    assert (code, err) == (1, f"error: {file}: no objects/ in this zip file; give one of /debug/snapshot\n")
    code, _, err = run("config", "--config", file)
    assert (code, err) == (1, f"error: {file}: no configuration.json in this zip file; give one of /debug/snapshot\n")

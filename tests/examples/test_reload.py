"""`pyscheduler run --reload`: the process runs again with the changed plugin, under the same process id."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyscheduler.testing import node_manifest, pod_manifest
from tests.examples.conftest import Start, bound_pod
from tests.processes import PATIENCE_SECONDS

PLUGIN = """
from pyscheduler import ScorePlugin

class Favourite(ScorePlugin):
    def score(self, state, pod, node):
        return 100 if node.name == "FAVOURITE" else 0
"""
HOOKS = """
from pyscheduler import hookimpl

@hookimpl
def pyscheduler_register(registry):
    registry.add("Favourite", "favourite.plugin:Favourite")
"""
PROFILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: pyscheduler
  plugins: {multiPoint: {enabled: [{name: Favourite, weight: 1000}]}}
"""


def write(folder: Path, favourite: str) -> None:
    """Write the plugin as `pip install -e` would make it visible: a package and its metadata on the path."""
    files = {
        "favourite/__init__.py": "",
        "favourite/hooks.py": HOOKS,
        "favourite-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: favourite\nVersion: 1.0\n",
        "favourite-1.0.dist-info/entry_points.txt": "[pyscheduler]\nfavourite = favourite.hooks\n",
        "profile.yaml": PROFILE,
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    change(folder, PLUGIN.replace("FAVOURITE", favourite))


def change(folder: Path, text: str) -> None:
    """Replace the plugin at once, as an editor does."""
    new = folder / "plugin.new"
    new.write_text(text)
    new.rename(folder / "favourite/plugin.py")


def create(server: str, plural: str, manifest: dict[str, Any]) -> None:
    """Create an object."""
    body = json.dumps(manifest).encode()
    request = urllib.request.Request(f"{server}/api/v1/{plural}", body, {"content-type": "application/json"})
    urllib.request.urlopen(request, timeout=PATIENCE_SECONDS).close()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Poll another process's output until the condition is true."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen"
        time.sleep(0.05)  # another process: there is nothing to await


@pytest.mark.slow  # four starts of a scheduler, and a cluster
def test_changed_plugin_decides_after_the_restart(tmp_path: Path, start: Start) -> None:
    """A broken change is reported and not loaded; the next one is, after the lease was released."""
    write(tmp_path, "a")
    config = tmp_path / "kubeconfig"
    cluster = start("cluster", "--port", "0", "--write-kubeconfig", str(config))
    server = next(word for word in cluster.line().split() if "http" in word).removeprefix("url=")
    for name in "ab":
        create(server, "nodes", node_manifest(name))
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    arguments = ("--reload", "--kubeconfig", str(config), "--config", str(tmp_path / "profile.yaml"))
    scheduler = start("run", *arguments, "--secure-port", "0", env=env)
    create(server, "namespaces/default/pods", pod_manifest("first"))
    assert bound_pod(server, "first")["spec"]["nodeName"] == "a"

    change(tmp_path, PLUGIN.replace("FAVOURITE", "b").replace("def score", "def def"))
    wait_for(lambda: "Code is not reloaded" in scheduler.log, "the report of the syntax error")
    change(tmp_path, PLUGIN.replace("FAVOURITE", "b"))
    wait_for(lambda: scheduler.log.count("Starting scheduler") == 2, "the restart")
    assert "Code has changed; restarting" in scheduler.log
    create(server, "namespaces/default/pods", pod_manifest("second"))
    assert bound_pod(server, "second")["spec"]["nodeName"] == "b"
    assert scheduler.process.poll() is None, "it is the same process"

    change(tmp_path, "raise ValueError('no plugin today')\n")
    wait_for(lambda: "waiting for a change of the code" in scheduler.log, "the wait after an error")
    assert "no plugin today" in scheduler.log
    change(tmp_path, PLUGIN.replace("FAVOURITE", "a"))
    create(server, "namespaces/default/pods", pod_manifest("third"))
    assert bound_pod(server, "third")["spec"]["nodeName"] == "a"
    assert scheduler.stop() == 0

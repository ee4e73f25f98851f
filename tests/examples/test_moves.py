"""The pages "How to move from ...": their commands succeed, and pods of the old system are scheduled."""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from pyscheduler.testing import node_manifest, pod_manifest
from tests import processes
from tests.deploy.conftest import shell_commands
from tests.examples.conftest import ROOT, Start
from tests.processes import PATIENCE_SECONDS

Json = dict[str, Any]
PAGES = ROOT / "docs/how-to"
CRDS = "configs/crds"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on this machine"),
]


@attrs.frozen
class Move:
    """A page, the cluster that its reader has, and pods that are scheduled at its end."""

    page: str
    #: Files that the old system has applied.
    installed: tuple[str, ...] = ()
    objects: tuple[Json, ...] = ()
    #: What the reader has chosen for `FILE`.
    file: str = ""
    probes: tuple[Json, ...] = ()


def config_map(namespace: str, name: str, key: str, text: str) -> Json:
    """Return a ConfigMap with one file."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {key: text}}


def custom(api_version: str, kind: str, name: str, spec: Json, *, namespace: str = "default") -> Json:
    """Return an object of an API group."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def members(scheduler: str, **metadata: Any) -> tuple[Json, ...]:
    """Return two pods with these labels or annotations."""
    return tuple(pod_manifest(f"member-{number}", scheduler_name=scheduler, **metadata) for number in range(2))


VOLCANO = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
SCHEDULER_PLUGINS = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
  resourceNamespace: scheduler-plugins
  resourceName: scheduler-plugins-scheduler
profiles:
- schedulerName: scheduler-plugins-scheduler
  plugins:
    multiPoint:
      enabled:
      - name: Coscheduling
      disabled:
      - name: PrioritySort
  pluginConfig:
  - args:
      permitWaitingTimeSeconds: 10
    name: Coscheduling
"""
GANG = "gang.scheduling.koordinator.sh"
KAI_AMOUNTS = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
MOVES = (
    Move(
        "move-from-kai",
        installed=(f"{CRDS}/queues.scheduling.run.ai.yaml", f"{CRDS}/podgroups.scheduling.run.ai.yaml"),
        file="configs/batch-kai.yaml",
        probes=(
            custom(
                "scheduling.run.ai/v2",
                "Queue",
                "team",
                {"resources": dict.fromkeys(("cpu", "gpu", "memory"), KAI_AMOUNTS)},
                namespace="",
            ),
            custom("scheduling.run.ai/v2alpha2", "PodGroup", "g", {"minMember": 2, "queue": "team"}),
            *members("pyscheduler-kai", annotations={"pod-group-name": "g"}),
        ),
    ),
    Move(
        "move-from-volcano",
        installed=(f"{CRDS}/queues.scheduling.volcano.sh.yaml", f"{CRDS}/podgroups.scheduling.volcano.sh.yaml"),
        objects=(
            config_map("volcano-system", "volcano-scheduler-configmap", "volcano-scheduler.conf", VOLCANO),
            custom("scheduling.volcano.sh/v1beta1", "Queue", "default", {"weight": 1}, namespace=""),
        ),
        probes=(
            custom("scheduling.volcano.sh/v1beta1", "PodGroup", "g", {"minMember": 2}),
            *members("volcano", annotations={"scheduling.k8s.io/group-name": "g"}),
        ),
    ),
    Move(
        "move-from-kube-batch",
        file="configs/batch-kube-batch.yaml",
        probes=(
            custom("scheduling.incubator.k8s.io/v1alpha1", "Queue", "default", {"weight": 1}, namespace=""),
            custom("scheduling.incubator.k8s.io/v1alpha1", "PodGroup", "g", {"minMember": 2, "queue": "default"}),
            *members("pyscheduler-kube-batch", annotations={"scheduling.k8s.io/group-name": "g"}),
        ),
    ),
    Move(
        "move-from-coscheduling",
        objects=(config_map("scheduler-plugins", "scheduler-config", "scheduler-config.yaml", SCHEDULER_PLUGINS),),
        probes=(
            custom("scheduling.x-k8s.io/v1alpha1", "PodGroup", "g", {"minMember": 2}),
            *members("scheduler-plugins-scheduler", labels={"scheduling.x-k8s.io/pod-group": "g"}),
        ),
    ),
    Move(
        "move-from-podgroup-scheduler-framework",
        file="configs/coscheduling-ming.yaml",
        probes=(
            custom("scheduling.ming.io/v1", "PodGroup", "g", {"minMember": 2}),
            *members("pyscheduler-coscheduling-ming", labels={"pod-group.scheduling.ming.io": "g"}),
        ),
    ),
    Move(
        "move-from-koordinator",
        probes=members("koord-scheduler", annotations={f"{GANG}/name": "g", f"{GANG}/min-available": "2"}),
    ),
    Move("move-from-kube-scheduler", probes=members("pyscheduler")),
)


def test_each_page_is_run() -> None:
    """No page about a move is left out."""
    assert {move.page for move in MOVES} == {path.stem for path in PAGES.glob("move-from-*.md")}


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.page)
def test_the_commands_of_the_page_schedule_the_pods_of_the_old_system(move: Move, start: Start, tmp_path: Path) -> None:
    """In an empty folder, with an empty home, each command succeeds; then all members of a gang are bound."""
    home = tmp_path / "home"
    (home / ".kube").mkdir(parents=True)
    work = tmp_path / "work"
    work.mkdir()
    for folder in ("configs", "examples"):
        (work / folder).symlink_to(ROOT / folder)
    namespaces = {each["metadata"].get("namespace", "") for each in move.objects} - {"", "default"}
    objects = [
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in namespaces),
        node_manifest("n", allocatable={"cpu": "8", "memory": "8Gi", "pods": "20"}),
        *move.objects,
    ]
    (tmp_path / "objects.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    loads = [word for file in (*move.installed, str(tmp_path / "objects.json")) for word in ("--load", file)]
    kubeconfig = home / ".kube/config"
    serve = ("cluster", "--port", "0", "--tls", "--authorization", "rbac", "--write-kubeconfig", str(kubeconfig))
    assert start(*serve, *loads).line().startswith("serving")

    # Programs as a reader has them, and no variables besides.
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    launcher = bin_folder / "pyscheduler"
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pyscheduler "$@"\n')
    launcher.chmod(0o755)
    env = {"HOME": str(home), "PATH": f"{bin_folder}:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    for line in shell_commands(PAGES / f"{move.page}.md"):
        command = re.sub(r"\bFILE\b", move.file or "FILE", line)
        if command.startswith("pyscheduler run "):
            words = command.replace("~", str(home)).split()[1:]
            # Only the number of the port differs from the page: other programs run on this machine.
            config = words.index("--config") + 1
            words[config] = str(work / words[config])
            scheduler = start(*words, "--secure-port=0")
        else:
            done = processes.run("bash", "-euo", "pipefail", "-c", command, env=env, cwd=work)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"

    probes = tmp_path / "probes.json"
    probes.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(move.probes)}))
    processes.run("kubectl", "apply", "-f", probes, env=env, check=True)
    assert bound(env, ("member-0", "member-1")), scheduler.log


def bound(env: dict[str, str], names: Sequence[str]) -> bool:
    """Wait until the pods have a node."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    path = "-o=jsonpath={.items[*].spec.nodeName}"
    while time.monotonic() < deadline:
        done = processes.run("kubectl", "get", "pods", path, env=env, check=True)
        if len(done.stdout.split()) == len(names):
            return True
        time.sleep(0.1)
    return False

"""examples/06 to 09, the ways of scheduling groups of pods: what their pages promise, with kubectl and without."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

from pyscheduler.podgroup import GroupDirectory
from pyscheduler.podgroup.wire import IN_TREE_PODGROUPS
from pyscheduler.testing import FakeCluster
from tests import processes
from tests.examples.conftest import ROOT, Start
from tests.processes import PATIENCE_SECONDS

FOLDERS = ("06-coscheduling", "07-ming-compatible", "08-gang", "09-in-tree-gang")
#: The rows of a page's table: group, how many of its pods are bound, and why not the others.
ROW = re.compile(r"^\| `([\w-]+)` \| (\d+) of (\d+) \| (.*) \|$", re.MULTILINE)


def page_of(folder: str) -> str:
    """Return the page of an example."""
    return (ROOT / "examples" / folder / "README.md").read_text(encoding="utf-8")


def commands_of(folder: str) -> list[list[str]]:
    """Return the three commands of a page that start everything, word by word; each has a block of its own."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", page_of(folder), re.DOTALL | re.MULTILINE)
    found = [[word for word in shlex.split(block) if word != "&"] for block in blocks[:3]]
    assert [words[:2] for words in found] == [
        ["pyscheduler", "cluster"],
        ["pyscheduler", "run"],
        ["kubectl", "--kubeconfig"],
    ]
    return found


def options_of(words: list[str], name: str) -> list[str]:
    """Return the values of an option in a command."""
    return [words[index + 1] for index, word in enumerate(words) if word == name]


@pytest.mark.parametrize("folder", FOLDERS)
async def test_groups_meet_the_ends_that_the_page_tells(folder: str, pyscheduler_cluster: FakeCluster) -> None:
    """Each row of the page's table is what happens: so many pods are bound, and the others say why not."""
    serve, run, apply = commands_of(folder)
    cluster = pyscheduler_cluster
    for file in options_of(serve, "--load"):
        cluster.server.load((ROOT / file).read_bytes())
    if "GenericWorkload=true" in options_of(serve, "--feature-gates"):
        cluster.serve(IN_TREE_PODGROUPS)
    (file,) = options_of(run, "--config")
    config = (ROOT / file).read_text(encoding="utf-8")
    framework = cluster.framework(config=config, feature_gates=",".join(options_of(run, "--feature-gates")))
    cluster.server.load((ROOT / apply[-1]).read_bytes())
    await framework.settle()
    directory = GroupDirectory()
    for pod in cluster.pods():
        directory.pod_added(pod)
        assert directory.of(pod) is not None, pod.key
    found = {state.id.name: Counter(bool(pod.node_name) for pod in state.children()) for state in directory}
    rows = ROW.findall(page_of(folder))
    assert {name: (int(bound), int(total)) for name, bound, total, _ in rows} == {
        name: (counts[True], counts.total()) for name, counts in found.items()
    }
    for name, _, _, why in rows:
        messages = [framework.result(pod.name).message for pod in cluster.pods() if pod.name.startswith(f"{name}-")]
        for quoted in re.findall(r"says `([^`]+)`", why):
            assert any(quoted in message for message in messages), (name, messages)
    await framework.close()


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="kubectl is not on this machine: its session with groups is not tested"
)
@pytest.mark.parametrize(
    ("folder", "last"),
    [
        pytest.param("06-coscheduling", ["pod/train-3", "pod/sweep-2"], id="coscheduling"),
        pytest.param("09-in-tree-gang", ["pod/train-3", "pod/web-1"], id="in-tree"),
    ],
)
def test_the_commands_work_over_http(folder: str, last: list[str], start: Start, tmp_path: Path) -> None:
    """The commands of a page, as they stand there; then kubectl podgroup shows what its table tells."""
    kubeconfig = str(tmp_path / "embedded.yaml")
    serve, run, apply = [
        [kubeconfig if word == "embedded.yaml" else word for word in each] for each in commands_of(folder)
    ]
    start(*serve[1:], "--port", "0").line()
    start(*run[1:], "--health-port", "0")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | {"PATH": path, "KUBECONFIG": kubeconfig}
    processes.run(*apply, cwd=ROOT, env=env, check=True)
    limit = f"--timeout={PATIENCE_SECONDS:.0f}s"
    processes.run("kubectl", "wait", "--for=condition=PodScheduled", limit, *last, env=env, check=True)
    shown = processes.run("kubectl", "podgroup", "get", "--no-headers", env=env, check=True)
    bound = {line.split()[0]: int(line.split()[4]) for line in shown.stdout.splitlines()}
    assert bound == {name: int(number) for name, number, _, _ in ROW.findall(page_of(folder))}

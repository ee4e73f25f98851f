"""The tutorial docs/tutorial/gpu-cluster.md: its commands do what the page says, with kubectl and without."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import attrs
import pytest

from pyscheduler.testing import FakeCluster
from tests import processes
from tests.examples.conftest import ROOT, Start
from tests.processes import PATIENCE_SECONDS
from tests.scheduler.measured import Measured

PAGE = ROOT / "docs/tutorial/gpu-cluster.md"
TEXT = PAGE.read_text(encoding="utf-8")
#: The rows of a table of pods: the name without its number, how many run, how many are pending.
PODS = re.compile(r"^\| `([\w-]+)` \| (\d+) \| (\d+) \|$", re.MULTILINE)
#: The rows of the table of events: the group, the reason, and a part of the message.
EVENTS = re.compile(r"^\| `([\w-]+)` \| `(\w+)` \| `([^|]+)` \|$", re.MULTILINE)
Counts = dict[str, tuple[int, int]]


@attrs.frozen
class Step:
    """What follows a heading: the commands, and the pods that there are afterwards."""

    commands: list[list[str]]
    pods: Counts
    events: list[tuple[str, str, str]]
    #: What the last `kubectl queue` prints, among other lines, as words.
    shown: list[list[str]]


def steps() -> list[Step]:
    """Return the numbered steps of the page."""
    found = []
    for part in re.split(r"^## \d\. .+$", TEXT.partition("\n## What next")[0], flags=re.MULTILINE)[1:]:
        blocks = re.findall(r"^```sh\n(.*?)^```$", part, re.DOTALL | re.MULTILINE)
        lines = [line.removesuffix("&") for block in blocks for line in block.splitlines()]
        # A redirection is the shell's: the command does not get it.
        commands = [[word for word in shlex.split(line) if not word.startswith("2>")] for line in lines]
        pods = {name: (int(running), int(pending)) for name, running, pending in PODS.findall(part)}
        every_block = re.findall(r"^```(\w*)\n(.*?)^```$", part, re.DOTALL | re.MULTILINE)
        shown = [line.split() for language, block in every_block if not language for line in block.splitlines()]
        found.append(Step(commands, pods, EVENTS.findall(part), shown))
    return found


def options_of(words: list[str], name: str) -> list[str]:
    """Return the values of an option in a command."""
    return [words[index + 1] for index, word in enumerate(words) if word == name]


def counts_of(pods: list[tuple[str, bool]]) -> Counts:
    """Return by name without its number how many pods have a node, and how many have none."""
    counts = Counter((name.rpartition("-")[0], has_node) for name, has_node in pods)
    return {name: (counts[name, True], counts[name, False]) for name, _ in counts}


def test_the_page_has_six_steps() -> None:
    """Every step but the first shows its pods, and one shows events."""
    found = steps()
    assert [bool(step.pods) for step in found] == [False, True, True, True, True, True]
    assert sum(len(step.events) for step in found) == 3


def test_the_queue_on_the_page_is_that_of_the_file() -> None:
    """The object that the page shows stands word for word in the file that the cluster loads."""
    (shown,) = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    assert shown in (ROOT / "examples/13-three-teams/queues.yaml").read_text(encoding="utf-8")


async def test_each_step_ends_as_the_page_says(pyscheduler_cluster: FakeCluster) -> None:
    """After each `kubectl apply` and `kubectl delete`, the pods of the table run, and the others wait."""
    cluster = pyscheduler_cluster
    first, *others = steps()
    serve, run, _ = first.commands
    for file in options_of(serve, "--load"):
        cluster.server.load((ROOT / file).read_bytes())
    (file,) = options_of(run, "--config")
    scheduler = Measured(cluster, config=(ROOT / file).read_text(encoding="utf-8").replace("%", "%%") + "# %s")
    await scheduler.start()
    for step in others:
        for verb, *rest in (words[1:] for words in step.commands):
            if verb == "apply":
                cluster.server.load((ROOT / rest[-1]).read_bytes())
            elif verb == "delete":
                for pod in cluster.pods():
                    if pod.name.startswith(f"{Path(rest[-1]).stem}-"):
                        cluster.delete_pod(pod.name)
        await cluster.clock.advance(1)
        for pod in cluster.pods():
            if pod.is_terminating:
                cluster.delete_pod(pod.name)  # as a kubelet does
        await cluster.clock.advance(1)
        assert counts_of([(pod.name, bool(pod.node_name)) for pod in cluster.pods()]) == step.pods
    await scheduler.stop()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on this machine")
def test_the_commands_work_over_http(start: Start, tmp_path: Path) -> None:
    """The commands of the page as they stand there, with kubectl; pods, amounts and events are those of the page."""
    kubeconfig = str(tmp_path / "embedded.yaml")
    first, *others = steps()
    serve, run, _ = first.commands
    server = start(*_replaced(serve[1:], "--write-kubeconfig", kubeconfig), "--port", "0")
    assert server.line().startswith("serving")
    start(*_replaced(_replaced(run[1:], "--kubeconfig", kubeconfig), "--health-port", "0"))

    env = os.environ | {"KUBECONFIG": kubeconfig}
    for step in others:
        for words in step.commands:
            if words[0] == "kubectl" and words[1] != "queue":
                processes.run(*words, cwd=ROOT, env=env, check=True)
        assert _settled(lambda: _pods(env), step.pods) == step.pods
        if step.events:
            wanted = dict.fromkeys(step.events, True)
            assert _settled(lambda step=step: _events(env, step.events), wanted) == wanted
        queue_command = next((words[2:] for words in step.commands if words[:2] == ["kubectl", "queue"]), None)
        if queue_command is not None:
            result = processes.run(sys.executable, "-m", "pyscheduler", "queue", *queue_command, env=env, check=True)
            printed = [line.split() for line in result.stdout.splitlines()]
            assert step.shown
            assert [line for line in step.shown if not any(_agree(line, each) for each in printed)] == []


def _agree(shown: list[str], printed: list[str]) -> bool:
    """Return whether the page shows this line; "…" at its end stands for the rest."""
    if shown[-1:] == ["…"]:
        return printed[: len(shown) - 1] == shown[:-1]
    return shown == printed


T = TypeVar("T")


def _settled(look: Callable[[], T], wanted: T) -> T:
    """Look until there is what is wanted, or patience ends; return what was seen last."""
    end = time.monotonic() + PATIENCE_SECONDS
    while (seen := look()) != wanted and time.monotonic() < end:
        pass
    return seen


def _get(env: Mapping[str, str], *words: str) -> list[dict[str, Any]]:
    """Return objects as kubectl gets them."""
    shown = processes.run("kubectl", "get", *words, "-o", "json", env=dict(env), check=True)
    items: list[dict[str, Any]] = json.loads(shown.stdout)["items"]
    return items


def _pods(env: Mapping[str, str]) -> Counts:
    pods = [each for each in _get(env, "pods") if "deletionTimestamp" not in each["metadata"]]
    return counts_of([(each["metadata"]["name"], each["status"].get("phase") == "Running") for each in pods])


def _events(env: Mapping[str, str], wanted: list[tuple[str, str, str]]) -> dict[tuple[str, str, str], bool]:
    """Return for each row of the page whether there is such an event."""
    events = _get(env, "events", "--field-selector", "involvedObject.kind=PodGroup")
    found = [(each["involvedObject"]["name"], each["reason"], each["message"]) for each in events]
    return {
        (group, event, text): any(
            (name, reason) == (group, event) and text.removesuffix("…") in message for name, reason, message in found
        )
        for group, event, text in wanted
    }


def _replaced(words: list[str], option: str, value: str) -> list[str]:
    """Return a command with another value of an option."""
    index = words.index(option) + 1
    return [*words[:index], value, *words[index + 1 :]]

"""What-if on a dump of the demo's cluster, compared with what the scheduler does on that dump over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyscheduler.cli.demo.openb_trace import openb_nodes, openb_pods
from pyscheduler_lab.data import FOLDER
from tests.integration.programs import FAST, Api, program
from tests.processes import PATIENCE_SECONDS

Object = dict[str, Any]

TRACE = FOLDER / "openb"
#: The last nodes of the demo, which have GPUs, and so many pods that some find no node.
NODES, PODS = 20, 150
#: How many of the pods have a node in the dump, or were tried.
PLACED = 90
_OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "task", "uid": "u-task", "controller": True}


def list_in(file: Path, objects: Sequence[Object], *, form: Callable[[Object], str] = json.dumps) -> Path:
    """Write objects as `kubectl get -o yaml` or `-o json` does; return the file."""
    file.write_text(form({"apiVersion": "v1", "kind": "List", "items": objects}))
    return file


async def serve_and_schedule(file: Path) -> tuple[list[Object], list[Object]]:
    """Load a file into `pyscheduler cluster`, let `pyscheduler run` try each pod; return nodes and pods."""
    async with program("cluster", "--port", "0", "--load", str(file)) as server:
        api = Api((await server.said("serving ")).split()[1], server)
        options = ("--master", api.url, "--config", str(FAST), "--health-port", "0", "--seed", "0")
        async with program("run", *options, "--leader-elect=false"):
            await until_each_was_tried(api)
        return await dumped(api, "Node", "nodes"), await dumped(api, "Pod", "pods")


async def until_each_was_tried(api: Api) -> None:
    """Wait until every pod runs, or has a condition that says why it does not."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            pods = await api.items("/api/v1/pods")
            if all(pod["spec"].get("nodeName") or is_refused(pod) for pod in pods):
                return
            await asyncio.sleep(0.5)


def is_refused(pod: Object) -> bool:
    """Return True if the scheduler has found no node for the pod."""
    return any(
        one["type"] == "PodScheduled" and one["status"] == "False" for one in pod["status"].get("conditions", ())
    )


async def dumped(api: Api, kind: str, plural: str) -> list[Object]:
    """Return the objects of a kind as `kubectl get -o yaml` prints them."""
    return [{"apiVersion": "v1", "kind": kind, **one} for one in await api.items(f"/api/v1/{plural}")]


def placements(pods: Sequence[Object]) -> dict[str, str]:
    """Return the node of each pod, "" for none."""
    return {one["metadata"]["name"]: one["spec"].get("nodeName") or "" for one in pods}


async def what_if(file: Path, *options: str) -> Object:
    """Return the answer of `pyscheduler lab whatif`."""
    arguments = ("lab", "whatif", "--objects", str(file), "--config", str(FAST), "-o", "json", *options)
    async with program(*arguments) as command:
        assert await command.ended() in {0, 3}, command.err
    found: Object = json.loads("\n".join(command.out))
    return found


def placements_in(answer: Object, before: Mapping[str, str]) -> dict[str, str]:
    """Return where an answer says that the pods are."""
    found = dict(before)
    for one in (*answer["moved"], *answer["placed"]):
        found[one["pod"].partition("/")[2]] = one["to"]
    for one in (*answer["pending"], *answer["still_pending"]):
        found[one["pod"].partition("/")[2]] = ""
    for one in answer["lost"]:
        del found[one["pod"].partition("/")[2]]
    return found


@pytest.fixture
async def demo_cluster(tmp_path: Path) -> list[Object]:
    """Return a dump of the demo's cluster: the first pods have a node, and the others have not been tried."""
    nodes = [*openb_nodes(TRACE)][-NODES:]
    pods: list[Any] = [*openb_pods(TRACE, scheduler_name="pyscheduler")][:PODS]
    for pod in pods:
        pod["metadata"]["ownerReferences"] = [_OWNER]
    found_nodes, found_pods = await serve_and_schedule(list_in(tmp_path / "begin.json", [*nodes, *pods[:PLACED]]))
    return [*found_nodes, *found_pods, *pods[PLACED:]]


async def test_pending_pods_get_the_nodes_that_run_gives_them(demo_cluster: list[Object], tmp_path: Path) -> None:
    """On the same dump, what-if and `run` on `cluster --load` place the same pods on the same nodes."""
    file = list_in(tmp_path / "dump.yaml", demo_cluster, form=yaml.safe_dump)
    before = placements([one for one in demo_cluster if one["kind"] == "Pod"])
    answer = await what_if(file)
    _, pods = await serve_and_schedule(file)
    after = placements(pods)
    assert placements_in(answer, before) == after
    assert answer["placed_after"] == sum(map(bool, after.values()))
    assert answer["placed"], "the dump leaves nothing to do"
    assert answer["still_pending"], "all pods fit"
    # A message counts the nodes at the last attempt, which comes later in the what-if.
    assert all(one["message"].startswith(f"0/{NODES} nodes are available: ") for one in answer["still_pending"])


async def test_pods_of_a_removed_node_go_where_run_puts_them(demo_cluster: list[Object], tmp_path: Path) -> None:
    """`--remove-node` equals a dump without the node, in which its pods are pending."""
    file = list_in(tmp_path / "dump.json", demo_cluster)
    before = placements([one for one in demo_cluster if one["kind"] == "Pod"])
    removed = next(node for node in before.values() if node)
    answer = await what_if(file, "--remove-node", removed)
    left = [one for one in demo_cluster if one["metadata"]["name"] != removed]
    for one in left:
        if one["spec"].get("nodeName") == removed:
            del one["spec"]["nodeName"], one["status"]
    _, pods = await serve_and_schedule(list_in(tmp_path / "load.json", left))
    assert placements_in(answer, before) == placements(pods)
    evicted = {name for name, node in before.items() if node == removed}
    assert {one["pod"].partition("/")[2] for one in (*answer["moved"], *answer["pending"])} == evicted

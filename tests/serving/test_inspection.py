"""Pages of the HTTPS port about what the scheduler knows, and who may read them."""

from __future__ import annotations

import asyncio
import io
import json
import random
import time
import zipfile
from typing import Any

import pytest

from kube_objects.clock import LoopClock
from pyscheduler.api import ObjectMeta, Pod, PodSpec
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.config.load import load
from pyscheduler.scheduler.assembly import Settings, build
from pyscheduler.serving.inspection import InspectionPages
from pyscheduler.stories.book import StoryBook
from pyscheduler.stories.record import Story
from pyscheduler.testing import node_manifest, pod_manifest
from tests.serving.test_secure_serving import ANONYMOUS, Port, SecuredCluster, role, world

__all__ = ["world"]

_RBAC = "rbac.authorization.k8s.io"


def viewer(user: str, namespace: str) -> dict[str, Any]:
    """Return a RoleBinding that lets a user get the pods of a namespace."""
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": user, "namespace": namespace},
        "subjects": [{"kind": "User", "name": user, "apiGroup": _RBAC}],
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "pod-reader"},
    }


def pod_of(key: str, uid: str) -> Pod:
    """Return a pod without anything to schedule."""
    namespace, _, name = key.partition("/")
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace, uid=uid), spec=PodSpec(scheduler_name="batch"))


async def opened(world: SecuredCluster, book: StoryBook, *, is_leader: bool = True) -> Port:
    """Open a port with the pages of a scheduler; jane may get pods in `web`, and root everything."""
    transport = InProcessTransport(world.cluster.router, token="root")
    settings = Settings(stories=book)
    scheduler = build(load(None), transport, LoopClock(), random.Random(1), settings=settings)
    await scheduler.start()
    world.closing.append(scheduler.stop)
    pods = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}
    world.cluster.add(role("pod-reader", "nobody", pods)[0], viewer("jane", "web"))
    return await world.open(
        inspection=InspectionPages(
            scheduler=scheduler, book=book, is_leader=lambda: is_leader, configuration=lambda: load(None)
        )
    )


def led_book() -> StoryBook:
    """Return the book of a leader."""
    book = StoryBook(LoopClock())
    book.begin()
    return book


@pytest.mark.slow
async def test_story_has_runs_and_is_for_readers_of_the_pod(world: SecuredCluster) -> None:
    """A user who may get pods in the namespace reads the stories, the newest pod first; other users get 403."""
    book = led_book()
    book.waits(pod_of("web/p", "1"), "Unschedulable", "no room", plugins=("NodeResourcesFit",))
    book.waits(pod_of("web/p", "1"), "Unschedulable", "no room", plugins=("NodeResourcesFit",))
    book.bound(pod_of("web/p", "1"), "n1")
    book.waits(pod_of("web/p", "2"), "SchedulingGated", plugins=("SchedulingGates",))
    port = await opened(world, book)
    status, text = await port.get("/debug/story/web/p", "jane")
    assert (status, port.headers["Content-Type"]) == (200, "application/json")
    answer = json.loads(text)
    assert (answer["pod"], answer["isLeader"]) == ("web/p", True)
    second, first = answer["stories"]
    assert (second["uid"], second["pending"], second["reason"]) == ("2", True, "SchedulingGated")
    assert [*first] == [
        *("pod", "uid", "profile", "pending", "reason", "queue", "created", "firstSeen", "runs", "omitted"),
    ]
    assert (first["profile"], first["pending"], first["reason"], first["created"]) == ("batch", False, "Scheduled", "")
    run, bound = first["runs"]
    assert (bound["reason"], bound["node"]) == ("Scheduled", "n1")
    assert run.pop("first") <= run.pop("last") <= bound["first"]
    assert run == {
        "reason": "Unschedulable",
        "message": "no room",
        "count": 2,
        "plugins": ["NodeResourcesFit"],
        "node": "",
        "wokenBy": {},
        "others": [],
        "othersHidden": 0,
        "countIsLeast": False,
    }
    for user, name in (("", ANONYMOUS), ("prometheus", "prometheus")):
        status, text = await port.get("/debug/story/web/p", user)
        message = (
            f'pods "p" is forbidden: User "{name}" cannot get resource "pods" in API group "" in the namespace "web"'
        )
        refused = json.loads(text)
        assert (status, refused["message"], refused["details"]) == (403, message, {"name": "p", "kind": "pods"})


@pytest.mark.slow
async def test_story_of_another_namespace_is_forbidden(world: SecuredCluster) -> None:
    """A tenant cannot find out whether a pod of another namespace exists; the path alone grants nothing."""
    book = led_book()
    book.waits(pod_of("ml/train", "1"), "Unschedulable")
    port = await opened(world, book)
    for path in ("/debug/story/ml/train", "/debug/story/ml/none", "/debug/story/ml/", "/debug/story/web%2Fp/ml/train"):
        assert (await port.get(path, "jane"))[0] == 403
    assert (await port.get("/debug/story/ml/train", "jane", method="POST"))[0] == 403
    world.cluster.add(*role("paths", "jane", {"verbs": ["get"], "nonResourceURLs": ["/debug/*"]}))
    assert (await port.get("/debug/story/ml/train", "jane"))[0] == 403
    assert (await port.get("/debug/story/ml/train", "root"))[0] == 200


@pytest.mark.slow
async def test_pod_without_a_story_has_an_empty_list(world: SecuredCluster) -> None:
    """The answer says which profiles have stories, and whether the replica leads; a standby shows pods that wait."""
    book = StoryBook(LoopClock())
    book.waits(pod_of("web/p", "1"), "SchedulingGated")
    port = await opened(world, book, is_leader=False)
    status, text = await port.get("/debug/story/web/none", "jane")
    assert (status, json.loads(text)) == (
        200,
        {"pod": "web/none", "isLeader": False, "stories": [], "profiles": ["pyscheduler"]},
    )
    status, text = await port.get("/debug/story/web/p", "jane")
    assert (status, json.loads(text)["isLeader"]) == (200, False)


@pytest.mark.slow
async def test_pods_of_other_namespaces_are_hidden(world: SecuredCluster) -> None:
    """A victim's story names the preemptor only to readers of both namespaces; the number is never hidden."""
    book = led_book()
    book.waits(pod_of("web/p", "1"), "Unschedulable", others=["web/q", "ml/a", "ml/b", "ops/c"])
    port = await opened(world, book)

    async def others(user: str) -> tuple[list[str], int]:
        (story,) = json.loads((await port.get("/debug/story/web/p", user))[1])["stories"]
        (run,) = story["runs"]
        return run["others"], run["othersHidden"]

    assert await others("jane") == (["web/q"], 3)
    assert await others("root") == (["web/q", "ml/a", "ml/b", "ops/c"], 0)
    world.cluster.add(viewer("jane", "ops"))
    assert await others("jane") == (["web/q"], 3)  # the decision is cached for ten seconds


class SlowBook(StoryBook):
    """A book with so many stories that a search takes 20 ms."""

    def of(self, pod: str) -> list[Story]:
        """Search slowly."""
        time.sleep(0.02)
        return super().of(pod)


@pytest.mark.slow
async def test_searches_for_stories_leave_time_for_the_scheduler(world: SecuredCluster) -> None:
    """Searches take at most a fifth of the time, for any number of requests."""
    book = SlowBook(LoopClock())
    book.waits(pod_of("web/p", "1"), "Unschedulable")
    port = await opened(world, book)
    began = time.monotonic()
    answers = await asyncio.gather(*(port.get("/debug/story/web/p", "jane") for _ in range(10)))
    assert {status for status, _ in answers} == {200}
    assert time.monotonic() - began >= 10 * 0.1


# --- /debug/state --------------------------------------------------------------------------------


@pytest.mark.slow
async def test_state_shows_queue_pods_and_nodes(world: SecuredCluster) -> None:
    """Rows of pods have no messages; a reader needs the permission for the path, and a pod's reader has it not."""
    world.cluster.add(
        node_manifest("n1", allocatable={"cpu": "4", "memory": "8Gi", "example.com/gpu": "2"}),
        pod_manifest("bound", node_name="n1", requests={"cpu": "1", "memory": "1Gi"}),
        pod_manifest("p", requests={"cpu": "8"}),
    )
    book = led_book()
    port = await opened(world, book)
    book.waits(pod_of("default/p", next(iter(book.pending))), "Unschedulable", "no room", plugins=("NodeResourcesFit",))
    assert (await port.get("/debug/state", "jane"))[0] == 403
    world.cluster.add(*role("state", "prometheus", {"verbs": ["get"], "nonResourceURLs": ["/debug/state"]}))
    status, text = await port.get("/debug/state", "prometheus")
    state = json.loads(text)
    (pod,), (node,) = state["pods"], state["nodes"]
    assert (status, state["isLeader"], state["continue"]) == (200, True, "")
    empty = dict.fromkeys(("active", "backoff", "unschedulable", "gated", "inFlight", "binding"), 0)
    assert state["queue"] == {**empty, "active": 1}
    assert (state["podCount"], state["nodeCount"], state["time"][-1]) == (1, 1, "Z")
    assert (pod["pod"], pod["queue"], pod["reason"], pod["count"]) == ("default/p", "active", "Unschedulable", 1)
    assert (pod["plugins"], pod["node"]) == (["NodeResourcesFit"], "")
    assert "no room" not in text
    assert node == {
        "node": "n1",
        "unschedulable": False,
        "pods": 1,
        "nominated": 0,
        "allocatable": {"cpu": 4000, "memory": 8 << 30, "ephemeral-storage": 0, "example.com/gpu": 2, "pods": 110},
        "requested": {"cpu": 1000, "memory": 1 << 30, "ephemeral-storage": 0, "example.com/gpu": 0},
    }


@pytest.mark.slow
async def test_state_refuses_wrong_parameters(world: SecuredCluster) -> None:
    """The message names the parameter; a limit above that of the page is lowered."""
    port = await opened(world, led_book())
    for query, message in (
        ("limit=x", 'limit: "x" is no number; give 1 to 200'),
        ("limit=-1", 'limit: "-1" is no number; give 1 to 200'),
        ("continue=x", "continue: not from an earlier page; begin without it"),
        ("continue=eyJ9", "continue: not from an earlier page; begin without it"),
    ):
        status, text = await port.get(f"/debug/state?{query}", "root")
        assert (status, json.loads(text)["message"]) == (400, message)
    assert (await port.get("/debug/state?limit=100000000000000000000", "root"))[0] == 200
    assert (await port.get("/debug/state", "root", method="PUT"))[0] == 405


# --- /debug/snapshot and /debug/stream -----------------------------------------------------------


@pytest.mark.slow
async def test_snapshot_and_stream_need_their_paths(world: SecuredCluster) -> None:
    """A reader of pods gets 403; a ClusterRole with the paths lets a reader in."""
    world.cluster.add(node_manifest("n1"), pod_manifest("p"))
    port = await opened(world, led_book())
    for path in ("/debug/snapshot", "/debug/stream"):
        assert (await port.get(path, "jane"))[0] == 403
        assert (await port.get(path, "root", method="POST"))[0] == 405
    paths = {"verbs": ["get"], "nonResourceURLs": ["/debug/snapshot"]}
    world.cluster.add(*role("snapshots", "prometheus", paths))
    status, data = await port.download("/debug/snapshot", "prometheus")
    assert (status, port.headers["Content-Type"]) == (200, "application/zip")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert {"objects/v1/Node.json", "objects/v1/Pod.json"} <= {*archive.namelist()}

"""Bindings: each ends as made, as refused, or as unknown with the cause; never as both, never twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyscheduler.api import Pod
from pyscheduler.framework.errors import APIError, ConflictError, ForbiddenError, NotFoundError, TransportError


class Scene:
    """A pod to bind."""

    def __init__(self, stage: Any) -> None:
        self.stage = stage
        stage.add_node("n1")
        stage.add_node("n2")
        stage.add_pod("p")
        self.pod: Pod = stage.states()[0]

    async def bind(self, node: str = "n1", seconds: float = 60.0) -> Exception | None:
        """Bind the pod, however long the retries take; return what was raised."""
        task = asyncio.create_task(self.stage.client.bind(self.pod, node))
        await self.stage.clock.advance(seconds)
        assert task.done(), "it takes longer than that"
        return task.exception()

    def fault(self, **keywords: Any) -> Any:
        return self.stage.fault(path="/binding$", **keywords)

    @property
    def node(self) -> str:
        """Where the pod is bound."""
        return self.stage.states()[0].node_name

    @property
    def bindings(self) -> int:
        """How often a pod has got a node: changes in the log from none to one."""
        collection = self.stage._record(("v1", "Pod"), "p", "default")[0]
        count = 0
        for change in collection.read(0, 1000):
            before = change.old is not None and "nodeName" in change.old.decode()["spec"]
            count += "nodeName" in change.record.decode()["spec"] and not before
        return count


@pytest.fixture
async def scene(stage: Any) -> Scene:
    """Set a pod and two nodes up."""
    return Scene(stage)


async def test_binding(scene: Scene) -> None:
    """One request, and the pod has its node."""
    sent = scene.stage.fault()
    assert await scene.bind(seconds=0) is None
    assert scene.node == "n1"
    assert sent.hits == 1


async def test_answer_lost_after_the_binding(scene: Scene) -> None:
    """The server bound the pod and the connection broke: it is bound, and nobody asks twice."""
    lost = scene.fault(lose="answer")
    assert await scene.bind(seconds=0) is None
    assert (scene.node, scene.bindings, lost.hits) == ("n1", 1, 1)


async def test_request_lost_before_the_binding(scene: Scene) -> None:
    """Nothing happened, so it is tried again."""
    lost = scene.fault(lose="request", times=2)
    assert await scene.bind() is None
    assert (scene.node, scene.bindings, lost.hits) == ("n1", 1, 2)
    assert scene.stage.warnings["request_retried"] == 2


@pytest.mark.parametrize("status", [429, 500, 503, 504])
async def test_server_in_trouble(scene: Scene, status: int) -> None:
    """Whether it says that nothing was done or leaves that open, the pod ends bound, once."""
    scene.fault(status=status, times=2)
    assert await scene.bind() is None
    assert (scene.node, scene.bindings) == ("n1", 1)


async def test_bound_to_another_node_meanwhile(scene: Scene) -> None:
    """A lost request for a pod that somebody else has bound is a conflict, not an unknown."""
    scene.stage.change(("v1", "Pod"), "p", "default", lambda pod: pod["spec"].update(nodeName="n2"))
    scene.fault(lose="request", times=1)
    error = await scene.bind()
    assert isinstance(error, ConflictError)
    assert "default/p is bound to n2, not to n1" in str(error)


@pytest.mark.parametrize("lose", ["", "request"], ids=["told", "lost"])
async def test_bound_already(scene: Scene, lose: str) -> None:
    """The same binding again is what was wanted; another one is refused."""
    await scene.bind("n1")
    if lose:
        scene.fault(lose=lose, times=2)
    assert await scene.bind("n1") is None
    refused = await scene.bind("n2")
    assert isinstance(refused, ConflictError)
    if not lose:
        assert (
            refused.said == 'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
        )
    assert (scene.node, scene.bindings) == ("n1", 1)


async def test_conflict_that_says_nothing_about_the_pod(scene: Scene) -> None:
    """A 409 for a pod without a node stays one: the scheduler looks at the pod again."""
    refused = scene.fault(status=409)
    assert isinstance(await scene.bind(), ConflictError)
    assert (scene.node, refused.hits) == ("", 1)


async def test_pod_is_gone(scene: Scene) -> None:
    """Deleted while the request was lost, or before it was sent."""
    scene.stage.remove_pod("p")
    assert isinstance(await scene.bind(), NotFoundError)
    scene.fault(lose="request", times=1)
    assert isinstance(await scene.bind(), NotFoundError)


async def test_namesake_is_not_bound(scene: Scene) -> None:
    """A pod made anew under the same name is another pod, told or lost."""
    scene.stage.remove_pod("p")
    scene.stage.add_pod("p")
    assert isinstance(await scene.bind(), NotFoundError)
    scene.fault(lose="request", times=1)
    error = await scene.bind()
    assert isinstance(error, NotFoundError)
    assert "deleted and made anew" in str(error)
    assert scene.node == ""


async def test_pod_that_is_being_deleted(scene: Scene) -> None:
    """The server's refusal is passed on in its own words."""
    mark = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    scene.stage.change(("v1", "Pod"), "p", "default", lambda pod: pod["metadata"].update(mark))
    error = await scene.bind()
    assert isinstance(error, ConflictError)
    assert "is being deleted, cannot be assigned to a host" in str(error)


async def test_nothing_can_be_found_out(scene: Scene) -> None:
    """Binding lost and pod unreadable: the first error is raised, as nobody knows better."""
    scene.fault(lose="answer")
    scene.stage.fault(method="GET", status=403)
    error = await scene.bind()
    assert isinstance(error, TransportError)
    assert "the connection was cut" in str(error)


async def test_tries_come_to_an_end(scene: Scene) -> None:
    """Five tries, each looked after."""
    lost = scene.fault(lose="request")
    assert isinstance(await scene.bind(), TransportError)
    assert lost.hits == 5
    scene.stage.cluster.faults.clear()
    failed = scene.fault(status=500)
    assert isinstance(await scene.bind(), APIError)
    assert failed.hits == 5


async def test_refused_permission_is_final(scene: Scene) -> None:
    """403 is neither asked about nor tried again."""
    scene.fault(status=403)
    asked = scene.stage.fault()
    assert isinstance(await scene.bind(seconds=0), ForbiddenError)
    assert asked.hits == 0  # the other fault comes first and took the one request there was

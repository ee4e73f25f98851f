"""List and watch when all goes well: every change told once, handlers that come late, selectors, priming."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kube_objects.kinds import NODES, PODS
from kube_testserver.virtual_time import settle
from pyscheduler.api import Pod
from pyscheduler.framework.errors import ForbiddenError, NotFoundError, UnauthorizedError
from pyscheduler.testing.builders import make_pod


async def test_first_list_is_told_and_then_every_change(stage: Any) -> None:
    """What is there is added, then what happens is told as it happens."""
    stage.add_pods("a", "b")
    pods, ledger = await stage.started()
    assert ledger.take() == ["add a", "add b"]
    stage.add_pod("c")
    stage.change_pod("a", colour="red")
    stage.remove_pod("b")
    await settle()
    assert ledger.take() == ["add c", "update a", "delete b"]
    assert pods.get("a", "default").labels == {"colour": "red"}
    assert pods.get("b", "default") is None
    assert len(pods) == 2
    stage.assert_equal(pods, ledger)


async def test_cluster_scoped_objects_are_found_by_bare_name(stage: Any) -> None:
    """Nodes have no namespace."""
    stage.add_node("n1")
    nodes, ledger = await stage.started(NODES)
    assert nodes.get("n1").name == "n1"
    assert [node.name for node in nodes] == ["n1"]
    stage.assert_equal(nodes, ledger)


async def test_not_synced_before_the_first_list_and_not_started_twice(stage: Any) -> None:
    """`synced` tells about the first list; a second start changes nothing."""
    pods = stage.informer()
    assert not pods.synced
    pods.start()
    pods.start()
    await settle()
    assert pods.synced
    assert stage.drop_watches() == 1


async def test_late_handler_is_told_what_is_there(stage: Any, ledger: Any) -> None:
    """A handler added after the sync gets `on_add` for everything at once, and changes from then on."""
    stage.add_pods("a", "b")
    pods, _ = await stage.started()
    ledger.listen(pods)
    assert sorted(ledger.take()) == ["add a", "add b"]
    stage.remove_pod("a")
    await settle()
    assert ledger.take() == ["delete a"]


async def test_handler_added_by_a_handler_hears_everything_once(stage: Any, ledger: Any) -> None:
    """Registering while an object is being announced neither loses nor repeats it."""
    pods = stage.informer()

    def register(pod: Pod) -> None:
        if pod.name == "a":
            ledger.listen(pods)

    pods.add_event_handler(on_add=register)
    stage.add_pods("a", "b")
    pods.start()
    await settle()
    assert ledger.take() == ["add a", "add b"]


@pytest.mark.parametrize("kind", [RuntimeError, asyncio.CancelledError, SystemExit])
async def test_handler_that_raises_stops_nobody(
    stage: Any, caplog: pytest.LogCaptureFixture, kind: type[BaseException]
) -> None:
    """A bug in one handler is counted and logged; the others and the watch go on, whatever it raised."""
    pods = stage.informer()

    def broken(*_: object) -> None:
        raise kind("no idea what to do")

    pods.add_event_handler(on_add=broken, on_update=broken, on_delete=broken)
    stage.add_pod("a")
    _, ledger = await stage.started()
    stage.change_pod("a", colour="red")
    stage.remove_pod("a")
    await settle()
    assert ledger.take() == ["add a", "update a", "delete a"]
    assert stage.warnings["handler_failed"] == 3
    assert "no idea what to do" in caplog.text
    assert "object=default/a" in caplog.text


async def test_selector_is_asked_of_the_server(stage: Any) -> None:
    """An object that stops matching is deleted as far as this informer goes."""
    stage.add_pods("a", "b")
    pods, ledger = await stage.started(field_selector="status.phase!=Succeeded,status.phase!=Failed")
    stage.change(("v1", "Pod"), "a", "default", lambda pod: pod["status"].update(phase="Succeeded"))
    await settle()
    assert ledger.take() == ["add a", "add b", "delete a"]
    assert [pod.name for pod in pods] == ["b"]


async def test_one_informer_per_kind_and_selector(stage: Any) -> None:
    """Asked twice, the client gives the same informer; who needs the kind makes it indispensable."""
    first = stage.informer(PODS, optional=True)
    assert stage.informer(PODS) is first
    assert stage.informer(PODS, field_selector="spec.nodeName=n1") is not first
    stage.fault(path="/pods", status=403)
    first.start()
    with pytest.raises(ForbiddenError):
        await first.wait_synced()


@pytest.mark.parametrize(
    ("status", "error"),
    [
        pytest.param(401, UnauthorizedError, id="credentials"),
        pytest.param(403, ForbiddenError, id="permission"),
        pytest.param(404, NotFoundError, id="not-served"),
    ],
)
async def test_refusal_of_the_first_list_is_raised(stage: Any, status: int, error: type[Exception]) -> None:
    """What keeps the first list from ever arriving ends the wait, naming verb and resource; synced it is not."""
    fault = stage.fault(path="/pods", status=status)
    pods = stage.informer()
    pods.start()
    with pytest.raises(error, match="list pods"):
        await pods.wait_synced()
    assert not pods.synced
    await stage.clock.advance(600)
    assert fault.hits == 1


async def test_refusal_after_the_sync_is_retried(stage: Any) -> None:
    """A 403 later on is a warning; nothing is forgotten, and what was missed is caught up on."""
    stage.add_pod("a")
    pods, ledger = await stage.started()
    fault = stage.fault(path="/pods", status=403)
    stage.drop_watches("cut")
    stage.add_pod("b")
    await stage.clock.advance(120)
    assert fault.hits > 2
    assert stage.warnings["watch_refused"] == fault.hits
    assert [pod.name for pod in pods] == ["a"]
    stage.cluster.faults.clear()
    await stage.clock.advance(60)
    assert ledger.take() == ["add a", "add b"]
    assert stage.warnings["relisted"] == 0
    stage.assert_equal(pods, ledger)


async def test_stop_ends_the_watch(stage: Any) -> None:
    """Stopped twice is stopped; before the start it does nothing."""
    idle = stage.informer(NODES)
    await idle.stop()
    pods, ledger = await stage.started()
    await pods.stop()
    await pods.stop()
    assert stage.drop_watches() == 0
    stage.add_pod("late")
    await stage.clock.advance(600)
    assert ledger.take() == []


class TestPrime:
    """Making the copy equal to given objects at once."""

    async def test_tells_the_difference_and_the_first_list_nothing_again(self, stage: Any, ledger: Any) -> None:
        """Objects are added, updated and deleted without a turn of the loop; the same states later tell nothing."""
        stage.add_pods("a", "b")
        states = stage.states()
        pods = stage.informer()
        ledger.listen(pods)
        pods.prime([make_pod("gone", uid="1"), states[0]])
        assert pods.synced
        pods.prime(states)
        assert ledger.take() == ["add gone", "add a", "add b", "delete gone"]
        pods.start()
        await settle()
        assert ledger.take() == []
        stage.change_pod("b", colour="red")
        await settle()
        assert ledger.take() == ["update b"]
        stage.assert_equal(pods, ledger)

    async def test_a_watch_that_is_behind_tells_nothing_twice(self, stage: Any) -> None:
        """What was primed ahead of the watch is old news when the watch brings it."""
        stage.add_pods("a", "b", "c")
        pods, ledger = await stage.started()
        ledger.take()
        stage.change_pod("a", colour="red")
        stage.change_pod("a", colour="blue")
        stage.change_pod("b", colour="red")
        stage.remove_pod("b")
        stage.remove_pod("c")
        stage.add_pod("c")
        stage.add_pod("d")
        pods.prime(stage.states())
        primed = ledger.take()
        assert sorted(primed) == sorted(["update a", "delete b", "delete c", "add c", "add d"])
        await settle()
        assert ledger.take() == []
        stage.assert_equal(pods, ledger)

    async def test_an_object_primed_away_may_come_back(self, stage: Any) -> None:
        """Who leaves a selection and rejoins it is seen again, under the same uid."""
        selector = "status.phase!=Succeeded"
        stage.add_pod("a")
        pods, ledger = await stage.started(field_selector=selector)
        stage.change(("v1", "Pod"), "a", "default", lambda pod: pod["status"].update(phase="Succeeded"))
        pods.prime([])
        await settle()
        stage.change(("v1", "Pod"), "a", "default", lambda pod: pod["status"].update(phase="Running"))
        await settle()
        assert ledger.take() == ["add a", "delete a", "add a"]

    async def test_objects_without_versions_are_compared_by_content(self, stage: Any, ledger: Any) -> None:
        """Builders and traces make objects that no server has numbered."""
        pods = stage.informer()
        ledger.listen(pods)
        pods.prime([make_pod("a", resource_version="", labels={"x": "1"})])
        pods.prime([make_pod("a", resource_version="", labels={"x": "1"})])
        pods.prime([make_pod("a", resource_version="", labels={"x": "2"})])
        assert ledger.take() == ["add a", "update a"]

    @pytest.mark.slow
    async def test_during_a_list_the_list_begins_again(self, stage: Any, turn_until: Any) -> None:
        """A list that is overtaken must not take away what was primed meanwhile."""
        stage.add_pods(*(f"p{number:04}" for number in range(1200)))
        pods = stage.informer()
        pods.start()
        await turn_until(lambda: len(pods) >= 600)
        before = next(iter(pods))
        stage.add_pod("a-new-one")
        stage.remove_pod(before.name)
        states = stage.states()
        calls: list[str] = []
        pods.add_event_handler(
            on_add=lambda pod: calls.append(f"add {pod.name}"), on_delete=lambda pod: calls.append(f"del {pod.name}")
        )
        calls.clear()
        pods.prime(states)
        told = list(calls)
        await settle()
        await stage.clock.advance(5)
        assert f"del {before.name}" in told
        assert calls == told
        assert stage.warnings["relisted"] == 1
        stage.assert_equal(pods)

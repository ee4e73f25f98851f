"""What can become of a list, objects that cannot be decoded, and how much the loop is held."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from kube_objects.kinds import NODES
from kube_testserver.virtual_time import settle
from pyscheduler.framework.errors import TransportError


def unreadable(item: dict[str, Any]) -> None:
    """Make a pod something that no decoder accepts."""
    item["spec"]["priority"] = "very"


def readable(item: dict[str, Any]) -> None:
    """Undo it."""
    item["spec"]["priority"] = 7


async def test_list_is_read_in_pages(stage: Any) -> None:
    """More objects than fit a page: all are told, once."""
    stage.add_pods(*(f"p{number:04}" for number in range(1101)))
    pages = stage.fault(method="GET", path="/pods$", delay_seconds=0.001)
    pods = stage.informer()
    told: list[str] = []
    pods.add_event_handler(on_add=lambda pod: told.append(pod.name))
    pods.start()
    await stage.clock.advance(1)
    assert pods.synced
    assert told == sorted(set(told))
    assert len(told) == 1101
    assert pages.hits == 4  # three pages and the watch
    stage.assert_equal(pods)


async def test_objects_that_change_while_they_are_listed(stage: Any) -> None:
    """Pages are all of one moment; what happens between them comes by the watch."""
    stage.add_pods(*(f"p{number:04}" for number in range(1100)))
    stage.fault(method="GET", path="/pods$", delay_seconds=1.0, times=3)
    pods = stage.informer()
    told: list[str] = []
    pods.add_event_handler(
        on_add=lambda pod: told.append(f"add {pod.name}"),
        on_update=lambda _, pod: told.append(f"update {pod.name}"),
        on_delete=lambda pod: told.append(f"delete {pod.name}"),
    )
    pods.start()
    await stage.clock.advance(1.5)
    stage.remove_pod("p0001")  # on the page that was read
    stage.remove_pod("p1099")  # on one that was not
    stage.change_pod("p1098", colour="red")
    stage.add_pod("p0500x")
    await stage.clock.advance(5)
    assert told[1100:] == ["delete p0001", "delete p1099", "update p1098", "add p0500x"]
    assert len(told) == 1104
    stage.assert_equal(pods)


async def test_continuation_that_expired_begins_anew_with_larger_pages(stage: Any) -> None:
    """410 between two pages: the list starts over, asks for more at once, and nothing is told twice."""
    seen: list[dict[str, str]] = []
    respond = stage.cluster.router.answer

    def note(request: Any) -> Any:
        seen.append(dict(request.query))
        return respond(request)

    stage.cluster.router.answer = note
    stage.add_pods(*(f"p{number:04}" for number in range(1100)))
    stage.fault(method="GET", path="/pods$", delay_seconds=1.0, times=1)
    stage.fault(method="GET", path="/pods$", status=410, times=1)
    pods = stage.informer()
    told: list[str] = []
    pods.add_event_handler(on_add=lambda pod: told.append(pod.name))
    pods.start()
    await stage.clock.advance(10)
    assert pods.synced
    assert len(told) == len(set(told)) == 1100
    assert [query.get("limit") for query in seen] == ["500", "2000", None]
    assert stage.warnings["relisted"] == 1
    stage.assert_equal(pods)


async def test_pages_that_are_too_large_are_asked_for_smaller(stage: Any, script: Any) -> None:
    """A page that a server cannot make in a minute is asked for by halves: else it would be asked for without end."""
    gone = (410, b'{"kind":"Status","code":410,"reason":"Expired"}')
    late = (504, b'{"kind":"Status","code":504,"reason":"Timeout"}')
    listing = b'{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":[]}'
    cut = TransportError("no answer in time")
    stage.client = stage.connect(script(gone, gone, late, cut, cut, cut, listing, streams=[[asyncio.Event().wait]]))
    stage.informer().start()
    await stage.clock.advance(60)
    asked = [query.get("limit") for _, _, query, _ in stage.client._transport.asked]
    assert asked == ["500", "2000", "8000", "4000", "2000", "1000", "500", None]


@pytest.mark.parametrize(
    ("fault", "warning"),
    [
        pytest.param({"status": 500}, "watch_refused", id="500"),
        pytest.param({"status": 503}, "watch_refused", id="503"),
        pytest.param({"status": 429, "retry_after_seconds": 2}, "watch_refused", id="429"),
        pytest.param({"lose": "request"}, "watch_broken", id="cut-before"),
        pytest.param({"lose": "answer"}, "watch_broken", id="cut-after"),
    ],
)
async def test_first_list_that_fails_is_tried_again(stage: Any, fault: dict[str, Any], warning: str) -> None:
    """A busy server and a broken line are waited out; then the list is complete."""
    stage.add_pod("a")
    stage.fault(path="/pods$", times=3, **fault)
    pods = stage.informer()
    pods.start()
    await settle()
    assert not pods.synced
    await stage.clock.advance(15)
    assert pods.synced
    assert stage.warnings[warning] == 3
    stage.assert_equal(pods)


async def test_retry_after_is_honoured(stage: Any) -> None:
    """A server that asks for a pause is not asked again before it is over."""
    fault = stage.fault(path="/pods$", times=2, status=429, retry_after_seconds=20)
    stage.informer().start()
    await stage.clock.advance(19)
    assert fault.hits == 1
    await stage.clock.advance(2)
    assert fault.hits == 2


async def test_failures_are_spaced_further_and_further(stage: Any) -> None:
    """While nothing works, a server is asked less and less often, down to twice a minute."""
    fault = stage.fault(path="/pods$", lose="request")
    stage.informer().start()
    await stage.clock.advance(10)
    first = fault.hits
    await stage.clock.advance(600)
    assert 4 <= first <= 12
    assert 12 <= fault.hits - first <= 50


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"<html><title>Login</title></html>", id="html"),
        pytest.param(b'{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":[{"metad', id="half"),
        pytest.param(b'{"kind":"PodList","items":[]}', id="no-version"),
        pytest.param(b"{}", id="no-list"),
        pytest.param(b"", id="nothing"),
    ],
)
async def test_answer_that_is_no_list(stage: Any, script: Any, answer: bytes) -> None:
    """Whoever answers 200 without a list is no API server; nothing known is given up for it."""
    item = {"metadata": {"name": "a", "namespace": "x", "uid": "1", "resourceVersion": "4"}}
    good = msgspec.json.encode({"metadata": {"resourceVersion": "5"}, "items": [item]})
    gone = b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n'

    async def forever() -> None:
        await asyncio.get_running_loop().create_future()

    stage.client = stage.connect(script(good, answer, answer, good, streams=[[gone], [forever]]))
    pods, ledger = await stage.started()
    await stage.clock.advance(10)
    assert ledger.take() == ["add a"]
    assert stage.warnings["watch_broken"] == 2
    assert [pod.name for pod in pods] == ["a"]
    assert not stage.client._transport.answers


class TestUnreadable:
    """Objects that cannot be decoded are counted and passed over; what was readable stays."""

    async def test_in_the_first_list_and_readable_later(self, stage: Any, caplog: pytest.LogCaptureFixture) -> None:
        """It is not there until it can be read; then it is added, by the event alone."""
        stage.add_pods("bad", "good")
        stage.change(("v1", "Pod"), "bad", "default", unreadable)
        pods, ledger = await stage.started()
        assert ledger.take() == ["add good"]
        assert stage.warnings["malformed_pod"] == 1
        assert "key=default/bad" in caplog.text
        stage.assert_equal(pods, ledger, but=["bad"])
        stage.change(("v1", "Pod"), "bad", "default", readable)
        await settle()
        assert ledger.take() == ["add bad"]
        assert stage.warnings["relisted"] == 0
        stage.assert_equal(pods, ledger)

    async def test_created_in_that_state(self, stage: Any) -> None:
        """An event that cannot be read is no reason to list; the next that can be read is an addition."""
        pods, ledger = await stage.started()
        stage.cluster.plant(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "bad", "namespace": "default", "uid": "u"},
                "spec": {"priority": "very"},
            }
        )
        await settle()
        assert (ledger.take(), stage.warnings["malformed_pod"]) == ([], 1)
        stage.change(("v1", "Pod"), "bad", "default", readable)
        await settle()
        assert ledger.take() == ["add bad"]
        assert stage.warnings["relisted"] == 0
        stage.assert_equal(pods, ledger)

    async def test_last_good_state_stays(self, stage: Any) -> None:
        """A known object keeps its last readable state, also through a list, and is updated from it."""
        stage.add_pod("a", labels={"colour": "red"})
        pods, ledger = await stage.started()
        stage.change(("v1", "Pod"), "a", "default", unreadable)
        await settle()
        assert pods.get("a", "default").labels == {"colour": "red"}
        stage.cluster.store.compact()
        stage.drop_watches("cut")
        stage.add_pod("b")
        stage.cluster.store.compact()
        await stage.clock.advance(5)
        assert stage.warnings["relisted"] == 1
        assert pods.get("a", "default").labels == {"colour": "red"}
        stage.change(("v1", "Pod"), "a", "default", readable)
        await settle()
        assert ledger.take() == ["add a", "add b", "update a"]
        assert stage.warnings["malformed_pod"] == 2
        stage.assert_equal(pods, ledger)

    async def test_its_deletion_counts(self, stage: Any) -> None:
        """Gone is gone, in whatever state: told with the last state that was readable."""
        stage.add_pod("a")
        pods, ledger = await stage.started()
        stage.change(("v1", "Pod"), "a", "default", unreadable)
        await settle()
        stage.remove_pod("a")
        await settle()
        assert ledger.take() == ["add a", "delete a"]
        stage.assert_equal(pods, ledger)

    async def test_readable_after_a_list_only(self, stage: Any) -> None:
        """What becomes readable while nobody watches is added by the list."""
        stage.add_pod("a")
        stage.change(("v1", "Pod"), "a", "default", unreadable)
        pods, ledger = await stage.started()
        stage.drop_watches("cut")
        stage.change(("v1", "Pod"), "a", "default", readable)
        stage.cluster.store.compact()
        await stage.clock.advance(5)
        assert ledger.take() == ["add a"]
        stage.assert_equal(pods, ledger)

    async def test_warnings_name_the_kind(self, stage: Any) -> None:
        """Pods and nodes are counted apart."""
        stage.add_node("n1")
        stage.change(("v1", "Node"), "n1", "", lambda node: node["spec"].update(taints="all"))
        await stage.started(NODES)
        assert stage.warnings.counts == {"malformed_node": 1}


class TestYielding:
    """Long lists and bursts are told in chunks, between which the loop turns."""

    async def test_between_chunks_others_run(self, stage: Any, turn_until: Any) -> None:
        """No more than 25 objects are handled without a turn of the loop: first list, relist, and burst."""
        stage.add_pods(*(f"p{number:04}" for number in range(600)))
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        pods = stage.informer()
        handled: dict[int, int] = {}

        def handle(*_: object) -> None:
            handled[turns] = handled.get(turns, 0) + 1

        pods.add_event_handler(on_add=handle, on_update=handle, on_delete=handle)
        counter = asyncio.create_task(count_turns())
        try:
            pods.start()
            await turn_until(lambda: pods.synced)
            assert sum(handled.values()) == 600
            for number in range(600):
                stage.change_pod(f"p{number:04}", colour="red")
            await turn_until(lambda: sum(handled.values()) == 1200)
            await pods.stop()
            for number in range(600):
                stage.remove_pod(f"p{number:04}")
            await pods._list()
            assert sum(handled.values()) == 1800
        finally:
            counter.cancel()
            await asyncio.gather(counter, return_exceptions=True)
        assert max(handled.values()) <= 25
        stage.assert_equal(pods)

    async def test_the_loop_turns_after_each_slow_handler(self, stage: Any, turn_until: Any) -> None:
        """Handlers that take 20 ms for each object of a list or burst hold the loop for one object at a time."""
        stage.add_pods("p", "q", "r")
        handled = []

        def handle(*_: object) -> None:
            handled.append(ready_in_between)
            stage.clock._now += 0.02

        ready_in_between = 0

        async def count_turns() -> None:
            nonlocal ready_in_between
            while True:
                ready_in_between += 1
                await asyncio.sleep(0)

        pods = stage.informer()
        pods.add_event_handler(on_add=handle, on_update=handle)
        counter = asyncio.create_task(count_turns())
        pods.start()
        await turn_until(lambda: pods.synced)
        for name in "pqr":
            stage.change_pod(name, colour="red")
        await turn_until(lambda: len(handled) == 6)
        counter.cancel()
        assert len(set(handled)) == 6
        await pods.stop()

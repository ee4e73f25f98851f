"""Reads and writes of the client path: retries, refusals, conditions, rates, and the end."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise
from typing import Any, ClassVar

import pytest

from kube_testserver.virtual_time import settle
from pyscheduler.api import DecodeError, Node, Pod
from pyscheduler.cli.client_settings import COMMAND_CLIENT
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.framework.errors import (
    AlreadyExistsError,
    APIError,
    ConflictError,
    ForbiddenError,
    GoneError,
    NotFoundError,
    TooManyRequestsError,
    TransportError,
)
from pyscheduler.scheduler.ports import Response


async def during(stage: Any, seconds: float, work: Any) -> Any:
    """Run `work` while that much time passes; return what it returned or raised."""
    task = asyncio.create_task(work)
    await stage.clock.advance(seconds)
    assert task.done(), "it takes longer than that"
    return task.exception() or task.result()


class TestReads:
    """get and list."""

    async def test_get(self, stage: Any) -> None:
        """An object is decoded to its type; one that is not there is a NotFoundError that names it."""
        stage.add_pod("a", labels={"x": "y"})
        pod = await stage.client.get(Pod, "a", "default")
        assert (pod.name, pod.labels) == ("a", {"x": "y"})
        with pytest.raises(NotFoundError, match='pods "b" not found'):
            await stage.client.get(Pod, "b", "default")

    async def test_list_reads_all_pages(self, stage: Any) -> None:
        """More than one page, all namespaces or one, with a label selector where asked."""
        stage.add_pods(*(f"p{number:04}" for number in range(1001)))
        stage.add_pod("elsewhere", namespace="other", labels={"x": "y"})
        assert len(await stage.client.list(Pod)) == 1002
        assert [pod.name for pod in await stage.client.list(Pod, "other")] == ["elsewhere"]
        assert [pod.name for pod in await stage.client.list(Pod, label_selector="x=y")] == ["elsewhere"]

    async def test_list_whose_continuation_expired_begins_anew(self, stage: Any) -> None:
        """410 between pages: from the start, nothing twice; five times in a row is an error."""
        stage.add_pods(*(f"p{number:04}" for number in range(600)))
        stage.fault(method="GET", delay_seconds=0.001, times=1)
        stage.fault(method="GET", status=410, times=1)
        assert len({pod.name for pod in await during(stage, 5, stage.client.list(Pod))}) == 600
        stage.fault(method="GET", status=410)
        assert isinstance(await during(stage, 60, stage.client.list(Pod)), GoneError)

    async def test_list_passes_over_what_cannot_be_read(self, stage: Any) -> None:
        """One bad object is counted and does not cost the others."""
        stage.add_pods("a", "b")
        stage.change(("v1", "Pod"), "a", "default", lambda pod: pod["spec"].update(priority="x"))
        assert [pod.name for pod in await stage.client.list(Pod)] == ["b"]
        assert stage.warnings.counts == {"malformed_pod": 1}

    async def test_answers_of_another_kind(self, stage: Any, script: Any) -> None:
        """What cannot be decoded is no answer."""
        stage.client = stage.connect(script(b"<html>", b"<html>"))
        with pytest.raises(TransportError, match="the answer is not a Pod"):
            await stage.client.get(Pod, "a", "default")
        with pytest.raises(TransportError, match="the answer is not a list"):
            await stage.client.list(Pod)

    async def test_kind_that_nobody_declared(self, stage: Any, gadgets: Any) -> None:
        """A type without a row has no URL."""
        with pytest.raises(DecodeError, match="Gadget is not a declared kind"):
            await stage.client.get(gadgets.TYPE, "g", "default")


class TestOrder:
    """Who goes first when no more requests may be in flight."""

    async def test_bindings_and_evictions_go_before_conditions(self, stage: Any, monkeypatch: Any) -> None:
        """Of a full window's places the first are given to bindings, evictions, deletions and nominations."""
        stage.add_node("n")
        stage.add_pods(*"abcdef")
        a, b, c, d, e, f = stage.states()
        client = stage.client
        held = [await client._window.turn("GET") for _ in range(client._window.limit)]
        sent: list[str] = []
        request = client._transport.request

        async def note(method: str, path: str, **keywords: Any) -> Response:
            sent.append(f"{method} {path.removeprefix('/api/v1/namespaces/default/pods/')}")
            answer: Response = await request(method, path, **keywords)
            return answer

        monkeypatch.setattr(client._transport, "request", note)
        told = {"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}}
        victim = {"status": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}}
        work = [
            client.patch_pod_status(a, told),
            client.patch(Pod, "b", "default", patch={"status": {"phase": "Pending"}}, status=True),
            client.bind(c, "n"),
            client.delete(Pod, "d", "default", uid=d.uid),
            client.patch_pod_status(b, {"status": {"nominatedNodeName": "n", **told["status"]}}),
            client.patch_pod_status(e, victim),
            client.evict(f),
        ]
        tasks = []
        for each in work:
            tasks.append(asyncio.create_task(each))
            await settle()
        for turn in held:
            client._window.end(turn, None)
        await stage.clock.advance(1)
        assert all(task.done() and task.exception() is None for task in tasks)
        first = ["POST c/binding", "DELETE d", "PATCH b/status"]
        last = ["PATCH e/status", "POST f/eviction", "PATCH b/status"]
        assert sent == [*first, "PATCH a/status", *last]


class TestCustomKind:
    """A plugin's own kind, declared through its informer."""

    async def test_everything(self, stage: Any, gadgets: Any) -> None:
        """Create, read, list, patch, patch the status, delete."""
        gadgets.install(stage)
        client, kind = stage.client, gadgets.TYPE
        stage.informer(gadgets.KIND, optional=True)
        body = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"size": 1}}
        made = await client.create(kind, body, "default")
        assert (made.name, made.spec) == ("g", {"size": 1})
        with pytest.raises(AlreadyExistsError):
            await client.create(kind, body, "default")
        patched = await client.patch(kind, "g", "default", patch={"spec": {"size": 2}})
        assert patched.spec == {"size": 2}
        reported = await client.patch(kind, "g", "default", patch={"status": {"phase": "Ready"}}, status=True)
        assert (reported.spec, reported.status) == ({"size": 2}, {"phase": "Ready"})
        assert [item.spec["size"] for item in await client.list(kind)] == [2]
        await client.delete(kind, "g", "default", uid=made.uid)
        with pytest.raises(NotFoundError):
            await client.get(kind, "g", "default")

    async def test_its_definition_is_absent(self, stage: Any, gadgets: Any) -> None:
        """Until the CRD is there, its objects are not found."""
        stage.informer(gadgets.KIND, optional=True)
        with pytest.raises(NotFoundError):
            await stage.client.list(gadgets.TYPE)


class TestRetries:
    """What is tried again, and what is not."""

    @pytest.mark.parametrize("fault", [{"status": 408}, {"status": 429}, {"status": 503}], ids=["408", "429", "503"])
    @pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
    async def test_refused_before_anything_was_done(self, stage: Any, method: str, fault: dict[str, Any]) -> None:
        """408, 429 and 503 are tried again, whatever the method."""
        stage.add_node("n1")
        hit = stage.fault(method=method, times=3, **fault)
        work = {
            "GET": stage.client.get(Node, "n1"),
            "POST": stage.client.create(Node, {"metadata": {"name": "n2"}}),
            "PATCH": stage.client.patch(Node, "n1", patch={"metadata": {"labels": {"x": "y"}}}),
            "DELETE": stage.client.delete(Node, "n1"),
        }
        result = await during(stage, 5, work.pop(method))
        for other in work.values():
            other.close()
        assert not isinstance(result, Exception)
        assert hit.hits == stage.warnings["request_retried"] == 3

    @pytest.mark.parametrize("fault", [{"status": 500}, {"lose": "request"}, {"lose": "answer"}], ids=str)
    async def test_perhaps_done(self, stage: Any, fault: dict[str, Any]) -> None:
        """500 and a lost answer are tried again only where twice is as good as once."""
        stage.add_node("n1")
        stage.fault(times=1, **fault)
        assert (await during(stage, 5, stage.client.get(Node, "n1"))).name == "n1"
        stage.fault(times=1, **fault)
        patch = {"metadata": {"labels": {"x": "y"}}}
        assert (await during(stage, 5, stage.client.patch(Node, "n1", patch=patch))).labels["x"] == "y"
        stage.fault(times=1, **fault)
        result = await during(stage, 5, stage.client.create(Node, {"metadata": {"name": "n2"}}))
        assert isinstance(result, APIError | TransportError)
        assert stage.warnings["request_retried"] == 2

    async def test_deletion_whose_answer_was_lost(self, stage: Any) -> None:
        """The second try does not find it any more: it is done. A first that finds nothing is an error."""
        stage.add_node("n1")
        stage.fault(method="DELETE", lose="answer", times=1)
        assert await during(stage, 5, stage.client.delete(Node, "n1")) is None
        assert isinstance(await during(stage, 5, stage.client.delete(Node, "n1")), NotFoundError)

    async def test_deletion_whose_request_was_lost_before_a_conflict(self, stage: Any) -> None:
        """A conflict on the second try does not say that the first one deleted the object."""
        stage.add_node("n1")
        stage.fault(method="DELETE", lose="request", times=1)
        stage.fault(method="DELETE", status=409, times=1)
        assert isinstance(await during(stage, 5, stage.client.delete(Node, "n1")), ConflictError)
        assert (await stage.client.get(Node, "n1")).name == "n1"

    async def test_deletion_of_an_object_that_was_made_anew(self, stage: Any) -> None:
        """After a lost answer, another object of the same name says that the first one is deleted."""
        stage.add_node("n1")
        uid = (await stage.client.get(Node, "n1")).uid
        stage.fault(method="DELETE", lose="answer", times=1)
        task = asyncio.create_task(stage.client.delete(Node, "n1", uid=uid))
        await stage.clock.advance(0.01)
        stage.add_node("n1")
        await stage.clock.advance(5.0)
        assert await task is None
        assert (await stage.client.get(Node, "n1")).uid != uid

    async def test_tries_come_to_an_end(self, stage: Any) -> None:
        """Five tries, then the last refusal is raised as it came."""
        hit = stage.fault(status=429)
        error = await during(stage, 60, stage.client.get(Node, "n1"))
        assert isinstance(error, TooManyRequestsError)
        assert hit.hits == 5
        stage.cluster.faults.clear()
        hit = stage.fault(lose="request")
        assert isinstance(await during(stage, 60, stage.client.get(Node, "n1")), TransportError)
        assert hit.hits == 5

    @pytest.mark.parametrize("status", [429, 503])
    async def test_who_is_asked_for_later_comes_back(self, stage: Any, script: Any, status: int) -> None:
        """Retry-After is said by a server that is alive: ten retries, as client-go's, each in some seconds."""
        refusal = Response(status=status, body=b"later", headers={"retry-after": "1"})
        client = stage.connect(script(*[refusal] * 10, b'{"metadata":{"name":"n1"}}', *[refusal] * 11))
        assert (await during(stage, 40, client.create(Node, {"metadata": {"name": "n1"}}))).name == "n1"
        assert (await during(stage, 40, client.create(Node, {"metadata": {"name": "n1"}}))).status == status
        assert client._transport.answers == []

    async def test_retry_after_is_a_lower_bound(self, stage: Any) -> None:
        """No sooner than the server asked for, and not much later; an absurd wish is not granted."""
        stage.add_node("n1")
        hit = stage.fault(status=429, retry_after_seconds=8, times=4)
        task = asyncio.create_task(stage.client.get(Node, "n1"))
        asked: list[float] = []
        while not task.done():
            before = hit.hits
            await stage.clock.advance(0.1)
            if hit.hits > before:
                asked.append(stage.clock.now())
        waits = [later - earlier for earlier, later in pairwise(asked)]
        assert len(waits) == 3
        assert all(8 - 0.1 <= wait <= 10.1 for wait in waits)
        assert sum(waits) > 24.2
        stage.fault(status=429, retry_after_seconds=3600, times=1)
        assert (await during(stage, 40, stage.client.get(Node, "n1"))).name == "n1"

    @pytest.mark.parametrize(
        "fault",
        [
            pytest.param({"status": 504, "delay_seconds": 12.0}, id="slow answers"),
            pytest.param({"lose": "request", "delay_seconds": 30.0}, id="no answers"),
            pytest.param({"status": 503, "retry_after_seconds": 10}, id="Retry-After"),
            pytest.param({"status": 503, "retry_after_seconds": 3600}, id="Retry-After of an hour"),
        ],
    )
    async def test_client_of_a_command_gives_up_within_a_minute(
        self, stage: Any, fault: dict[str, Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        """A request that fails after 30 seconds is not tried again, and no log line says that the server is busy."""
        client = InProcessTransport(stage.cluster.router).connect(
            COMMAND_CLIENT, clock=stage.clock, rng=random.Random(0), recorder=stage.warnings
        )
        stage.fault(**fault)
        assert isinstance(await during(stage, 45, client.list(Node)), APIError | TransportError)
        assert caplog.messages == []
        await client.close()

    async def test_other_refusals_are_final(self, stage: Any) -> None:
        """403 does not become 200 by asking again."""
        hit = stage.fault(status=403)
        assert isinstance(await during(stage, 0, stage.client.get(Node, "n1")), ForbiddenError)
        assert hit.hits == 1


class TestConflicts:
    """Patches that meet other writers."""

    async def test_contention_inside_the_server_is_waited_out(self, stage: Any) -> None:
        """A patch without a condition of its own can lose only by accident."""
        stage.add_node("n1")
        stage.fault(method="PATCH", status=409, times=3)
        patched = await during(stage, 5, stage.client.patch(Node, "n1", patch={"spec": {"unschedulable": True}}))
        assert patched.spec.unschedulable

    async def test_condition_of_the_patch_is_final(self, stage: Any) -> None:
        """Who names a version wants to hear that it is another."""
        stage.add_node("n1")
        patch = {"metadata": {"resourceVersion": "1"}, "spec": {"unschedulable": True}}
        assert isinstance(await during(stage, 0, stage.client.patch(Node, "n1", patch=patch)), ConflictError)

    async def test_status_of_a_namesake_is_left_alone(self, stage: Any) -> None:
        """A pod that was deleted and made anew does not get the status of the one before."""
        stage.add_pod("a")
        pod = await stage.client.get(Pod, "a", "default")
        await stage.client.patch_pod_status(pod, {"status": {"nominatedNodeName": "n1"}})
        assert (await stage.client.get(Pod, "a", "default")).status.nominated_node_name == "n1"
        stage.remove_pod("a")
        stage.add_pod("a")
        result = await during(stage, 0, stage.client.patch_pod_status(pod, {"status": {"nominatedNodeName": "n2"}}))
        assert isinstance(result, ConflictError)
        assert (await stage.client.get(Pod, "a", "default")).status.nominated_node_name == ""

    async def test_conditions_are_merged_by_type(self, stage: Any) -> None:
        """One condition is written, the others stay."""
        stage.add_pod("a", status={"conditions": [{"type": "Other", "status": "True"}]})
        pod = await stage.client.get(Pod, "a", "default")
        mine = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
        await stage.client.patch_pod_status(pod, {"status": {"conditions": [mine]}})
        conditions = (await stage.client.get(Pod, "a", "default")).status.conditions
        assert sorted(condition.type for condition in conditions) == ["Other", "PodScheduled"]

    async def test_namesake_is_not_deleted(self, stage: Any) -> None:
        """With a uid given, only that very object is deleted."""
        stage.add_pod("a")
        with pytest.raises(ConflictError):
            await stage.client.delete(Pod, "a", "default", uid="of-another")
        assert (await stage.client.get(Pod, "a", "default")).metadata.deletion_timestamp is None


class TestEviction:
    """Deletions that ask the budgets first."""

    BUDGET: ClassVar = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    }

    async def running(self, stage: Any) -> Pod:
        """Add a pod that runs, and return it."""
        stage.add_pod("a", node_name="n1", labels={"app": "x"}, status={"phase": "Running"})
        pod: Pod = await stage.client.get(Pod, "a", "default")
        return pod

    async def test_a_pod_without_a_budget_goes(self, stage: Any) -> None:
        """It is told why, and has the time that was asked for."""
        await stage.client.evict(await self.running(stage), grace_seconds=7)
        pod = await stage.client.get(Pod, "a", "default")
        assert pod.metadata.deletion_grace_period_seconds == 7
        assert [each.type for each in pod.status.conditions] == ["DisruptionTarget"]

    @pytest.mark.slow
    async def test_a_budget_refuses_at_once(self, stage: Any) -> None:
        """It is not asked again and again: who evicts decides whether to wait or to choose another pod."""
        pod = await self.running(stage)
        stage.cluster.add(self.BUDGET)
        with pytest.raises(TooManyRequestsError, match="would violate the pod's disruption budget"):
            await stage.client.evict(pod)
        assert stage.warnings["request_retried"] == 0
        assert (await stage.client.get(Pod, "a", "default")).metadata.deletion_timestamp is None

    @pytest.mark.parametrize(
        "fault", [{"status": 429}, {"status": 500}, {"lose": "request"}, {"lose": "answer"}], ids=str
    )
    async def test_trouble_on_the_way_is_tried_again(self, stage: Any, fault: dict[str, Any]) -> None:
        """A server that is busy, or an answer that got lost, evicts the pod once."""
        pod = await self.running(stage)
        hit = stage.fault(method="POST", path="/eviction$", times=1, **fault)
        assert await during(stage, 5, stage.client.evict(pod)) is None
        assert hit.hits == stage.warnings["request_retried"] == 1
        assert (await stage.client.get(Pod, "a", "default")).metadata.deletion_timestamp is not None

    async def test_a_namesake_stays(self, stage: Any) -> None:
        """A pod that was made anew under that name is not meant; one that is gone is gone."""
        pod = await self.running(stage)
        stage.remove_pod("a")
        with pytest.raises(NotFoundError):
            await stage.client.evict(pod)
        await self.running(stage)
        with pytest.raises(NotFoundError, match="pod default/a was deleted and made anew"):
            await stage.client.evict(pod)
        assert (await stage.client.get(Pod, "a", "default")).metadata.deletion_timestamp is None


class TestRates:
    """QPS and burst, in virtual time."""

    async def test_requests_keep_to_the_rate(self, make_stage: Any) -> None:
        """A burst goes at once, what is above it at the rate; retries count."""
        stage = make_stage(qps=10.0, burst=5)
        stage.add_node("n1")
        done: list[float] = []
        began = stage.clock.now()

        async def ask() -> None:
            await stage.client.get(Node, "n1")
            done.append(stage.clock.now() - began)

        asking = [asyncio.create_task(ask()) for _ in range(25)]
        await stage.clock.advance(3)
        await asyncio.gather(*asking)
        assert sorted(done)[:5] == [0.0] * 5
        assert max(done) == pytest.approx(2.0)

    async def test_events_do_not_make_bindings_wait(self, make_stage: Any) -> None:
        """Events have a bucket of their own."""
        stage = make_stage(qps=1.0, burst=1)
        stage.add_node("n1")
        node = await stage.client.get(Node, "n1")
        await stage.clock.advance(1)
        recorder = stage.client.event_recorder("me")
        for number in range(5):
            recorder.event(node, type="Normal", reason=f"R{number}", action="A", note="")
        await settle()
        assert not stage.client.idle
        assert (await during(stage, 0, stage.client.get(Node, "n1"))).name == "n1"
        await stage.clock.advance(5)
        assert stage.client.idle


class TestClose:
    """The end."""

    async def test_events_are_flushed_and_informers_stopped(self, stage: Any) -> None:
        """What was recorded is written, watches end, the transport is closed; twice is fine."""
        stage.add_pod("a")
        pods, _ = await stage.started()
        recorder = stage.client.event_recorder("me")
        recorder.event(pods.get("a", "default"), type="Normal", reason="R", action="A", note="n")
        await stage.client.close()
        await stage.client.close()
        assert [event["reason"] for event in stage.cluster.objects("events.k8s.io/v1", "Event")] == ["R"]
        assert stage.drop_watches() == 0
        with pytest.raises(TransportError, match="closed"):
            await stage.client._transport.request("GET", "/api/v1/pods")

    async def test_flush_takes_two_seconds_at_most(self, stage: Any) -> None:
        """A server that does not answer does not keep the program alive; what is lost is counted."""
        stage.add_pods("a", "b")
        recorder = stage.client.event_recorder("me")
        stage.fault(method="POST", path="/events", lose="request")
        for pod in stage.states():
            recorder.event(pod, type="Normal", reason="R", action="A", note="n")
        closing = asyncio.create_task(stage.client.close())
        await stage.clock.advance(1.9)
        assert not closing.done()
        await stage.clock.advance(0.2)
        assert closing.done()
        assert stage.warnings["event_dropped"] == 2
        recorder.event(stage.states()[0], type="Normal", reason="late", action="A", note="n")
        assert stage.warnings["event_dropped"] == 3

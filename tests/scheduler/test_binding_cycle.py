"""From a reserved node to the API server: what happens when something gets in between."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler import BindPlugin, CycleState, PermitPlugin, Pod, PodsToActivate, PostBindPlugin, PreBindPlugin, Status
from pyscheduler.framework.cycle_state import PODS_TO_ACTIVATE
from pyscheduler.queue.sub_queues import QueuePlace
from tests.scheduler.plugins import Holder, Journal

if TYPE_CHECKING:
    from pyscheduler.testing import FakeCluster, FakeFramework

_BIND = r"/binding$"


class Slow(PreBindPlugin):
    """Takes five seconds."""

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        assert self.handle is not None
        await self.handle.clock.sleep(5)
        return None


class Unwilling(BindPlugin):
    """Binds nothing."""

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return Status.skip()


class BadPostBind(PostBindPlugin):
    """Fails in the way that `kind` says."""

    kind: ClassVar[str] = ""

    async def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        match self.kind:
            case "raises":
                raise RuntimeError("no")
            case "is cancelled":
                raise asyncio.CancelledError
            case "asks for nonsense":
                state.read(PODS_TO_ACTIVATE).pods["x"] = None  # type: ignore[assignment] - nonsense it is


class Waker(PermitPlugin, PostBindPlugin):
    """Asks for the pods of its `pods` to be tried again, in the phase that `phase` says."""

    phase: ClassVar[str] = ""
    pods: ClassVar[list[Pod]] = []

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if self.phase == "scheduling":
            self._ask(state)
        return None

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if self.phase == "binding":
            self._ask(state)

    def _ask(self, state: CycleState) -> None:
        asked = state.read(PODS_TO_ACTIVATE)
        assert isinstance(asked, PodsToActivate)
        asked.pods.update({pod.key: pod for pod in self.pods})


def bindings(framework: FakeFramework) -> list[asyncio.Task[None]]:
    """Return the binding tasks under way."""
    assert framework.scheduler.binding_count
    return [task for task in asyncio.all_tasks() if task.get_name().startswith("bind ")]


@pytest.mark.parametrize("kind", ["raises", "is cancelled", "asks for nonsense"])
async def test_a_failure_after_the_binding_does_not_undo_it(cluster: FakeCluster, kind: str) -> None:
    """What PostBind does costs nobody the node."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[BadPostBind, Journal], allow_plugin_errors=True)
    BadPostBind.kind = kind
    assert (await framework.schedule("p")).bound
    journal = framework.plugin("Journal")
    assert isinstance(journal, Journal)
    assert not [line for line in journal.lines if line.startswith("unreserve")]
    assert framework.scheduler.cache.pod_count == 1
    assert not cluster.events("FailedScheduling")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("plugin", [Holder, Slow], ids=["waiting at Permit", "in PreBind"])
@pytest.mark.parametrize("at_once", [True, False], ids=["before it began", "under way"])
async def test_a_cancelled_binding_returns_its_pod_to_the_queue(
    cluster: FakeCluster, plugin: type[Any], *, at_once: bool
) -> None:
    """A binding task that somebody cancels loses no pod, and leaves nothing reserved."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[plugin, Journal])
    await framework.start()
    pod = cluster.add_pod("p", labels={"hold": "yes"})
    while not framework.scheduler.binding_count:  # noqa: ASYNC110 - one turn too many and it has begun
        await asyncio.sleep(0)
    if not at_once:
        await framework.settle()
    for task in bindings(framework):
        task.cancel()
    await framework.settle()
    assert framework.scheduler.queue.place_of(pod.uid) is QueuePlace.BACKOFF
    assert framework.result("p").message == "the binding was cut short"
    assert (framework.scheduler.cache.pod_count, len(framework.scheduler.waiting_pods)) == (0, 0)
    journal = framework.plugin("Journal")
    assert isinstance(journal, Journal)
    assert journal.lines == ["reserve p n1", "unreserve p n1"]
    await cluster.clock.advance(25)
    assert framework.result("p").bound is (plugin is Slow)


async def test_an_error_says_that_no_bind_plugin_bound_the_pod(cluster: FakeCluster) -> None:
    """Where all Bind plugins skip it the pod stays queued, with a reason."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Unwilling], disable=["DefaultBinder"])
    result = await framework.schedule("p")
    assert result.message == "no Bind plugin of profile pyscheduler was willing to bind the pod"
    assert framework.scheduler.cache.pod_count == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("fault", "attempts"),
    [
        pytest.param(Fault(path=_BIND, status=409, times=1), 2, id="conflict"),
        pytest.param(Fault(path=_BIND, status=429, times=2), 1, id="too many requests"),
        pytest.param(Fault(path=_BIND, status=500, times=2), 1, id="server error"),
        pytest.param(Fault(path=_BIND, lose="answer", times=1), 1, id="lost answer"),
        pytest.param(Fault(path=_BIND, lose="request", times=1), 1, id="lost request"),
        pytest.param(Fault(path=_BIND, status=403, times=1), 2, id="refused"),
    ],
)
async def test_a_failed_binding_is_retried(cluster: FakeCluster, fault: Fault, attempts: int) -> None:
    """By the client where that is safe, by another attempt where it is not; bound once, reported once."""
    cluster.add_node("n1")
    framework = cluster.framework()
    cluster.server.faults.add(fault)
    await framework.schedule("p")
    await cluster.clock.advance(5)
    assert framework.result("p").bound
    assert fault.hits == fault.times
    assert framework.scheduler.cycles == attempts
    assert len(cluster.events("Scheduled")) == 1


async def test_a_refused_binding_is_reported_in_the_servers_own_words(cluster: FakeCluster) -> None:
    """Event and condition name the plugin and what the server said, and not the request, as kube-scheduler's do."""
    cluster.add_node("n1")
    framework = cluster.framework()
    cluster.server.faults.add(Fault(path=_BIND, status=403, times=1))
    await framework.schedule("p")
    (event,) = cluster.events("FailedScheduling")
    assert event["note"].startswith('running Bind plugin "DefaultBinder": ')
    assert "/api/v1" not in event["note"]
    assert event["note"] == framework.result("p").message


async def test_a_pod_deleted_while_it_is_being_bound_frees_its_node(cluster: FakeCluster) -> None:
    """In Bind, too, deletion gives the room to others at once; the binding finds the pod gone."""
    cluster.add_node("n1", allocatable={"cpu": "1"})
    framework = cluster.framework()
    cluster.server.faults.add(Fault(path=_BIND, delay_seconds=20, times=1))
    await framework.schedule("p", requests={"cpu": "1"})
    assert not (await framework.schedule("q", requests={"cpu": "1"})).bound
    cluster.delete_pod("p")
    await cluster.clock.advance(3)
    assert framework.result("q").bound
    await cluster.clock.advance(30)
    assert framework.scheduler.idle
    assert framework.scheduler.cache.pod_count == 1


async def test_pod_deleted_while_it_is_bound_is_no_error_in_the_log(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says at info that the pod was deleted, and no warning is counted: nobody has to do anything."""
    cluster.add_node("n1")
    framework = cluster.framework()
    cluster.server.faults.add(Fault(path=_BIND, delay_seconds=20, times=1))
    with caplog.at_level(logging.INFO, logger="pyscheduler"):
        await framework.schedule("p")
        cluster.delete_pod("p")
        await cluster.clock.advance(30)
    assert framework.scheduler.idle
    said = [record for record in caplog.records if "deleted while it was bound" in record.getMessage()]
    assert [record.levelno for record in said] == [logging.INFO]
    assert "pod=default/p" in said[0].getMessage()
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == []


async def test_no_nomination_outlives_the_binding(cluster: FakeCluster) -> None:
    """A nomination that is still on its way is waited for, so that the binding clears it."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Holder])
    cluster.server.faults.add(Fault(path=r"/pods/p/status$", delay_seconds=5, times=1))
    result = await framework.schedule("p", labels={"hold": "yes"})
    await cluster.clock.advance(1)
    framework.profile.handle.waiting_pods()[0].allow("Holder")  # type: ignore[index] - a tuple, which nobody promised
    await framework.settle()
    assert not framework.result("p").bound
    await cluster.clock.advance(6)
    assert framework.result("p").bound
    assert cluster.pod("p").status.nominated_node_name == ""
    assert result.pod.uid == cluster.pod("p").uid


@pytest.mark.parametrize("phase", ["scheduling", "binding"])
async def test_pods_are_activated_at_the_end_of_both_cycles(cluster: FakeCluster, phase: str) -> None:
    """Pods that a plugin names are tried again without an event or a backoff."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = cluster.framework(enable=[Waker])
    Waker.phase, Waker.pods = phase, []
    waiting = await framework.schedule("big", requests={"cpu": "8"})
    before = framework.scheduler.cycles
    Waker.pods = [waiting.pod]
    assert (await framework.schedule("small")).bound
    assert framework.scheduler.cycles == before + 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("plugin", [None, Holder, Slow], ids=["idle", "waiting at Permit", "in PreBind"])
async def test_a_stop_finishes_or_undoes_every_binding(cluster: FakeCluster, plugin: type[Any] | None) -> None:
    """Waiting pods are let go, bindings under way are made, and the next scheduler finds every pod."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[plugin] if plugin else [])
    await framework.schedule("p", labels={"hold": "yes"})
    await cluster.close()
    assert framework.scheduler.binding_count == 0
    assert framework.scheduler.cache.assumed_count == 0 or framework.result("p").bound
    assert framework.result("p").bound is (plugin is not Holder)
    again = cluster.framework()
    await again.settle()
    assert again.result("p").bound

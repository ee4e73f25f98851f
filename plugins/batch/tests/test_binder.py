"""BindRequests: the Bind plugin that writes them and the reconciler that carries them out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler.config.load import loads
from pyscheduler.config.profiles import profiles
from pyscheduler.framework import ConfigError, PreBindPlugin, Status
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.testing import make_pod
from pyscheduler_batch.binder.requests import BIND_REQUESTS, BindRequest, request_body
from pyscheduler_batch.sessions.assembly import sessions_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler.api import Pod
    from pyscheduler.testing import FakeCluster, FakeFramework
    from pyscheduler_lab.testing import BatchCluster

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
profiles:
- schedulerName: pyscheduler
  plugins: {multiPoint: {enabled: [%s], disabled: [{name: DefaultBinder}]}}
  pluginConfig: [{name: BindRequest, args: {backoffLimit: LIMIT}}]
"""
BOTH = "{name: BindRequest}, {name: BindRequestReconciler}"
SCHEDULER = "{name: BindRequest}"
#: A program that only binds.
BINDER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
profiles:
- schedulerName: binder
  plugins: {multiPoint: {enabled: [{name: BindRequestReconciler}]}}
"""


class Binding:
    """A cluster with nodes of four CPUs, and its BindRequests."""

    def __init__(self, cluster: FakeCluster, nodes: int = 1) -> None:
        self.cluster = cluster
        cluster.serve(BIND_REQUESTS)
        for number in range(nodes):
            cluster.add_node(f"n{number}", allocatable={"cpu": "4", "memory": "64Gi"})

    async def start(self, plugins: str = BOTH, *, limit: int = 3, config: str = "") -> FakeFramework:
        """Start a scheduler with these plugins, or with a configuration."""
        measured = self.cluster.framework(config=config or CONFIG.replace("LIMIT", str(limit)) % plugins)
        await measured.start()
        return measured

    async def crash(self, measured: FakeFramework) -> None:
        """End a scheduler at once: its bindings are cut short, and nothing more is written."""
        stopping = asyncio.create_task(measured.scheduler.stop(at_once=True))
        await self.cluster.clock.advance(15)
        await stopping

    async def pass_time(self, seconds: float = 0.5) -> None:
        """Let schedulers and binders work."""
        await self.cluster.clock.advance(seconds)

    def pod(self, name: str = "p", cpu: str = "1", **keywords: Any) -> None:
        """Create a pod."""
        self.cluster.add_pod(name, requests={"cpu": cpu}, **keywords)

    def node_of(self, name: str = "p") -> str:
        """Return the node of a pod."""
        return self.cluster.pod(name).node_name

    def request(self, name: str = "p") -> BindRequest:
        """Return the request of a pod."""
        return next(each for each in self.requests() if each.name == name)

    def requests(self) -> list[BindRequest]:
        """Return all requests."""
        return self.cluster.objects(BindRequest)

    def decide(self, name: str = "p", **status: Any) -> None:
        """Write the status of a request, as a binder does."""
        self.cluster.patch(BindRequest, name, {"status": status}, status=True)

    def order(self, pod: str, node: str, *, limit: int = 0, **spec: Any) -> None:
        """Create a request as an earlier scheduler did."""
        body = request_body(self.cluster.pod(pod), node, backoff_limit=limit)
        body["spec"].update(spec)
        self.cluster.add(body, BindRequest)

    def faulty(self, method: str, path: str, *, times: int | None = None, status: int = 500) -> Fault:
        """Let requests to the API server fail."""
        fault = Fault(method=method, path=path, times=times, status=status)
        self.cluster.server.faults.add(fault)
        return fault

    def condition(self, name: str = "p") -> tuple[str, str, str]:
        """Return status, reason and message of the condition PodBound of a pod."""
        found = [each for each in self.cluster.pod(name).status.conditions if each.type == "PodBound"]
        assert len(found) == 1, found
        return found[0].status, found[0].reason, found[0].message


@pytest.fixture
def binding(pyscheduler_cluster: FakeCluster) -> Binding:
    """Return a cluster with one node."""
    return Binding(pyscheduler_cluster)


async def test_a_pod_is_bound_by_its_request(binding: Binding) -> None:
    """The request has KAI's form; the binder binds the pod and writes phase, condition and event."""
    binding.pod()
    measured = await binding.start()
    await binding.pass_time()
    assert binding.node_of() == "n0"
    request = binding.request()
    assert request.labels == {"selected-node": "n0"}
    assert request.pod_uid == binding.cluster.pod("p").uid
    assert request.spec == {
        "podName": "p",
        "selectedNode": "n0",
        "receivedResourceType": "Regular",
        "receivedGPU": {"portion": "0.00"},
        "backoffLimit": 3,
    }
    assert (request.phase, request.failed_attempts) == ("Succeeded", 0)
    assert binding.condition() == ("True", "Bound", "Pod bound successfully to node n0")
    assert len(binding.cluster.events("Bound")) == len(binding.cluster.events("Scheduled")) == 1
    attempts = "bind_request_attempts_total"
    assert measured.metric(attempts) == measured.metric(attempts, result="succeeded") == 1


def test_a_request_names_gpus_and_leaves_out_a_label_that_is_too_long() -> None:
    """GPUs are counted; the label of the node is left out if its name is no value of a label."""
    body = request_body(make_pod("p", requests={"nvidia.com/gpu": "2"}), "n" * 64, backoff_limit=1)
    assert body["spec"]["receivedGPU"] == {"count": 2, "portion": "1.00"}
    assert body["metadata"]["labels"] == {}


@pytest.mark.slow
async def test_the_scheduler_waits_for_the_binder(binding: Binding) -> None:
    """Without a binder the pod holds its node in the cache, and the log says that no binder works."""
    binding.pod("first", cpu="3")
    measured = await binding.start(SCHEDULER)
    await binding.pass_time()
    binding.pod("second", cpu="3")
    await binding.pass_time(65)
    assert (binding.node_of("first"), binding.node_of("second")) == ("", "")
    assert measured.scheduler.cache.is_assumed(binding.cluster.pod("first").uid)
    assert measured.metric("bind_requests_pending", profile="pyscheduler") == 1
    assert measured.warnings["bind_request_ignored"] == 1
    await binding.start(config=BINDER)
    await binding.pass_time()
    assert (binding.node_of("first"), binding.node_of("second")) == ("n0", "")
    assert measured.metric("bind_requests_pending", profile="pyscheduler") == 0


async def test_a_failed_binding_is_tried_again(binding: Binding) -> None:
    """Each failure is counted in the request, the pauses double, and no failure is reported as bound."""
    fault = binding.faulty("POST", "/binding$", times=2, status=403)
    binding.pod()
    measured = await binding.start()
    await binding.pass_time()
    assert (binding.request().phase, binding.request().failed_attempts) == ("Pending", 1)
    assert binding.condition()[:2] == ("False", "BindingError")
    assert binding.cluster.events("Bound") == []
    await binding.pass_time(1)
    assert (fault.hits, binding.request().failed_attempts) == (2, 2)
    await binding.pass_time(1)
    assert binding.node_of() == ""
    await binding.pass_time(1)
    assert binding.node_of() == "n0"
    assert (binding.request().phase, binding.request().reason) == ("Succeeded", "")
    assert binding.condition()[0] == "True"
    attempts = "bind_request_attempts_total"
    assert (measured.metric(attempts, result="retried"), measured.metric(attempts, result="succeeded")) == (2, 1)
    assert measured.metric(attempts) == 3


async def test_a_final_failure_returns_the_pod_to_the_queue(binding: Binding) -> None:
    """After the last attempt the request is deleted, its node is free, and the pod is scheduled from scratch."""
    fault = binding.faulty("POST", "/binding$", times=2, status=403)
    binding.pod()
    measured = await binding.start(limit=1)
    await binding.pass_time(1.2)
    assert fault.hits == 2
    assert binding.requests() == []
    assert not measured.scheduler.cache.is_assumed(binding.cluster.pod("p").uid)
    (event,) = binding.cluster.events("FailedScheduling")
    assert event["note"].startswith('running Bind plugin "BindRequest": binder failed: ')
    await binding.pass_time(3)
    assert binding.node_of() == "n0"
    assert (binding.request().phase, binding.request().failed_attempts) == ("Succeeded", 0)


async def test_a_request_without_a_backoff_limit_fails_at_once(binding: Binding) -> None:
    """KAI's own scheduler sets no limit; the first failure is final."""
    binding.faulty("POST", "/binding$", times=1, status=403)
    binding.pod(scheduler_name="kai-scheduler")
    binding.order("p", "n0", backoffLimit=None)
    await binding.start(config=BINDER)
    await binding.pass_time(10)
    assert (binding.request().phase, binding.request().failed_attempts, binding.node_of()) == ("Failed", 1, "")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param({"selectedNode": "gone"}, 'nodes "gone" not found', id="no node"),
        pytest.param({"podName": "other"}, 'pods "other" not found', id="no pod"),
        pytest.param({"receivedResourceType": "Fraction"}, "receivedResourceType Fraction: this binder", id="fraction"),
        pytest.param({"resourceClaimAllocations": [{"name": "c"}]}, "resourceClaimAllocations: this", id="claims"),
        pytest.param({"podName": 7, "selectedNode": ["n0"]}, 'spec.podName "" is no', id="wrong types"),
        pytest.param({"podName": "../secrets/x"}, 'spec.podName "../secrets/x" is no', id="no name"),
    ],
)
async def test_a_request_that_cannot_be_carried_out_fails(binding: Binding, spec: dict[str, Any], reason: str) -> None:
    """The reason says why, and nothing is bound."""
    binding.pod(scheduler_name="kai-scheduler")
    binding.order("p", "n0", **spec)
    await binding.start(config=BINDER)
    await binding.pass_time()
    assert binding.request().phase == "Failed"
    assert binding.request().reason.startswith(reason)
    assert binding.node_of() == ""


async def test_a_pod_that_is_bound_already_is_a_success(binding: Binding) -> None:
    """A binder that was killed between the binding and the status finds the pod bound, and writes the status."""
    binding.pod(scheduler_name="kai-scheduler", node_name="n0")
    binding.order("p", "n0")
    await binding.start(config=BINDER)
    await binding.pass_time()
    assert binding.request().phase == "Succeeded"


async def test_a_pod_that_is_bound_elsewhere_is_a_failure(binding: Binding) -> None:
    """Another scheduler may have bound the pod."""
    binding.pod(scheduler_name="kai-scheduler", node_name="n1")
    binding.order("p", "n0")
    await binding.start(config=BINDER)
    await binding.pass_time()
    assert (binding.request().phase, binding.request().reason) == ("Failed", "the pod is bound to node n1")


async def test_a_request_never_binds_a_newer_pod_of_its_name(binding: Binding) -> None:
    """The request of a deleted pod fails; the scheduler replaces it with one for the new pod."""
    binding.pod()
    binding.order("p", "n0")
    binding.cluster.delete_pod("p")
    binding.pod()
    await binding.start(config=BINDER)
    await binding.pass_time()
    assert (binding.request().phase, binding.node_of()) == ("Failed", "")
    await binding.start(SCHEDULER)
    await binding.pass_time()
    assert (binding.request().phase, binding.node_of()) == ("Succeeded", "n0")
    assert binding.request().pod_uid == binding.cluster.pod("p").uid


async def test_a_restarted_scheduler_follows_live_requests(
    pyscheduler_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods with a live request hold their nodes from the start; only pods without one are scheduled."""
    binding = Binding(pyscheduler_cluster)
    for number in range(3):
        binding.pod(f"p{number}")
    first = await binding.start(SCHEDULER)
    await binding.pass_time()
    await binding.crash(first)
    before = {each.name: each.uid for each in binding.requests()}
    assert len(before) == 3
    # The urgent pod comes first in the queue, and would take the room of the others.
    binding.pod("urgent", cpu="4", priority=1000, spec={"preemptionPolicy": "Never"})
    second = await binding.start(SCHEDULER)
    counted: list[tuple[str, ...]] = []
    monkeypatch.setattr(second.scheduler.recorder, "count", lambda *labels: counted.append(labels))
    await binding.pass_time(2)
    assert second.scheduler.cache.assumed_count == 3
    await binding.start(config=BINDER)
    await binding.pass_time(2)
    assert {name: binding.node_of(name) for name in before} == dict.fromkeys(before, "n0")
    assert {each.name: each.uid for each in binding.requests()} == before
    assert [labels[:2] for labels in counted].count(("scheduler_schedule_attempts_total", "scheduled")) == 3


async def test_a_restarted_scheduler_replaces_requests_that_cannot_succeed(pyscheduler_cluster: FakeCluster) -> None:
    """A request that failed, and one for a node that is gone, are replaced by requests of the new decision."""
    binding = Binding(pyscheduler_cluster)
    for name, node in (("failed", "n0"), ("lost", "gone")):
        binding.pod(name)
        binding.order(name, node)
    binding.decide("failed", phase="Failed", reason="no volume", failedAttempts=1)
    await binding.start()
    await binding.pass_time(2)
    assert (binding.node_of("failed"), binding.node_of("lost")) == ("n0", "n0")
    assert {each.phase for each in binding.requests()} == {"Succeeded"}


async def test_a_restarted_scheduler_follows_no_requests_that_overfill_a_node(binding: Binding) -> None:
    """Requests that others wrote, and several for one pod: the oldest that fit are followed, the others deleted."""
    for name in ("first", "second", "third"):
        binding.pod(name, cpu="3")
        binding.order(name, "n0")
        await binding.pass_time(1)
    binding.pod("small", cpu="1")
    binding.order("small", "n0")
    body = request_body(binding.cluster.pod("small"), "n0", backoff_limit=0)
    body["metadata"]["name"] = "small-again"
    binding.cluster.add(body, BindRequest)
    measured = await binding.start(SCHEDULER)
    await binding.pass_time(1)
    assert measured.scheduler.cache.assumed_count == 2
    assert {each.name for each in binding.requests()} == {"first", "small", "small-again"}
    await binding.start(config=BINDER)
    await binding.pass_time(2)
    assert {each.name: each.node_name for each in binding.cluster.pods()} == {
        "first": "n0",
        "second": "",
        "third": "",
        "small": "n0",
    }


async def test_a_restarted_binder_continues_the_count(binding: Binding) -> None:
    """Failures of an earlier binder count, so a pod is not tried for ever."""
    binding.faulty("POST", "/binding$", status=403)
    binding.pod(scheduler_name="kai-scheduler")
    binding.order("p", "n0", limit=2)
    first = await binding.start(config=BINDER)
    await binding.pass_time(1.5)
    assert binding.request().failed_attempts == 2
    await binding.crash(first)
    await binding.start(config=BINDER)
    await binding.pass_time(0.5)
    assert (binding.request().phase, binding.request().failed_attempts) == ("Failed", 3)


async def test_a_status_that_cannot_be_written_is_written_later(binding: Binding) -> None:
    """The pod is bound once, and the request gets its phase as soon as the API server takes it."""
    binding.faulty("PATCH", "/bindrequests/p/status$", times=1, status=403)
    binding.pod()
    await binding.start()
    await binding.pass_time(0.5)
    assert (binding.node_of(), binding.request().phase) == ("n0", "")
    await binding.pass_time(1)
    assert binding.request().phase == "Succeeded"


def _delete_pod(binding: Binding) -> None:
    binding.cluster.delete_pod("p")


def _delete_node(binding: Binding) -> None:
    binding.cluster.delete_node("n0")


def _delete_request(binding: Binding) -> None:
    binding.cluster.delete(BindRequest, "p")


@pytest.mark.parametrize(
    ("happen", "events"),
    [
        pytest.param(_delete_pod, [], id="pod deleted"),
        pytest.param(_delete_node, ['node "n0" was deleted before the pod was bound'], id="node deleted"),
        pytest.param(_delete_request, ["the BindRequest was deleted before the pod was bound"], id="request deleted"),
    ],
)
async def test_the_scheduler_stops_waiting(
    binding: Binding, happen: Callable[[Binding], None], events: list[str]
) -> None:
    """When the pod, its node or its request goes, the room is free again and no request is left behind."""
    binding.pod()
    measured = await binding.start(SCHEDULER)
    await binding.pass_time()
    (request,) = binding.requests()
    happen(binding)
    await binding.pass_time(0.3)
    assert measured.scheduler.binding_count == 0
    assert request.uid not in {each.uid for each in binding.requests()}
    told = [each["note"] for each in binding.cluster.events("FailedScheduling")]
    assert [text for text in events if any(each.endswith(text) for each in told)] == events
    await binding.crash(measured)


async def test_a_success_without_a_binding_returns_the_pod_to_the_queue(binding: Binding) -> None:
    """Whoever writes a wrong phase makes no pod wait for ever, and its node is not held."""
    binding.pod()
    measured = await binding.start(SCHEDULER)
    await binding.pass_time()
    binding.decide(phase="Succeeded")
    await binding.pass_time(20)
    assert measured.scheduler.cache.is_assumed(binding.cluster.pod("p").uid)
    await binding.start(config=BINDER)
    await binding.pass_time(15)
    (event,) = binding.cluster.events("FailedScheduling")
    assert event["note"].endswith("the BindRequest has succeeded, but the pod has no node")
    await binding.pass_time(10)
    assert binding.node_of() == "n0"


async def test_missing_definition_is_named(pyscheduler_cluster: FakeCluster) -> None:
    """Without the CustomResourceDefinition the pod's event says what is missing; the pod is bound once it is there."""
    cluster = pyscheduler_cluster
    cluster.add_node("n0")
    cluster.add_pod("p")
    await cluster.framework(config=CONFIG.replace("LIMIT", "3") % BOTH).start()
    await cluster.clock.advance(0.5)
    (event,) = cluster.events("FailedScheduling")
    assert "is its CustomResourceDefinition installed?" in event["note"]
    cluster.serve(BIND_REQUESTS)
    await cluster.clock.advance(60)
    assert cluster.pod("p").node_name == "n0"


BATCH = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: batch
  plugins: {multiPoint: {enabled: [{name: Batch}%s], disabled: [{name: DefaultPreemption}]}}
  pluginConfig: [{name: Batch, args: {preset: kai, binder: %s}}]
"""


def test_the_arg_of_batch_chooses_the_plugin() -> None:
    """`binder: bindRequest` puts `BindRequest` in the place of `DefaultBinder`; `api` changes nothing."""
    for binder, used, unused in (
        ("bindRequest", "BindRequest", "DefaultBinder"),
        ("api", "DefaultBinder", "BindRequest"),
    ):
        (profile,) = loads(BATCH % ("", binder)).profiles
        names = [each.name for each in profile.plugins.multi_point.enabled]
        assert used in names
        assert unused not in names


def test_a_plugin_that_is_enabled_by_name_stays_where_it_is() -> None:
    """A profile that enables `BindRequest` itself gets no second one."""
    (profile,) = loads(BATCH % (", {name: BindRequest}", "bindRequest")).profiles
    names = [each.name for each in profile.plugins.multi_point.enabled]
    assert names.count("BindRequest") == 1


def test_a_negative_limit_is_refused() -> None:
    """The mistake is named with its path."""
    config = loads(CONFIG.replace("LIMIT", "-1") % BOTH)
    with pytest.raises(ConfigError, match=r"pluginConfig\[0\].args"):
        profiles(config, discover().args_type)


def test_an_empty_request_is_read(binding: Binding) -> None:
    """A request without a spec has unset fields."""
    manifest = {
        "apiVersion": BindRequest.api_version,
        "kind": "BindRequest",
        "metadata": {"name": "x", "namespace": "default"},
    }
    found = binding.cluster.add(manifest, BindRequest)
    assert (found.pod_name, found.node_name, found.phase, found.backoff_limit, found.pod_uid) == ("", "", "", 0, "")


class Failing(PreBindPlugin):
    """Prepares nothing for the pods in `broken`; those in `slow` are prepared when `ready` is set."""

    name: ClassVar[str] = "Failing"
    broken: ClassVar[frozenset[str]] = frozenset()
    slow: ClassVar[frozenset[str]] = frozenset()
    ready: ClassVar[asyncio.Event]

    async def pre_bind(self, state: object, pod: Pod, node_name: str) -> Status | None:
        if pod.name in self.slow:
            await self.ready.wait()
        return Status.from_error(RuntimeError("no volume")) if pod.name in self.broken else None


class BatchBinding:
    """A batch profile of KAI that writes BindRequests."""

    def __init__(self, batch: BatchCluster) -> None:
        self.batch = batch
        batch.cluster.serve(BIND_REQUESTS)
        batch.queue("q")
        batch.nodes(1, cpu="8")

    async def start(self, plugins: str = "", *, barrier: bool = True, binder: str = "bindRequest") -> FakeFramework:
        """Start a scheduler with the reconciler and these plugins."""
        config = BATCH % (", {name: BindRequestReconciler}" + plugins, binder)
        config = config.replace("preset: kai", f"preset: kai, gangBarrier: {str(barrier).lower()}")
        self.batch.scheduler = self.batch.cluster.framework(enable=[Failing], config=config)
        await self.batch.scheduler.start()
        return self.batch.scheduler

    def requests(self) -> set[str]:
        """Return the names of all requests."""
        return {each.name for each in self.batch.cluster.objects(BindRequest)}

    def bound(self) -> set[str]:
        """Return the names of the pods with a node."""
        return {pod.name for pod in self.batch.cluster.pods() if pod.node_name}


async def test_a_gang_is_bound_by_requests(kai: BatchCluster) -> None:
    """All members of a gang of a batch profile are bound through their requests."""
    binding = BatchBinding(kai)
    kai.job("a", "q", 4)
    await binding.start()
    await kai.pass_time()
    assert binding.bound() == binding.requests() == {f"a-{number}" for number in range(4)}


async def test_no_request_is_written_before_the_gang_is_prepared(kai: BatchCluster) -> None:
    """`gangBarrier` holds for requests, too: while PreBind of one member runs, none exists."""
    Failing.slow, Failing.broken, Failing.ready = frozenset({"a-2"}), frozenset(), asyncio.Event()
    binding = BatchBinding(kai)
    kai.job("a", "q", 3)
    await binding.start(", {name: Failing}")
    await kai.pass_time()
    assert binding.requests() == set()
    Failing.ready.set()
    await kai.pass_time()
    assert binding.bound() == binding.requests() == {"a-0", "a-1", "a-2"}


@pytest.mark.parametrize(("barrier", "written"), [(True, set()), (False, {"a-0", "a-2"})])
async def test_a_member_that_cannot_be_prepared_leaves_no_request(
    kai: BatchCluster, barrier: bool, written: set[str]
) -> None:
    """With `gangBarrier`, the failure of one member leaves no request of the gang; without, the others are bound."""
    Failing.slow, Failing.broken = frozenset(), frozenset({"a-1"})
    binding = BatchBinding(kai)
    kai.job("a", "q", 3)
    await binding.start(", {name: Failing}", barrier=barrier)
    await kai.pass_time()
    assert binding.requests() == written


@pytest.mark.slow
async def test_a_batch_profile_follows_live_requests(kai: BatchCluster) -> None:
    """After a restart, the pods of live requests hold their queue's share, and no other job gets their room."""
    binding = BatchBinding(kai)
    kai.job("a", "q", 6)
    first = await binding.start()
    fault = Fault(method="POST", path="/binding$", status=500)
    kai.cluster.server.faults.add(fault)
    await kai.pass_time(0.3)
    assert len(binding.requests()) == 6
    stopping = asyncio.create_task(first.scheduler.stop(at_once=True))
    await kai.pass_time(15)
    await stopping
    uids = {each.uid for each in kai.cluster.objects(BindRequest)}
    kai.job("b", "q", 6)
    second = await binding.start()
    await kai.pass_time(0.3)
    assert second.scheduler.cache.assumed_count == 6
    fault.times = fault.hits
    await kai.pass_time(10)
    assert binding.bound() == {f"a-{number}" for number in range(6)}
    assert {each.uid for each in kai.cluster.objects(BindRequest)} == uids


async def test_the_binder_cannot_change_while_the_scheduler_runs(kai: BatchCluster) -> None:
    """A reload that names another binder is refused, with the arg's path."""
    binding = BatchBinding(kai)
    measured = await binding.start()
    plugin = sessions_of(measured.scheduler)[0].plugin
    with pytest.raises(ConfigError, match=r"binder cannot change while .*args.binder"):
        plugin.prepare_args({"preset": "kai", "binder": "api"})

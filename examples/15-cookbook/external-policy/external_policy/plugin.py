"""ExternalPolicy: ask an HTTP service whether a pod may be scheduled, without making the scheduler wait."""

import asyncio
import json
from collections.abc import Sequence
from typing import Final

import aiohttp
import attrs
from cachetools import TLRUCache

from pyscheduler import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    Handle,
    Nodes,
    Pod,
    PreEnqueuePlugin,
    PreFilterPlugin,
    QueueingHint,
    SignFragment,
    SignPlugin,
    Status,
)
from pyscheduler.api import pod_requests
from pyscheduler.framework.plugin_args import Duration

UNDECIDED: Final = Status.unresolvable("the policy service has not answered yet")


def _check_url(_args: object, _attribute: object, url: str) -> None:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f'url must begin with "http://" or "https://", but is "{url}"')


def _check_failure(_args: object, _attribute: object, policy: str) -> None:
    if policy not in {"Allow", "Deny"}:
        raise ValueError(f'onFailure must be "Allow" or "Deny", but is "{policy}"')


@attrs.frozen(kw_only=True)
class ExternalPolicyArgs:
    """The service to ask, the labels to send, the lifetime of an answer, and the behaviour without an answer."""

    url: str = attrs.field(validator=_check_url)
    timeout_seconds: Duration = attrs.field(default=2.0, validator=attrs.validators.gt(0))
    #: Keys of the pod labels that the service is told.
    labels: tuple[str, ...] = ()
    cache_ttl_seconds: Duration = attrs.field(default=60.0, validator=attrs.validators.ge(1))
    cache_size: int = attrs.field(default=10_000, validator=attrs.validators.ge(1))
    on_failure: str = attrs.field(default="Deny", validator=_check_failure)
    #: How long `onFailure` holds before the service is asked again.
    failure_ttl_seconds: Duration = attrs.field(default=5.0, validator=attrs.validators.ge(1))
    connections: int = attrs.field(default=16, validator=attrs.validators.ge(1))


@attrs.frozen
class Verdict:
    """An answer, and until when it holds, on the scheduler's clock."""

    allowed: bool
    reason: str
    until: float


class ExternalPolicy(PreEnqueuePlugin, PreFilterPlugin, EnqueueExtensions, SignPlugin):
    """Hold a pod back until the service has answered; reject it if the answer is no.

    PreEnqueue starts the request and keeps the pod out of activeQ. The answer activates the pod, and PreFilter, which
    runs on the event loop and cannot wait, only reads the cache. Pods that the service cannot tell apart share one
    request and one answer.
    """

    # No `reuse`: the answer depends on the time and on the service.
    args_type = ExternalPolicyArgs
    args: ExternalPolicyArgs

    def __init__(self, args: ExternalPolicyArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.verdicts: TLRUCache[str, Verdict] = TLRUCache(
            args.cache_size, ttu=lambda _question, verdict, _now: verdict.until, timer=handle.clock.now
        )
        #: By question under way, the pods that wait for the answer, by uid.
        self.waiting: dict[str, dict[str, Pod]] = {}
        self.session: aiohttp.ClientSession | None = None
        self.requests = handle.metrics.counter(
            "external_policy_requests_total", "Requests to the policy service by result", labels=["result"]
        )
        self.durations = handle.metrics.histogram(
            "external_policy_request_duration_seconds", "How long the policy service took to answer"
        )

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return None if self.verdict(pod) is not None else UNDECIDED

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        # In a trial nothing may be sent, so an unknown answer stays unknown.
        verdict = self.verdict(pod) if state.trial is None else self.verdicts.get(self.question(pod))
        if verdict is None:
            return UNDECIDED  # the answer expired in the queue; the next one activates the pod
        if verdict.allowed:
            return None
        left = verdict.until - self.handle.clock.now()
        return Status.unresolvable(f"the policy service denied the pod: {verdict.reason}", retry_after=left)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        # Besides a new answer, only another question helps.
        relabeled = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_SCALE_DOWN)
        return [ClusterEventWithHint(relabeled, self.after_update)]

    def after_update(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Retry if the pod itself has changed."""
        return QueueingHint.QUEUE if isinstance(new, Pod) and new.uid == pod.uid else QueueingHint.SKIP

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return (SignFragment("ExternalPolicy/question", self.question(pod)),)

    def question(self, pod: Pod) -> str:
        """Return what the service is told, as JSON. Without the pod's name, so that pods of a template share it."""
        labels = {key: pod.labels[key] for key in self.args.labels if key in pod.labels}
        content = {
            "namespace": pod.namespace,
            "serviceAccount": pod.spec.service_account_name,
            "images": sorted({container.image for container in pod.spec.containers}),
            "requests": pod_requests(pod),
            "priority": pod.priority,
            "labels": labels,
        }
        return json.dumps(content, sort_keys=True)

    def verdict(self, pod: Pod) -> Verdict | None:
        """Return the answer about a pod; if there is none, ask, and activate the pod when the answer comes."""
        question = self.question(pod)
        found = self.verdicts.get(question)
        if found is None:
            if question not in self.waiting:
                self.waiting[question] = {}
                self.handle.spawn(self.fetch(question), name="ask the policy service")
            self.waiting[question][pod.uid] = pod
        return found

    async def fetch(self, question: str) -> None:
        """Ask the service, keep the answer, and activate the pods that wait for it."""
        clock, began = self.handle.clock, self.handle.clock.now()
        asking = asyncio.create_task(self.ask(question))
        # The scheduler's clock and not `asyncio.timeout`, so that tests can advance it.
        timer = clock.call_later(self.args.timeout_seconds, asking.cancel)
        try:
            await asyncio.wait([asking])  # raises only if this task is cancelled itself, at the end
            result, verdict = self.judge(asking)
            self.verdicts[question] = verdict
            self.requests.add(result=result)
            self.durations.record(clock.now() - began)
        finally:
            timer.cancel()
            asking.cancel()
            pods = self.waiting.pop(question)
        self.handle.activate(pods.values())

    def judge(self, asking: asyncio.Task[tuple[bool, str]]) -> tuple[str, Verdict]:
        """Return the result for the metric, and the verdict, of a request that has ended."""
        now = self.handle.clock.now()
        if not asking.cancelled() and asking.exception() is None:
            allowed, reason = asking.result()
            return "allowed" if allowed else "denied", Verdict(allowed, reason, now + self.args.cache_ttl_seconds)
        problem = "no answer in time" if asking.cancelled() else str(asking.exception()) or repr(asking.exception())
        allowed = self.args.on_failure == "Allow"
        return "timeout" if asking.cancelled() else "error", Verdict(
            allowed, problem, now + self.args.failure_ttl_seconds
        )

    async def ask(self, question: str) -> tuple[bool, str]:
        """Send the request; return whether the pod is allowed, and why not. Raises what goes wrong."""
        if self.session is None:
            connector = aiohttp.TCPConnector(limit=self.args.connections)
            self.session = aiohttp.ClientSession(connector=connector, raise_for_status=True)
        headers = {"Content-Type": "application/json"}
        async with self.session.post(self.args.url, data=question, headers=headers) as response:
            answer = await response.json()
        if not isinstance(answer, dict) or not isinstance(answer.get("allowed"), bool):
            raise TypeError('the answer is not like {"allowed": true, "reason": "..."}')
        return answer["allowed"], str(answer.get("reason") or "no reason given")

    async def close(self) -> None:
        """Close the connections when the scheduler stops."""
        if self.session is not None:
            await self.session.close()

"""The Bind plugin `BindRequest`: like KAI's scheduler, it leaves the binding of a pod to another program, the binder.

The plugin creates a BindRequest object, and waits until the pod is bound or the request has failed.

Source: KAI-Scheduler, `pkg/scheduler/cache/cache.go` (createBindRequest, cleanStaleBindRequest), `cluster_info.go`
(snapshotBindRequests).
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from pyscheduler.api import Node, Pod
from pyscheduler.framework import (
    AlreadyExistsError,
    APIError,
    BindPlugin,
    ConfigError,
    ConflictError,
    NotFoundError,
    PolicyRule,
    PySchedulerError,
    Status,
    TransportError,
)
from pyscheduler_batch.binder.requests import BIND_REQUESTS, FAILED, SUCCEEDED, BindRequest, request_body

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kube_objects.clock import Timer
    from pyscheduler.api import ResourceKind
    from pyscheduler.framework import CycleState, Handle

__all__ = ["BindRequestArgs", "BindRequestPlugin"]

_log = logging.getLogger(__name__)

#: How often a request is created in place of an old one of the same name.
_TRIES: Final = 4
#: The log names requests that no binder has looked at for so long, in seconds.
_SILENT_SECONDS: Final = 60.0
#: How long the watch of pods may be behind that of requests, in seconds.
_CONFIRMATION_SECONDS: Final = 30.0


@attrs.frozen(kw_only=True)
class BindRequestArgs:
    """The args of `BindRequest`."""

    #: How often the binder tries again after a failure, before the pod is scheduled again.
    backoff_limit: int = attrs.field(default=3, validator=attrs.validators.ge(0))


@attrs.define(eq=False)
class _Wait:
    """A pod whose request was created, or is about to be."""

    pod: Pod
    node_name: str
    began: float
    #: Its result is None for a binding, else why there is none.
    outcome: asyncio.Future[PySchedulerError | None]
    request: BindRequest | None = None
    #: UIDs of requests that were deleted meanwhile.
    deleted: set[str] = attrs.Factory(set)
    #: Ends the wait if the pod has no node some time after its request has succeeded.
    confirmation: Timer | None = None

    def end(self, error: PySchedulerError | None) -> None:
        """End the wait; later ends have no effect."""
        if not self.outcome.done():
            self.outcome.set_result(error)


class BindRequestPlugin(BindPlugin):
    """Create a BindRequest for each pod and wait for its binder."""

    name: ClassVar[str] = "BindRequest"
    args_type: ClassVar[type | None] = BindRequestArgs
    watches: ClassVar[Sequence[ResourceKind]] = (BIND_REQUESTS,)
    rbac: ClassVar[Sequence[PolicyRule]] = (
        PolicyRule(
            api_groups=(BIND_REQUESTS.group,), resources=(BIND_REQUESTS.plural,), verbs=("get", "create", "delete")
        ),
    )

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        if handle is None or not isinstance(args, BindRequestArgs):
            raise ConfigError("BindRequest needs its args and a handle, which the scheduler gives it")
        self._args: BindRequestArgs = args
        self._pods = handle.lister(Pod)
        self._nodes = handle.lister(Node)
        self._requests = handle.lister(BindRequest)
        #: By uid of the pod.
        self._waits: dict[str, _Wait] = {}
        self._pods.add_event_handler(on_update=self._pod_updated, on_delete=self._pod_deleted)
        self._nodes.add_event_handler(on_delete=self._node_deleted)
        self._requests.add_event_handler(
            on_add=self._request_changed,
            on_update=lambda _, new: self._request_changed(new),
            on_delete=self._request_deleted,
        )
        profile = ("profile", handle.profile_name)
        handle.recorder.gauge(
            "bind_requests_pending",
            lambda: {(profile,): float(len(self._waits))},
            description="Pods whose BindRequest waits for its binder",
        )

    # --- the plugin

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Create the request, and wait for the node of the pod or a final failure."""
        outcome: asyncio.Future[PySchedulerError | None] = asyncio.get_running_loop().create_future()
        wait = self._waits[pod.uid] = _Wait(pod, node_name, self.handle.clock.now(), outcome)
        try:
            wait.request = await self._requested(pod, node_name)
            self._look(wait)
            error = await outcome
            if error is not None and wait.request.uid not in wait.deleted:
                # Only what this scheduler sees as failed is deleted, so that the next request can be created.
                await self._delete(wait.request)
        except PySchedulerError as failure:
            error = failure
        finally:
            del self._waits[pod.uid]
            if wait.confirmation is not None:
                wait.confirmation.cancel()
        return None if error is None else Status.from_error(error)

    def bindings_under_way(self) -> Iterator[tuple[Pod, str]]:
        """Return the pods that wait for their binder, with their nodes: requests of an earlier scheduler, oldest first.

        Requests for a node that is gone do not count, nor those that failed. They are replaced with the next binding.
        Of several requests for one pod, the one with its name counts: schedulers write no other.
        """
        found: set[str] = set()
        for request in sorted(self._requests, key=_rank):
            pod = self._pods.get(request.pod_name, request.namespace)
            if (
                pod is not None
                and _is_for(request, pod)
                and pod.scheduler_name == self.handle.profile_name
                and not (pod.node_name or pod.is_terminating or pod.uid in self._waits or pod.uid in found)
                and self._nodes.get(request.node_name) is not None
            ):
                found.add(pod.uid)
                yield pod, request.node_name

    def abandon_bindings(self, bindings: Sequence[tuple[Pod, str]]) -> None:
        """Delete the requests for these pods and nodes, so that no binder overfills a node. The pods are scheduled."""
        places = {(pod.uid, node_name) for pod, node_name in bindings}
        found = [each for each in self._requests if (each.pod_uid, each.node_name) in places]
        self.handle.spawn(self._delete_all(found), name="delete BindRequests without room")

    async def _delete_all(self, requests: Sequence[BindRequest]) -> None:
        for request in requests:
            await self._delete(request)

    async def run(self) -> None:
        """Log requests that no binder looks at, until cancelled."""
        while True:
            await self.handle.clock.sleep(_SILENT_SECONDS)
            due = self.handle.clock.now() - _SILENT_SECONDS
            silent = [each for each in self._waits.values() if each.began <= due and not self._phase(each)]
            if silent:
                self.handle.recorder.warning("bind_request_ignored")
                _log.warning(
                    "No binder looks at BindRequests; start one, such as `pyscheduler binder` requests=%d oldest=%s",
                    len(silent),
                    min(silent, key=lambda each: each.began).pod.key,
                )

    # --- requests

    async def _requested(self, pod: Pod, node_name: str) -> BindRequest:
        """Return the live request for the pod and the node; delete old ones of the same name."""
        found = self._requests.get(pod.name, pod.namespace)
        for _ in range(_TRIES):
            if found is not None:
                if _is_for(found, pod) and found.node_name == node_name:
                    return found
                await self._delete(found)
            body = request_body(pod, node_name, backoff_limit=self._args.backoff_limit)
            try:
                return await self.handle.client.create(BindRequest, body, pod.namespace)
            except AlreadyExistsError:
                found = await self._read(pod)
            except NotFoundError as error:
                text = "the BindRequest cannot be created; is its CustomResourceDefinition installed?"
                raise PySchedulerError(f"{text} {error.said or error}") from error
        raise PySchedulerError(f"BindRequest {pod.key} cannot be replaced; who else creates it?")

    async def _read(self, pod: Pod) -> BindRequest | None:
        try:
            return await self.handle.client.get(BindRequest, pod.name, pod.namespace)
        except NotFoundError:
            return None

    async def _delete(self, request: BindRequest) -> None:
        try:
            await self.handle.client.delete(BindRequest, request.name, request.namespace, uid=request.uid)
        except (NotFoundError, ConflictError):
            return  # it is gone, or another one has its name
        except (APIError, TransportError) as error:
            _log.warning('BindRequest was not deleted request=%s/%s err="%s"', request.namespace, request.name, error)

    def _phase(self, wait: _Wait) -> str:
        seen = self._requests.get(wait.pod.name, wait.pod.namespace)
        return seen.phase if seen is not None else ""

    # --- what ends a wait

    def _look(self, wait: _Wait) -> None:
        """End a wait whose end was seen before the answer to the creation came."""
        assert wait.request is not None, "the request was created"
        pod = self._pods.get(wait.pod.name, wait.pod.namespace)
        seen = self._requests.get(wait.request.name, wait.request.namespace)
        if pod is None or pod.uid != wait.pod.uid:
            self._pod_deleted(wait.pod)
        elif pod.node_name:
            self._pod_bound(pod)
        elif seen is not None and seen.uid == wait.request.uid:
            self._request_changed(seen)
        elif wait.request.uid in wait.deleted:
            self._request_deleted(wait.request)
        if self._nodes.get(wait.node_name) is None:
            wait.end(_node_gone(wait.node_name))

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        if old.uid != new.uid:
            self._pod_deleted(old)
        elif new.node_name and not old.node_name:
            self._pod_bound(new)

    def _pod_bound(self, pod: Pod) -> None:
        wait = self._waits.get(pod.uid)
        if wait is None:
            return
        if pod.node_name == wait.node_name:
            wait.end(None)
        else:
            wait.end(PySchedulerError(f"pod {pod.key} is bound to {pod.node_name}, not to {wait.node_name}"))

    def _pod_deleted(self, pod: Pod) -> None:
        wait = self._waits.get(pod.uid)
        if wait is None:
            return
        if pod.node_name:
            self._pod_bound(pod)  # it has ended since
            return
        wait.end(NotFoundError(f'pods "{pod.name}" not found', status=404, reason="NotFound"))

    def _node_deleted(self, node: Node) -> None:
        for wait in self._waits.values():
            if wait.node_name == node.name:
                wait.end(_node_gone(node.name))

    def _request_changed(self, request: BindRequest) -> None:
        wait = self._waits.get(request.pod_uid)
        if wait is None or wait.request is None or wait.request.uid != request.uid:
            return
        if request.phase == SUCCEEDED:
            # Only the pod itself shows its node: a success may be a binder's mistake, or somebody else's word.
            if wait.confirmation is None:
                text = "the BindRequest has succeeded, but the pod has no node"
                due = partial(wait.end, PySchedulerError(text))
                wait.confirmation = self.handle.clock.call_later(_CONFIRMATION_SECONDS, due)
        elif request.phase == FAILED:
            wait.end(PySchedulerError(f"binder failed: {request.reason or 'it gave no reason'}"))

    def _request_deleted(self, request: BindRequest) -> None:
        wait = self._waits.get(request.pod_uid)
        if wait is None:
            return
        wait.deleted.add(request.uid)
        if wait.request is not None and wait.request.uid == request.uid:
            wait.end(PySchedulerError("the BindRequest was deleted before the pod was bound"))


def _rank(request: BindRequest) -> tuple[bool, str]:
    return request.name != request.pod_name, request.metadata.creation_timestamp or ""


def _is_for(request: BindRequest, pod: Pod) -> bool:
    """Return whether a request may still bind this very pod."""
    is_live = request.phase != FAILED and not request.metadata.deletion_timestamp
    return is_live and request.pod_uid == pod.uid and request.pod_name == pod.name


def _node_gone(name: str) -> PySchedulerError:
    return PySchedulerError(f'node "{name}" was deleted before the pod was bound')

"""`BindRequestReconciler`: the binder, which binds the pods of BindRequests, and writes the result into the requests.

Source: KAI-Scheduler, `pkg/binder/controllers/bindrequest_controller.go`, `pkg/binder/binding/binder.go`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kube_objects.meta import is_older
from pyscheduler.api import Node, Pod, format_time
from pyscheduler.framework import (
    APIError,
    ConfigError,
    ConflictError,
    NotFoundError,
    Plugin,
    PolicyRule,
    PySchedulerError,
)
from pyscheduler.framework.errors import text_of
from pyscheduler_batch.binder.requests import BIND_REQUESTS, FAILED, PENDING, SUCCEEDED, BindRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kube_objects.clock import Timer
    from pyscheduler.api import ResourceKind
    from pyscheduler.framework import Handle

__all__ = ["BindRequestReconciler"]

_log = logging.getLogger(__name__)

#: How many requests are carried out at a time.
_WORKERS: Final = 32
#: The pause after an error outside the attempts: doubled up to the second number, in seconds.
_RETRY_SECONDS: Final = (1.0, 60.0)
_REGULAR: Final = ("", "Regular")
_CONDITION: Final = "PodBound"
#: The name becomes a part of a URL.
_NAME: Final = re.compile("[a-z0-9]([-.a-z0-9]*[a-z0-9])?")


class _Refused(PySchedulerError):  # noqa: N818 - another attempt would change nothing
    """Raised for a request that can never be carried out."""


class BindRequestReconciler(Plugin):
    """Bind the pods of BindRequests, whatever scheduler wrote them."""

    name: ClassVar[str] = "BindRequestReconciler"
    watches: ClassVar[Sequence[ResourceKind]] = (BIND_REQUESTS,)
    rbac: ClassVar[Sequence[PolicyRule]] = (
        PolicyRule(api_groups=(BIND_REQUESTS.group,), resources=(f"{BIND_REQUESTS.plural}/status",), verbs=("patch",)),
        PolicyRule(api_groups=("",), resources=("pods/binding",), verbs=("create",)),
        # The pod itself is read if the watch does not show it yet, and if the answer to its binding was lost.
        PolicyRule(api_groups=("",), resources=("pods",), verbs=("get",)),
        PolicyRule(api_groups=("",), resources=("pods/status",), verbs=("patch",)),
    )

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        if handle is None:
            raise ConfigError("BindRequestReconciler needs a handle, which the scheduler gives it")
        self._pods = handle.lister(Pod)
        self._nodes = handle.lister(Node)
        self._requests = handle.lister(BindRequest)
        #: Keys of requests to look at, in order; None while this scheduler does not lead.
        self._order: asyncio.Queue[str] | None = None
        self._waiting: set[str] = set()
        #: Keys of requests that a worker has, and of those that changed meanwhile.
        self._busy: set[str] = set()
        self._changed: set[str] = set()
        #: Requests as written last; the watch may be behind.
        self._written: dict[str, BindRequest] = {}
        #: The next attempt of a request that failed, and its uid.
        self._timers: dict[str, tuple[str, Timer]] = {}
        #: Errors outside the attempts, in a row.
        self._errors: Counter[str] = Counter()
        #: Attempts by result.
        self.results: Counter[str] = Counter()
        self._requests.add_event_handler(
            on_add=self._enqueue, on_update=lambda _, new: self._enqueue(new), on_delete=self._forget
        )
        profile = ("profile", handle.profile_name)
        handle.recorder.counter(
            "bind_request_attempts_total",
            lambda: {(("result", result), profile): float(count) for result, count in self.results.items()},
            description="Attempts of the binder to carry out a BindRequest",
        )

    async def run(self) -> None:
        """Carry out all requests, and each one that comes, until cancelled."""
        self._order = asyncio.Queue()
        for known in (self._waiting, self._busy, self._changed, self._written):
            known.clear()
        try:
            for request in self._requests:
                self._enqueue(request)
            async with asyncio.TaskGroup() as tasks:
                for number in range(_WORKERS):
                    tasks.create_task(self._work(self._order), name=f"binder {number}")
        finally:
            self._order = None
            for _, timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    # --- which requests

    def _enqueue(self, request: BindRequest) -> None:
        key = _key(request)
        waits = self._timers.get(key)
        if self._order is None or request.is_final or (waits is not None and waits[0] == request.uid):
            return
        if waits is not None:
            del self._timers[key]
            waits[1].cancel()
        if key in self._busy:
            self._changed.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._order.put_nowait(key)

    def _forget(self, request: BindRequest) -> None:
        key = _key(request)
        self._written.pop(key, None)
        self._errors.pop(key, None)
        waits = self._timers.pop(key, None)
        if waits is not None:
            waits[1].cancel()

    def _enqueue_later(self, request: BindRequest, seconds: float) -> None:
        key = _key(request)

        def ring() -> None:
            self._timers.pop(key, None)
            latest = self._latest(key)
            if latest is not None:
                self._enqueue(latest)

        before = self._timers.pop(key, None)
        if before is not None:
            before[1].cancel()
        self._timers[key] = request.uid, self.handle.clock.call_later(seconds, ring)

    def _latest(self, key: str) -> BindRequest | None:
        namespace, _, name = key.partition("/")
        seen, written = self._requests.get(name, namespace), self._written.get(key)
        if seen is None or written is None or seen.uid != written.uid:
            return seen
        return written if is_older(seen.resource_version, written.resource_version) else seen

    async def _work(self, order: asyncio.Queue[str]) -> None:
        while True:
            key = await order.get()
            self._waiting.discard(key)
            request = self._latest(key)
            if request is None or request.is_final:
                continue
            self._busy.add(key)
            try:
                await self._carry_out(request)
                self._errors.pop(key, None)
            except Exception as error:  # a bug with one request must not stop the others  # noqa: BLE001
                self._report(request, error)
            finally:
                self._busy.discard(key)
            if key in self._changed:
                self._changed.discard(key)
                latest = self._latest(key)
                if latest is not None:
                    self._enqueue(latest)

    def _report(self, request: BindRequest, error: Exception) -> None:
        """Log an error outside the attempts, such as a status that cannot be written, and try again later."""
        key = _key(request)
        self._errors[key] += 1
        if not isinstance(error, PySchedulerError):
            self.handle.recorder.warning("binder_error")
            _log.exception("BindRequest cannot be carried out request=%s", key)
        elif self._errors[key] == 1:
            _log.warning('BindRequest cannot be written; it is tried again request=%s err="%s"', key, error)
        first, longest = _RETRY_SECONDS
        self._enqueue_later(request, min(first * 2.0 ** min(self._errors[key] - 1, 16), longest))

    # --- one request

    async def _carry_out(self, request: BindRequest) -> None:
        pod: Pod | None = None
        try:
            pod = await self._pod_of(request)
            await self._bind(request, pod)
        except PySchedulerError as error:
            await self._failed(request, pod, error)
        else:
            await self._succeeded(request, pod)

    async def _pod_of(self, request: BindRequest) -> Pod:
        """Return the pod; raise `_Refused` if it is gone or another one has its name."""
        if not _NAME.fullmatch(request.pod_name):
            raise _Refused(f'spec.podName "{request.pod_name}" is no name of a pod')
        pod = self._pods.get(request.pod_name, request.namespace)
        if pod is None or pod.uid != request.pod_uid:
            try:
                pod = await self.handle.client.get(Pod, request.pod_name, request.namespace)
            except NotFoundError as error:
                raise _Refused(f'pods "{request.pod_name}" not found') from error
        if request.pod_uid and pod.uid != request.pod_uid:
            raise _Refused(f'pod "{request.pod_name}" was deleted and made anew')
        return pod

    async def _bind(self, request: BindRequest, pod: Pod) -> None:
        if pod.node_name:
            if pod.node_name != request.node_name:
                raise _Refused(f"the pod is bound to node {pod.node_name}")
            return
        if request.has_claims or request.resource_type not in _REGULAR:
            what = "resourceClaimAllocations" if request.has_claims else f"receivedResourceType {request.resource_type}"
            raise _Refused(f"{what}: this binder binds pods only; use the binder of the scheduler that wrote this")
        if self._nodes.get(request.node_name) is None:
            raise PySchedulerError(f'nodes "{request.node_name}" not found')
        await self.handle.client.bind(pod, request.node_name)

    async def _succeeded(self, request: BindRequest, pod: Pod) -> None:
        self.results["succeeded"] += 1
        await self._write(request, {"phase": SUCCEEDED, "reason": None})
        message = f"Pod bound successfully to node {request.node_name}"
        await self._tell(pod, is_bound=True, message=message)

    async def _failed(self, request: BindRequest, pod: Pod | None, error: PySchedulerError) -> None:
        """Count a failure; try again later, or give up."""
        failures = request.failed_attempts + 1
        is_last = failures > request.backoff_limit or isinstance(error, _Refused)
        reason = " ".join(text_of(error).split())
        self.results["failed" if is_last else "retried"] += 1
        phase = FAILED if is_last else PENDING
        _log.warning(
            'Pod was not bound request=%s node=%s attempts=%d isLast=%s err="%s"',
            _key(request),
            request.node_name,
            failures,
            is_last,
            reason,
        )
        if not is_last:
            self._enqueue_later(request, 2.0 ** min(failures - 1, 16))
        await self._write(request, {"phase": phase, "reason": reason, "failedAttempts": failures})
        if pod is not None:
            where = f"{pod.namespace}/{pod.name} to node {request.node_name}"
            await self._tell(pod, is_bound=False, message=f"Failed to bind pod {where}: {reason}")

    async def _write(self, request: BindRequest, status: dict[str, Any]) -> None:
        """Write the status; a request that is gone is no error."""
        patch = {"metadata": {"uid": request.uid}, "status": status}
        try:
            stored = await self.handle.client.patch(
                BindRequest, request.name, request.namespace, patch=patch, status=True
            )
        except (NotFoundError, ConflictError):
            return
        self._written[_key(request)] = stored

    async def _tell(self, pod: Pod, *, is_bound: bool, message: str) -> None:
        """Write the condition and the event of a pod."""
        reason = "Bound" if is_bound else "BindingError"
        status = "True" if is_bound else "False"
        self.handle.event_recorder.event(
            pod, type="Normal" if is_bound else "Warning", reason=reason, action="Binding", note=message
        )
        before = next((each for each in pod.status.conditions if each.type == _CONDITION), None)
        if before is not None and (before.status, before.reason, before.message) == (status, reason, message):
            return
        condition = {"type": _CONDITION, "status": status, "reason": reason, "message": message}
        if before is None or before.status != status:
            condition["lastTransitionTime"] = format_time(self.handle.clock.wall())
        try:
            await self.handle.client.patch_pod_status(pod, {"status": {"conditions": [condition]}})
        except APIError as error:
            if not isinstance(error, (NotFoundError, ConflictError)):
                _log.warning('Condition was not written pod=%s err="%s"', pod.key, error)


def _key(request: BindRequest) -> str:
    return f"{request.namespace}/{request.name}"

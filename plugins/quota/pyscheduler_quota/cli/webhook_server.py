"""The HTTPS server of the admission webhook that refuses pods if they would use quota reserved by a group.

If the webhook cannot decide, it allows the pod.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from aiohttp import web

from kube_objects.kinds import PODS
from pyscheduler.api import DecodeError, Pod
from pyscheduler.framework.errors import ConfigError, ForbiddenError
from pyscheduler.serving.connections import ConnectionLimits
from pyscheduler.serving.health_checks import PING, Check, Probes
from pyscheduler.serving.http_server import HTTPServer
from pyscheduler.serving.tls_serving import ServingTLS
from pyscheduler.telemetry.families import CONTENT_TYPE
from pyscheduler_quota.cli.admission_review import answer, read_review

if TYPE_CHECKING:
    import socket

    from kube_objects.clock import Clock
    from pyscheduler.flags.run_flags import SecureServingFlags
    from pyscheduler.scheduler.ports import ClusterClient
    from pyscheduler_quota.admission import QuotaAdmission
    from pyscheduler_quota.cli.admission_review import AdmissionRequest

__all__ = ["QuotaWebhook"]

_log = logging.getLogger(__name__)

PATH: Final = "/validate-pods"
#: How often the files of the certificate are read.
_RELOAD_SECONDS: Final = 10.0
#: The largest body, in bytes, and the time limit for its arrival. The API server takes objects of up to 3 MiB, and a
#: review has more than the pod.
_MOST_BYTES: Final = 8 << 20
_BODY_SECONDS: Final = 10.0
#: The API server opens a connection for each pod that is created at the same moment, and allows the pod if that fails.
_CONNECTIONS: Final = ConnectionLimits(total=1024, per_address=512)
#: Why a pod was allowed without a decision.
NOT_SYNCED: Final = "not_synced"
UNREADABLE: Final = "unreadable"
FAILED: Final = "error"
_REQUESTS: Final = "pyscheduler_quota_webhook_requests_total"
_OPEN: Final = "pyscheduler_quota_webhook_fail_open_total"


class QuotaWebhook:
    """Answers admission reviews: call `start`, then `stop`."""

    def __init__(self, admission: QuotaAdmission, client: ClusterClient, *, clock: Clock) -> None:
        self._admission = admission
        self._client = client
        self._clock = clock
        self._is_synced = False
        self._is_stopping = False
        self._requests: Counter[str] = Counter({"allowed": 0, "refused": 0, "fail_open": 0})
        self._opened: Counter[str] = Counter({NOT_SYNCED: 0, UNREADABLE: 0, FAILED: 0})
        self._probes = Probes(
            started_at=clock.wall(),
            healthz=(PING,),
            livez=(PING,),
            readyz=(Check("informer-sync", self._why_not_ready),),
        )
        self._server = HTTPServer(self._answer, _CONNECTIONS)
        self._reloading: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """Return the port, once the server has started."""
        return self._server.port

    async def start(self, listening: socket.socket, flags: SecureServingFlags) -> None:
        """Serve on `listening` with the certificate of these flags. Raises `ConfigError` for unusable files."""
        try:
            self._tls = await asyncio.to_thread(ServingTLS, flags)
        except BaseException:
            listening.close()
            raise
        await self._server.start(listening, tls=self._tls.context)
        self._reloading = asyncio.create_task(self._keep_current(), name="serving certificate")

    async def fill(self) -> None:
        """Read the cluster, and follow it; decisions begin afterwards. Raises `ConfigError` without permission."""
        kinds = (PODS, *self._admission.kinds())
        own = {PODS, kinds[1]}  # pods and quotas are built in, CRDs of groups may be absent
        informers = [self._client.informer(kind, optional=kind not in own) for kind in kinds]
        for informer in informers:
            informer.add_event_handler(
                on_add=self._admission.put,
                on_update=lambda _old, new: self._admission.put(new),
                on_delete=self._admission.remove,
            )
            informer.start()
        try:
            await asyncio.gather(*(informer.wait_synced() for informer in informers))
        except ForbiddenError as error:
            raise ConfigError(f"{error}; grant it (configs/webhook/webhook.yaml has the rules)") from error
        self._is_synced = True
        _log.info("Caches are filled; reserved quota is enforced")

    async def stop(self) -> None:
        """Close the port."""
        self._is_stopping = True
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.gather(self._reloading, return_exceptions=True)
        await self._server.stop()

    def _why_not_ready(self) -> str:
        if self._is_stopping:
            return "process is shutting down"
        return "" if self._is_synced else "caches are not filled yet"

    async def _keep_current(self) -> None:
        """Read the certificate again and again; keep the one before if that fails."""
        told = ""
        while True:
            await self._clock.sleep(_RELOAD_SECONDS)
            trouble = ""
            try:
                if await asyncio.to_thread(self._tls.reload, client_authorities=()):
                    _log.info("Reloaded serving certificate")
            except ConfigError as error:
                trouble = f"Serving certificate cannot be read anew: {error}"
            if trouble and trouble != told:
                _log.warning("%s", trouble)
            told = trouble

    # --- requests

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == PATH:
            if request.method != "POST":
                return web.Response(status=405, text="method not allowed: use POST\n")
            try:
                async with asyncio.timeout(_BODY_SECONDS):
                    body = await _body_of(request)
            except TimeoutError:
                self._open(UNREADABLE, "the body did not arrive in time")
                return web.Response(status=408, text="the body did not arrive in time\n")
            except DecodeError as error:
                self._open(UNREADABLE, str(error))
                return web.Response(status=413, text=f"{error}\n")
            return await self._review(body)
        probe = self._probes.answer(request.path, verbose="verbose" in request.query)
        if probe is not None:
            return web.Response(status=probe[0], text=probe[1])
        if request.path == "/metrics":
            return web.Response(body=self._metrics(), headers={"Content-Type": CONTENT_TYPE})
        return web.Response(status=404, text=f"nothing at {request.path}\n")

    async def _review(self, body: bytes) -> web.Response:
        try:
            request = read_review(body)
        except DecodeError as error:
            # Nothing to answer to; the API server allows the pod then.
            self._open(UNREADABLE, str(error))
            return web.Response(status=400, text=f"{error}\n")
        refusal, warning = await self._decide(request)
        if refusal:
            self._requests["refused"] += 1
        elif not warning:
            self._requests["allowed"] += 1
        body = answer(request, refusal=refusal, warning=warning)
        return web.Response(body=body, content_type="application/json")

    async def _decide(self, request: AdmissionRequest) -> tuple[str, str]:
        """Return why a pod is refused, and why reservations were not checked; "" for what does not hold."""
        if request.operation != "CREATE" or request.sub_resource:
            return "", ""
        if not self._is_synced:
            return "", self._open(NOT_SYNCED, "caches are not filled yet")
        try:
            pod: Pod = request.pod()
        except DecodeError as error:
            return "", self._open(UNREADABLE, str(error))
        try:
            return await self._admission.decide(pod, is_dry_run=bool(request.dry_run)), ""
        except Exception as error:  # a bug here must not stop the creation of pods  # noqa: BLE001
            _log.exception("Reserved quota cannot be checked pod=%s", pod.key)
            return "", self._open(FAILED, f"{type(error).__name__}: {error}")

    def _open(self, reason: str, text: str) -> str:
        """Count a pod that is allowed without a decision; return the warning for the client."""
        self._requests["fail_open"] += 1
        self._opened[reason] += 1
        _log.warning("Pod is allowed although reserved quota was not checked reason=%s err=%s", reason, text)
        return f"reserved quota was not checked: {text}"

    def _metrics(self) -> bytes:
        families = (
            (_REQUESTS, "Admission requests by result.", "result", self._requests),
            (
                _OPEN,
                "Pods that were allowed although reserved quota was not checked, by reason.",
                "reason",
                self._opened,
            ),
        )
        lines = []
        for name, text, label, counts in families:
            lines += [f"# HELP {name} {text}", f"# TYPE {name} counter"]
            lines += [f'{name}{{{label}="{value}"}} {count}' for value, count in counts.items()]
        return "".join(f"{line}\n" for line in lines).encode()


async def _body_of(request: web.BaseRequest) -> bytes:
    """Return the body of a request; raise `DecodeError` if it is too large.

    The own limit of aiohttp is smaller than a pod may be.
    """
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise DecodeError(f"the body is larger than {_MOST_BYTES} bytes")
    return bytes(body)

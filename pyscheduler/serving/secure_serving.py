"""The HTTPS port, with authentication and authorization by the cluster.

A request is authenticated (else 401), then authorized (else 403), then answered.

Differs from kube-scheduler: pyscheduler serves only HTTP/1.1.

Source: buildHandlerChain in cmd/kube-scheduler/app/server.go; apiserver's endpoints/filters and
handlers/responsewriters/errors.go; server/options/authentication.go.
"""

from __future__ import annotations

import asyncio
import html
import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiohttp import web

from pyscheduler.framework.errors import APIError, ConfigError, TransportError, os_error_text
from pyscheduler.serving.api_status import api_status, quoted
from pyscheduler.serving.authentication import Authenticator, Unauthenticated, certificate_end, shown_certificate
from pyscheduler.serving.authorization import Authorizer
from pyscheduler.serving.delegation import Reviewer, open_transport
from pyscheduler.serving.http_server import HTTPServer
from pyscheduler.serving.inspection import pod_of_story
from pyscheduler.serving.tls_serving import ServingTLS

if TYPE_CHECKING:
    import random
    import socket

    from kube_objects.clock import Clock
    from pyscheduler.flags.run_flags import Flags
    from pyscheduler.serving.authentication import User
    from pyscheduler.serving.inspection import InspectionPages
    from pyscheduler.serving.pages import Debugging, Pages
    from pyscheduler.telemetry.request_metrics import RequestMetrics

__all__ = ["SecureServer"]

_log = logging.getLogger(__name__)

_RELOAD_SECONDS: Final = 60.0
_LOOKUP_PATH: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
_LOOKUP: Final = "configmap/extension-apiserver-authentication in kube-system"


class SecureServer:
    """Answers requests on a listening socket: call `prepare`, then `start`.

    `debugging` and `inspection` serve the pages that only this port has.
    """

    def __init__(
        self,
        pages: Pages,
        flags: Flags,
        *,
        clock: Clock,
        rng: random.Random,
        debugging: Debugging | None = None,
        inspection: InspectionPages | None = None,
        request_metrics: RequestMetrics,
    ) -> None:
        self._pages = pages
        self._flags = flags
        self._clock = clock
        self._rng = rng
        self._debugging = debugging
        self._inspection = inspection
        self._request_metrics = request_metrics
        self._server = HTTPServer(self._answer)
        self._reloading: asyncio.Task[None] | None = None
        self._reviewers: list[Reviewer] = []
        self._lookup: Reviewer | None = None
        self._looked_up = b""
        #: Done after the first check of the files and of the cluster's client CA.
        self.looked: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def port(self) -> int:
        """Return the port, once the server has started."""
        return self._server.port

    async def prepare(self) -> None:
        """Read the files of the flags. Raises `ConfigError` for unusable ones. Call `stop` in any case."""
        authorities = await asyncio.to_thread(self._authorities)
        self._tls = await asyncio.to_thread(ServingTLS, self._flags.secure_serving, client_authorities=authorities)
        asking, deciding = self._flags.authentication, self._flags.authorization
        asks = await self._reviewer(asking.authentication_kubeconfig, "--authentication-kubeconfig", "authn")
        decides = await self._reviewer(deciding.authorization_kubeconfig, "--authorization-kubeconfig", "authz")
        self._authenticator = Authenticator(
            reviewer=asks,
            clock=self._clock,
            cache_seconds=asking.authentication_token_webhook_cache_ttl_seconds,
            request_metrics=self._request_metrics,
        )
        if decides is None:
            _log.warning(
                "No authorization-kubeconfig provided, so SubjectAccessReview of authorization tokens won't work."
            )
        self._authorizer = Authorizer(
            reviewer=decides,
            clock=self._clock,
            open_paths=deciding.authorization_always_allow_paths,
            allowed_seconds=deciding.authorization_webhook_cache_authorized_ttl_seconds,
            denied_seconds=deciding.authorization_webhook_cache_unauthorized_ttl_seconds,
        )
        if asking.authentication_skip_lookup:
            return
        self._lookup = asks
        if asks is None:
            if not asking.client_ca_file:
                _log.warning(
                    "No authentication-kubeconfig provided in order to lookup client-ca-file in %s, so client "
                    "certificate authentication won't work.",
                    _LOOKUP,
                )
        elif not asking.authentication_tolerate_lookup_failure:
            try:
                self._looked_up = await self._look_up(asks)
            except (APIError, TransportError) as error:
                raise ConfigError(
                    f"--authentication-tolerate-lookup-failure=false: unable to load {_LOOKUP}: {error}"
                ) from error

    async def start(self, listening: socket.socket) -> None:
        """Serve on `listening`; the server owns the socket from now on."""
        await self._server.start(listening, tls=self._tls.context)
        self._reloading = asyncio.create_task(self._keep_current(), name="serving certificates")

    async def stop(self) -> None:
        """Close the port and the connections to the API server."""
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.gather(self._reloading, return_exceptions=True)
        await self._server.stop()
        for reviewer in self._reviewers:
            await reviewer.close()
        self._reviewers.clear()

    # Certificates and authorities

    async def _reviewer(self, kubeconfig: str, flag: str, kind: str) -> Reviewer | None:
        transport = await open_transport(kubeconfig, flag=flag)
        if transport is None:
            return None
        reviewer = Reviewer(
            transport, clock=self._clock, rng=self._rng, reviewed=partial(self._request_metrics.reviewed, kind)
        )
        self._reviewers.append(reviewer)
        return reviewer

    def _authorities(self) -> list[bytes]:
        """Return the client CAs: those of the file, or else of the cluster."""
        path = self._flags.authentication.client_ca_file
        if not path:
            return [self._looked_up] if self._looked_up else []
        try:
            return [Path(path).read_bytes()]
        except OSError as error:
            raise ConfigError(f"--client-ca-file: {path}: {os_error_text(error)}") from error

    async def _look_up(self, reviewer: Reviewer) -> bytes:
        data = (await reviewer.get(_LOOKUP_PATH)).get("data")
        authorities = data.get("client-ca-file") if isinstance(data, dict) else None
        return authorities.encode() if isinstance(authorities, str) else b""

    async def _keep_current(self) -> None:
        """Reload files and client CA at once and then every minute; keep the previous ones if that fails."""
        told = ""
        while True:
            trouble = ""
            if self._lookup is not None and not self._flags.authentication.client_ca_file:
                try:
                    self._looked_up = await self._look_up(self._lookup)
                except (APIError, TransportError) as error:
                    trouble = f"Error looking up in-cluster authentication configuration: {error}"
            try:
                authorities = await asyncio.to_thread(self._authorities)
                if self._tls.reload(client_authorities=authorities):
                    _log.info("Reloaded serving certificates and client CAs")
            except ConfigError as error:
                trouble = f"Serving certificates cannot be read anew: {error}"
            if trouble and trouble != told:
                _log.warning("%s", trouble)
            told = trouble
            if not self.looked.done():
                self.looked.set_result(None)
            await self._clock.sleep(_RELOAD_SECONDS)

    # Requests

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        answer = await self._guarded(request)
        answer.headers.setdefault("Cache-Control", "no-cache, private")
        return answer

    async def _guarded(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.transport.get_extra_info("ssl_object") if request.transport is not None else None
        certificate, subject = shown_certificate(connection)
        began = self._clock.now()
        if certificate is not None:
            self._request_metrics.certificate_shown(certificate_end(connection) - self._clock.wall())
        try:
            user = await self._authenticator.authenticate(
                certificate=certificate, subject=subject, authorization=request.headers.get("Authorization", "")
            )
        except Unauthenticated as error:
            self._request_metrics.authenticated(result="error", username="", seconds=self._clock.now() - began)
            _log.error("Unable to authenticate the request err=%s", error)
            return api_status(request, 401, "Unauthorized", "Unauthorized")
        self._request_metrics.authenticated(result="success", username=user.name, seconds=self._clock.now() - began)
        pod = pod_of_story(request) if self._inspection is not None else None
        began = self._clock.now()
        try:
            if pod is not None:
                decision = await self._authorizer.authorize_pods(user, pod[0])
            else:
                decision = await self._authorizer.authorize(user, request.method.lower(), request.path)
        except (APIError, TransportError) as error:
            self._request_metrics.authorized(result="error", seconds=self._clock.now() - began)
            message = f"Internal Server Error: {quoted(request.raw_path)}: {error}"
            return web.Response(status=500, text=f"{html.escape(message, quote=False)}\n")
        self._request_metrics.authorized(result=decision.label, seconds=self._clock.now() - began)
        if not decision.allowed:
            _log.debug("Forbidden uri=%s user=%s reason=%s", request.raw_path, user.name, decision.reason)
            return _forbidden(request, user, pod, decision.reason)
        if self._inspection is not None:
            answer = await self._inspection.answer(request, partial(self._may_get_pods, user))
            if answer is not None:
                return answer
        return await self._pages.answer(request, self._debugging)

    async def _may_get_pods(self, user: User, namespace: str) -> bool:
        return (await self._authorizer.authorize_pods(user, namespace)).allowed


def _forbidden(request: web.BaseRequest, user: User, pod: tuple[str, str] | None, reason: str) -> web.Response:
    """Return the answer for a path that `user` may not read; for a story, that of a request to get its pod."""
    details: dict[str, str] = {}
    subject, action = "", f"{request.method.lower()} path {quoted(request.path)}"
    if pod is not None:
        namespace, name = pod
        details = {"name": name, "kind": "pods"}
        subject = f"pods {quoted(name)} is "
        action = f'get resource "pods" in API group "" in the namespace {quoted(namespace)}'
    message = html.escape(f"User {quoted(user.name)} cannot {action}", quote=False)
    text = f"{html.escape(subject, quote=False)}forbidden: {message}{f': {reason}' if reason else ''}"
    return api_status(request, 403, "Forbidden", text, details=details)

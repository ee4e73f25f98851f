"""The pages of the HTTPS port and of the plain HTTP port: probes, metrics, configuration and plugins' routes.

The HTTPS port adds pages for authorized users, such as flags, status and profiling.

Differs from kube-scheduler: DELETE of /metrics is refused.
Source: kube-scheduler, `newEndpointsHandler` in `cmd/kube-scheduler/app/server.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import msgspec
from aiohttp import web

from pyscheduler.framework import NotFoundError
from pyscheduler.framework.errors import PLUGIN_FAILURES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pyscheduler.runtime.routes import Routes
    from pyscheduler.serving.health_checks import Probes

__all__ = ["Debugging", "Pages"]

_PLAIN: Final = {"X-Content-Type-Options": "nosniff"}
#: Answers a request, or returns None for a path that it does not serve.
Debugging: TypeAlias = "Callable[[web.BaseRequest], Awaitable[web.Response | None]]"


@attrs.frozen(kw_only=True)
class Pages:
    """Answers requests; calls a source only for a request to its page."""

    probes: Probes
    #: Returns text for Prometheus and its content type.
    metrics: Callable[[], tuple[bytes, str]]
    configz: Callable[[], bytes]
    #: The routes of plugins.
    routes: Routes
    #: Returns text and content type of /metrics/resources, which is empty on a replica that does not lead.
    resources: Callable[[], Awaitable[tuple[bytes, str]]] | None = None

    def paths(self) -> list[str]:
        """Return every served path, sorted."""
        own = ["/configz", "/metrics", "/metrics/slis", *(["/metrics/resources"] if self.resources else [])]
        return sorted({*self.probes.paths(), *own, *self.routes.paths()})

    async def answer(self, request: web.BaseRequest, debugging: Debugging | None = None) -> web.StreamResponse:
        """Return the answer to a request; `debugging` serves the pages that only the HTTPS port has."""
        if debugging is not None and (answer := await debugging(request)) is not None:
            return answer
        if request.method == "DELETE" and request.path == "/metrics/slis" and debugging is not None:
            self.probes.reset_slis()
            return web.Response(text="metrics reset\n")
        if request.method not in {"GET", "HEAD"}:
            return web.Response(status=405, text="method not allowed: use GET\n")
        if request.path == "/metrics/resources" and self.resources is not None:
            return _scraped(*await self.resources())
        return self._get(request)

    def _get(self, request: web.BaseRequest) -> web.Response:
        query = request.query
        probe = self.probes.answer(request.path, verbose="verbose" in query, excluded=query.getall("exclude", []))
        if probe is not None:
            return web.Response(status=probe[0], text=probe[1], headers=_PLAIN)
        match request.path:
            case "/metrics":
                return _scraped(*self.metrics())
            case "/metrics/slis":
                return _scraped(*self.probes.slis())
            case "/configz":
                return web.Response(body=self.configz(), content_type="application/json", headers=_PLAIN)
            case path:
                return self._plugin_route(path, dict(query))

    def _plugin_route(self, path: str, query: Mapping[str, str]) -> web.Response:
        handler = self.routes.find(path, query)
        if handler is None:
            return web.Response(status=404, text=f"nothing at {path}\n")
        try:
            answer = handler(query)
            if isinstance(answer, str):
                return web.Response(text=answer)
            return web.Response(body=msgspec.json.encode(answer), content_type="application/json")
        except NotFoundError as error:
            return web.Response(status=404, text=f"{error}\n")
        except PLUGIN_FAILURES as error:  # an error in a plugin's page must not stop the port
            return web.Response(status=500, text=f"{type(error).__name__}: {error}\n")


def _scraped(body: bytes, content_type: str) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": content_type})

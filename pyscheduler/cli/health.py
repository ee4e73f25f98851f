"""The health port: /healthz, /livez, /readyz, /metrics, /configz, and the routes of plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from pyscheduler.framework.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyscheduler.runtime.routes import Routes

__all__ = ["HealthServer"]


class HealthServer:
    """Answers probes and scrapes; GET only."""

    def __init__(
        self,
        *,
        ready: Callable[[], bool],
        metrics: Callable[[], tuple[bytes, str]],
        configz: Callable[[], bytes],
        routes: Routes,
    ) -> None:
        self._ready = ready
        self._metrics = metrics
        self._configz = configz
        self._routes = routes
        self._runner: web.ServerRunner | None = None
        self.port = 0

    async def start(self, address: str, port: int) -> None:
        """Listen; `port` 0 takes a free one. Raises `ConfigError` where the port is taken."""
        server = web.Server(self._answer, access_log=None)
        self._runner = web.ServerRunner(server)
        await self._runner.setup()
        site = web.TCPSite(self._runner, address, port)
        try:
            await site.start()
        except OSError as error:
            message = (
                f"health port {address}:{port} cannot be opened: {error.strerror}; name another with --health-port"
            )
            raise ConfigError(message) from error
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close the port."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method not in {"GET", "HEAD"}:
            return web.Response(status=405, text="only GET is answered here\n")
        match request.path:
            case "/healthz" | "/livez":
                return web.Response(text="ok")
            case "/readyz":
                return web.Response(text="ok") if self._ready() else web.Response(status=500, text="caches not synced")
            case "/metrics":
                body, content_type = self._metrics()
                return web.Response(body=body, headers={"Content-Type": content_type})
            case "/configz":
                return web.Response(body=self._configz(), content_type="application/json")
            case path:
                return self._plugin_route(path, dict(request.query))

    def _plugin_route(self, path: str, query: Mapping[str, str]) -> web.Response:
        handler = self._routes.find(path, query)
        if handler is None:
            return web.Response(status=404, text=f"nothing at {path}\n")
        try:
            answer = handler(query)
            if isinstance(answer, str):
                return web.Response(text=answer)
            return web.Response(body=msgspec.json.encode(answer), content_type="application/json")
        except Exception as error:  # noqa: BLE001 - a plugin's page must not take the port down
            return web.Response(status=500, text=f"{type(error).__name__}: {error}\n")

"""The health port on its own: what it answers, and what plugins may add to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping

import aiohttp
import attrs
import pytest

from pyscheduler.cli.health import HealthServer
from pyscheduler.framework.errors import ConfigError
from pyscheduler.runtime.routes import Routes


@attrs.define
class Page:
    """A running health port."""

    server: HealthServer
    routes: Routes
    session: aiohttp.ClientSession
    ready: bool = False

    async def get(self, path: str, method: str = "GET") -> tuple[int, str, str]:
        """Return status, content type and text."""
        async with self.session.request(method, f"http://127.0.0.1:{self.server.port}{path}") as answer:
            return answer.status, answer.content_type, await answer.text()


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    """Yield a health port on a free port."""
    routes = Routes()
    server = HealthServer(
        ready=lambda: page.ready,
        metrics=lambda: (b"scheduler_pending_pods 1\n", "text/plain; version=0.0.4"),
        configz=lambda: b"{}",
        routes=routes,
    )
    await server.start("127.0.0.1", 0)
    async with aiohttp.ClientSession() as session:
        page = Page(server, routes, session)
        yield page
    await server.stop()


async def test_probes(page: Page) -> None:
    """Alive from the beginning, ready when the caches are synced."""
    assert await page.get("/healthz") == (200, "text/plain", "ok")
    assert await page.get("/livez") == (200, "text/plain", "ok")
    assert (await page.get("/readyz"))[0] == 500
    page.ready = True
    assert await page.get("/readyz") == (200, "text/plain", "ok")


async def test_pages(page: Page) -> None:
    """Metrics and configuration come in their formats."""
    assert await page.get("/metrics") == (200, "text/plain", "scheduler_pending_pods 1\n")
    assert await page.get("/configz") == (200, "application/json", "{}")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_it_is_read_only(page: Page, method: str) -> None:
    """Nothing can be changed here."""
    assert (await page.get("/metrics", method))[0] == 405


async def test_an_unknown_path(page: Page) -> None:
    """404, with the path."""
    assert await page.get("/nothing") == (404, "text/plain", "nothing at /nothing\n")


def _raise(query: Mapping[str, str]) -> object:
    raise KeyError("gone")


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        pytest.param(lambda query: "hello " + query["to"], (200, "text/plain", "hello you"), id="text"),
        pytest.param(lambda query: {"to": query["to"]}, (200, "application/json", '{"to":"you"}'), id="data"),
        pytest.param(lambda query: object(), (500, "text/plain", "TypeError"), id="neither"),
        pytest.param(_raise, (500, "text/plain", "KeyError"), id="an error of the plugin"),
    ],
)
async def test_routes_of_plugins(
    page: Page, handler: Callable[[Mapping[str, str]], object], expected: tuple[int, str, str]
) -> None:
    """A plugin's page gets the query; its errors are its own and do not look like a missing page."""
    page.routes.add("/mine", handler, profile="p")
    status, kind, text = await page.get("/mine?to=you")
    assert (status, kind) == expected[:2]
    assert text.startswith(expected[2])


async def test_a_port_that_is_taken(page: Page) -> None:
    """One line with the address, and how to name another."""
    other = HealthServer(ready=bool, metrics=lambda: (b"", ""), configz=bytes, routes=Routes())
    with pytest.raises(ConfigError) as raised:
        await other.start("127.0.0.1", page.server.port)
    await other.stop()
    assert f"127.0.0.1:{page.server.port}" in str(raised.value)
    assert "--health-port" in str(raised.value)

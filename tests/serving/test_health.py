"""The health port on its own: what it answers, and what plugins may add to it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping

import aiohttp
import attrs
import pytest

from kube_testserver.virtual_time import VirtualClock
from pyscheduler import CycleState, Pod, PostBindPlugin
from pyscheduler.framework import NotFoundError
from pyscheduler.runtime.routes import Routes
from pyscheduler.serving.health_checks import Check, Probes
from pyscheduler.serving.http_server import HTTPServer
from pyscheduler.serving.pages import Pages
from pyscheduler.serving.ports import probes
from pyscheduler.testing import FakeCluster


@attrs.define
class Page:
    """A running health port."""

    server: HTTPServer
    routes: Routes
    session: aiohttp.ClientSession
    #: Why it is not ready, by check.
    trouble: dict[str, str]

    async def get(self, path: str, method: str = "GET") -> tuple[int, str, str]:
        """Return status, content type and text."""
        async with self.session.request(method, f"http://127.0.0.1:{self.server.port}{path}") as answer:
            return answer.status, answer.content_type, await answer.text()


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    """Yield a health port on a free port."""
    routes = Routes()
    trouble = {"sched-handler-sync": "handlers are not fully synchronized", "shutdown": ""}
    checks = [Check(name, lambda name=name: trouble[name]) for name in trouble]  # type: ignore[misc] # bound early
    pages = Pages(
        probes=Probes(started_at=1.5, healthz=(), livez=(), readyz=checks),
        metrics=lambda: (b"scheduler_pending_pods 1\n", "text/plain; version=0.0.4"),
        configz=lambda: b"{}",
        routes=routes,
    )
    server = HTTPServer(pages.answer)
    await server.start(socket.create_server(("127.0.0.1", 0)))
    async with aiohttp.ClientSession() as session:
        yield Page(server, routes, session, trouble)
    await server.stop()


async def test_probes(page: Page) -> None:
    """Alive from the beginning, ready when every check passes."""
    assert await page.get("/healthz") == (200, "text/plain", "ok")
    assert await page.get("/livez") == (200, "text/plain", "ok")
    assert (await page.get("/readyz"))[0] == 500
    page.trouble["sched-handler-sync"] = ""
    assert await page.get("/readyz") == (200, "text/plain", "ok")


async def test_failing_probe_lists_checks_without_reasons(page: Page) -> None:
    """A line for each check, always where one fails; the reason is told to who asks for the check itself."""
    failed = "[-]sched-handler-sync failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n"
    assert await page.get("/readyz") == (500, "text/plain", failed)
    reason = "internal server error: handlers are not fully synchronized\n"
    assert await page.get("/readyz/sched-handler-sync") == (500, "text/plain", reason)
    assert await page.get("/readyz/shutdown") == (200, "text/plain", "ok")
    assert (await page.get("/readyz/nothing"))[0] == 404


async def test_livez_fails_when_the_event_loop_is_blocked(page: Page) -> None:
    """/livez names the check that fails and keeps the reason; /healthz and /readyz do not ask for it."""
    slow = {"reason": "the event loop was blocked for 6.0 s"}

    class Heartbeat:
        why_slow = staticmethod(lambda: slow["reason"])

    class Scheduler:
        clock = VirtualClock()
        synced = True

    found = probes(Scheduler(), None, asyncio.Event(), Heartbeat())  # type: ignore[arg-type] # all that is asked
    failed = "[+]ping ok\n[-]event-loop failed: reason withheld\nlivez check failed\n"
    assert found.answer("/livez") == (500, failed)
    assert found.answer("/livez/event-loop") == (500, f"internal server error: {slow['reason']}\n")
    assert found.answer("/livez/ping") == (200, "ok")
    assert found.answer("/readyz") == found.answer("/healthz") == (200, "ok")
    slow["reason"] = ""
    assert found.answer("/livez") == (200, "ok")


async def test_a_verbose_probe_without_some_checks(page: Page) -> None:
    """`verbose` lists, `exclude` leaves out, and an unknown name is warned of."""
    expected = "[+]sched-handler-sync excluded: ok\n[+]shutdown ok\nreadyz check passed\n"
    assert (await page.get("/readyz?verbose&exclude=sched-handler-sync"))[2] == expected
    assert (await page.get("/healthz?verbose"))[2] == "[+]ping ok\nhealthz check passed\n"
    text = (await page.get("/healthz?verbose&exclude=b&exclude=a"))[2]
    assert 'warn: some health checks cannot be excluded: no matches for "a","b"\n' in text


async def test_readyz_tells_about_a_run_that_ended_and_stays_ready(cluster: FakeCluster) -> None:
    """A plugin's `run()` that raises is started again after a pause that grows; the replica schedules all the same."""

    class Restless(PostBindPlugin):
        runs = 0

        def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
            """Do nothing."""

        async def run(self) -> None:
            self.runs += 1
            if self.runs <= 3:
                raise ConnectionError("no price list")

    framework = cluster.framework(enable=[Restless], allow_plugin_errors=True)
    await framework.start()
    found = probes(framework.scheduler, None, asyncio.Event(), None)
    checks = "[+]shutdown ok\n[+]sched-handler-sync ok\n"
    ended = 'run() of plugin "Restless" in profile "pyscheduler" ended with ConnectionError: no price list'

    def verbose(text: str) -> tuple[int, str]:
        return 200, f"{checks}{text}readyz check passed\n"

    assert found.answer("/readyz") == (200, "ok")
    line = f"[+]plugin-run ok: {ended}; it starts again in"
    assert found.answer("/readyz", verbose=True) == verbose(f"{line} 1 s, restarts=0\n")
    await cluster.clock.advance(1)
    assert found.answer("/readyz", verbose=True) == verbose(f"{line} 2 s, restarts=1\n")
    await cluster.clock.advance(2)
    assert found.answer("/readyz", verbose=True) == verbose(f"{line} 4 s, restarts=2\n")
    await cluster.clock.advance(4)
    assert found.answer("/readyz", verbose=True) == verbose(
        f"[+]plugin-run ok: {ended}; it was started again, restarts=3\n"
    )
    assert framework.scheduler.plugin_failures.counts == {("Restless", "run"): 3}


async def test_slis_record_the_results_of_checks(page: Page) -> None:
    """Each check counts, with its last result, under kube-scheduler's names."""
    await page.get("/readyz")
    page.trouble["sched-handler-sync"] = ""
    await page.get("/readyz")
    text = (await page.get("/metrics/slis"))[2]
    assert 'kubernetes_healthcheck{name="sched-handler-sync",type="readyz"} 1\n' in text
    for status in ("error", "success"):
        labels = f'{{name="sched-handler-sync",status="{status}",type="readyz"}}'
        assert f"kubernetes_healthchecks_total{labels} 1\n" in text
    assert "process_start_time_seconds 1.5\n" in text


async def test_pages(page: Page) -> None:
    """Metrics and configuration come in their formats."""
    assert await page.get("/metrics") == (200, "text/plain", "scheduler_pending_pods 1\n")
    assert await page.get("/configz") == (200, "application/json", "{}")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/metrics", "/metrics/slis", "/debug/flags/v"])
async def test_other_methods_than_get_are_rejected(page: Page, method: str, path: str) -> None:
    """Nothing can be changed here."""
    assert (await page.get(path, method))[0] == 405


async def test_an_unknown_path(page: Page) -> None:
    """404, with the path."""
    assert await page.get("/nothing") == (404, "text/plain", "nothing at /nothing\n")


def _miss(_query: Mapping[str, str]) -> object:
    raise NotFoundError("cannot find it", status=404)


def _raise(query: Mapping[str, str]) -> object:
    raise KeyError("gone")


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        pytest.param(lambda query: "hello " + query["to"], (200, "text/plain", "hello you"), id="text"),
        pytest.param(lambda query: {"to": query["to"]}, (200, "application/json", '{"to":"you"}'), id="data"),
        pytest.param(lambda query: object(), (500, "text/plain", "TypeError"), id="neither"),
        pytest.param(_raise, (500, "text/plain", "KeyError"), id="an error of the plugin"),
        pytest.param(_miss, (404, "text/plain", "cannot find it"), id="not there"),
    ],
)
async def test_routes_of_plugins(
    page: Page, handler: Callable[[Mapping[str, str]], object], expected: tuple[int, str, str]
) -> None:
    """A plugin's page gets the query; its errors are its own, and only what it misses looks like a missing page."""
    page.routes.add("/mine", handler, profile="p")
    status, kind, text = await page.get("/mine?to=you")
    assert (status, kind) == expected[:2]
    assert text.startswith(expected[2])

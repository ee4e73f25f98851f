"""The clusters for benchmark cases: an API server in this process, one in another process, or an existing cluster."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

import attrs

from benchmarks import secure
from benchmarks.foreign import ForeignCluster
from benchmarks.server import serving_case
from benchmarks.stage import Stage
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.cluster.real import auth
from pyscheduler.cluster.real.http import HTTPTransport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from benchmarks.plan import Plan
    from benchmarks.server import Server
    from pyscheduler.scheduler.ports import Transport

__all__ = ["MeasuredCluster", "Setting", "opened"]


@attrs.frozen(kw_only=True)
class Setting:
    """A case at a size in a mode: `cycle`, `http`, `https`, or with a `kubeconfig`, `cluster`."""

    case: str
    nodes: int
    mode: str
    distinct: bool
    #: How many pods are measured in a round; None: as many as the workload has.
    pods: int | None = None
    kubeconfig: str | None = None
    #: Whether a cluster may have nodes of its own.
    shared: bool = False


class MeasuredCluster(Protocol):
    """A cluster that holds the objects of a plan."""

    async def fill(self) -> None:
        """Create the measured pods."""
        ...

    async def begin(self) -> None:
        """Let begin what happens while it is measured."""
        ...

    async def clear(self) -> None:
        """Restore what was there at the beginning."""
        ...

    async def transport(self) -> Transport:
        """Return a new way to the API server."""
        ...

    async def server_cpu_seconds(self) -> float | None:
        """Return the CPU time of the server's process so far; None where that is not known, or is this process."""
        ...


class _InProcess:
    def __init__(self, plan: Plan) -> None:
        self._stage = Stage(plan)

    async def fill(self) -> None:
        self._stage.fill()

    async def begin(self) -> None:
        self._stage.begin()

    async def clear(self) -> None:
        await self._stage.clear()

    async def transport(self) -> Transport:
        return InProcessTransport(self._stage.cluster.router)

    async def server_cpu_seconds(self) -> float | None:
        return None


class _Served:
    def __init__(self, server: Server) -> None:
        self._server = server

    async def fill(self) -> None:
        await self._order("fill")

    async def begin(self) -> None:
        await self._order("begin")

    async def clear(self) -> None:
        await self._order("clear")

    async def transport(self) -> Transport:
        identity = self._server.identity
        url = self._server.url
        return HTTPTransport(auth.plain(url) if identity is None else secure.credentials(url, **identity))

    async def server_cpu_seconds(self) -> float | None:
        return float(await self._order("cpu_seconds"))

    async def _order(self, what: str) -> float:
        answer: float = await asyncio.to_thread(self._server, what)
        return answer


@asynccontextmanager
async def opened(setting: Setting, plan: Plan) -> AsyncIterator[MeasuredCluster]:
    """Set a case up, and take it down again."""
    if setting.mode == "cycle":
        yield _InProcess(plan)
    elif setting.mode in {"http", "https"}:
        with serving_case(
            setting.case,
            setting.nodes,
            distinct=setting.distinct,
            measured=setting.pods,
            secure=setting.mode == "https",
        ) as server:
            yield _Served(server)
    else:
        world = await ForeignCluster.open(plan, setting.kubeconfig, shared=setting.shared)
        try:
            yield world
        finally:
            await world.close()

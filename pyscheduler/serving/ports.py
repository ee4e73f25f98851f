"""The ports of a running scheduler: HTTPS as in kube-scheduler, and optionally plain HTTP.

Differs from kube-scheduler, which has no plain HTTP port.
"""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING, Final

import attrs

from kube_objects.durations import format_duration
from pyscheduler.serving.debug_pages import DebugPages
from pyscheduler.serving.health_checks import PING, Check, Probes
from pyscheduler.serving.http_server import HTTPServer
from pyscheduler.serving.listening import listen
from pyscheduler.serving.secure_serving import SecureServer
from pyscheduler.serving.version import version_text

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from pyscheduler.cluster.real.lease import LeaderElector
    from pyscheduler.cluster.real.loop_heartbeat import Heartbeat
    from pyscheduler.flags.run_flags import Flags
    from pyscheduler.scheduler.scheduler import Scheduler
    from pyscheduler.serving.inspection import InspectionPages
    from pyscheduler.serving.pages import Pages
    from pyscheduler.telemetry.request_metrics import RequestMetrics

__all__ = ["Ports", "probes"]

_log = logging.getLogger(__name__)

_LOOPBACK: Final = "127.0.0.1"
#: Flags whose lists and maps are printed without brackets.
_BARE: Final = frozenset({"feature-gates", "vmodule"})
#: The text for a flag that was not given, where it is not empty.
_EMPTY: Final = {"log-json-info-buffer-size": "0", "log-text-info-buffer-size": "0", "version": "false"}


def probes(
    scheduler: Scheduler, elector: LeaderElector | None, stop: asyncio.Event, heartbeat: Heartbeat | None
) -> Probes:
    """Return kube-scheduler's probes: healthy while leader election works, ready from the first sync until the end.

    /livez fails if the event loop is blocked too often or too long.

    Differs from kube-scheduler: /livez has the check `event-loop` beside `ping`.
    """

    def election() -> str:
        assert elector is not None
        return f"failed election to renew leadership on lease {elector.lease_name}" if elector.reason else ""

    healthy = (Check("leaderElection", election),) if elector is not None else ()
    ready = (
        *healthy,
        Check("shutdown", lambda: "process is shutting down" if stop.is_set() else ""),
        Check("sched-handler-sync", lambda: "" if scheduler.synced else "handlers are not fully synchronized"),
        # A plugin whose run() fails does not make the replica unready: pods are scheduled all the same, and another
        # replica would have the same plugin.
        Check("plugin-run", str, note=lambda: _failing_runs(scheduler), optional=True),
    )
    alive = (PING, Check("event-loop", heartbeat.why_slow)) if heartbeat is not None else ()
    return Probes(started_at=scheduler.clock.wall(), healthz=healthy, livez=alive, readyz=ready)


def _failing_runs(scheduler: Scheduler) -> str:
    """Return which plugins' `run()` ended with an error, and when each is started again; "" for none."""
    now = scheduler.clock.now()
    lines = []
    for name, profile in scheduler.profiles.items():
        for plugin, found in profile.handle.background.restarts.items():
            if found.next_at is not None:
                when = f"starts again in {max(found.next_at - now, 0):.0f} s, restarts={found.count}"
            elif found.count:
                when = f"was started again, restarts={found.count}"
            else:
                continue
            lines.append(f'run() of plugin "{plugin}" in profile "{name}" ended with {found.error}; it {when}')
    return "; ".join(lines)


@attrs.define(kw_only=True)
class Ports:
    """Both ports, as configured. Call `close` even if `open` raised."""

    pages: Pages
    scheduler: Scheduler
    bind_address: str
    #: 0 takes a free port, None opens none.
    health_port: int | None
    #: The flags of the HTTPS port; None opens none.
    flags: Flags | None
    profiling: bool
    #: Pages of the HTTPS port about what the scheduler knows.
    inspection: InspectionPages | None = None
    #: Measures the requests to the HTTPS port.
    request_metrics: RequestMetrics
    feature: Callable[[str], bool]
    _health: HTTPServer | None = None
    _secure: SecureServer | None = None

    async def open(self) -> None:
        """Open the ports. Raises `ConfigError` for a port that is in use and was named, and for unusable files."""
        await self._open_health()
        if self.flags is not None and self.flags.secure_serving.secure_port:
            await self._open_secure(self.flags)

    async def _open_health(self) -> None:
        if self.health_port is None:
            return
        # This port needs no credentials, so it is reachable from other machines only if an address was given.
        address = self.bind_address if self.flags is None or "bind_address" in self.flags.given else _LOOPBACK
        listening = listen(address, self.health_port, flag="--health-port", named=True)
        assert listening is not None
        self._health = HTTPServer(self.pages.answer)
        await self._health.start(listening)
        _log.info("Serving health and metrics address=%s port=%d", address, self._health.port)

    async def _open_secure(self, flags: Flags) -> None:
        serving = flags.secure_serving
        named = "secure_port" in flags.given
        share = serving.permit_port_sharing
        listening = listen(self.bind_address, serving.secure_port, flag="--secure-port", named=named, share=share)
        if listening is None:
            return
        secure = self._secure = SecureServer(
            self.pages,
            flags,
            clock=self.scheduler.clock,
            # A random generator of its own: retries must not change the choice of nodes.
            rng=random.Random(),
            debugging=self._debug_pages(flags).answer,
            inspection=self.inspection,
            request_metrics=self.request_metrics,
        )
        try:
            await secure.prepare()
        except BaseException:
            listening.close()
            raise
        await secure.start(listening)
        _log.info("Serving securely address=%s port=%d", self.bind_address, secure.port)

    def _debug_pages(self, flags: Flags) -> DebugPages:
        clock = self.scheduler.clock
        return DebugPages(
            clock=clock,
            started_at=clock.wall(),
            version=version_text(""),
            flags={"help": "false", **{name: _shown(name, value) for name, value in flags.items()}},
            profiling=self.profiling,
            with_flagz=self.feature("ComponentFlagz"),
            with_statusz=self.feature("ComponentStatusz"),
            paths=self.pages.paths,
        )

    async def close(self) -> None:
        """Close the open ports."""
        if self.inspection is not None:
            self.inspection.close()
        if self._secure is not None:
            await self._secure.stop()
        if self._health is not None:
            await self._health.stop()


def _shown(name: str, value: object) -> str:
    """Return a flag's value as Go prints it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not name.endswith("qps"):
        return format_duration(value)
    if isinstance(value, (tuple, dict)):
        items = value if isinstance(value, tuple) else [f"{key}={item}" for key, item in value.items()]
        text = ",".join(map(str, items))
        return text if name in _BARE else f"[{text}]"
    if value == "":
        return _EMPTY.get(name, "")
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)

"""Ask Prometheus for the past resource usage of queues, with the queries of KAI.

Source: KAI-Scheduler `usagedb/prometheus`.
"""

from __future__ import annotations

import json
import math
import os
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from kube_objects.durations import format_duration, parse_duration
from pyscheduler_batch.model.axis import CPU, GPU, MEMORY

if TYPE_CHECKING:
    from pyscheduler_batch.usage.settings import UsageSettings

__all__ = ["PrometheusError", "PrometheusUsage"]

_PREFIXES: Final = {CPU: "cpu", MEMORY: "memory", GPU: "gpu"}
_HELD: Final = {
    CPU: "kai_queue_allocated_cpu_cores",
    MEMORY: "kai_queue_allocated_memory_bytes",
    GPU: "kai_queue_allocated_gpus",
}
_CAPACITY: Final = {
    CPU: 'sum(kube_node_status_capacity{resource="cpu"})',
    MEMORY: 'sum(kube_node_status_capacity{resource="memory"})',
    GPU: 'sum(kube_node_status_capacity{resource="nvidia_com_gpu"})',
}
_TIMEOUT: Final = "10s"
_RESOLUTION: Final = "1m"


class PrometheusError(Exception):
    """Prometheus cannot be reached, or does not answer as expected."""


class PrometheusUsage:
    """Use of queues as Prometheus knows it."""

    def __init__(self, settings: UsageSettings) -> None:
        self._settings = settings
        self._held = {
            name: settings.extra.get(f"{key}AllocationMetric", _HELD[name]) for name, key in _PREFIXES.items()
        }
        self._capacity = {
            name: settings.extra.get(f"{key}CapacityMetric", _CAPACITY[name]) for name, key in _PREFIXES.items()
        }
        self._timeout = _extra_seconds(settings, "usageQueryTimeout", _TIMEOUT)
        self._resolution = _extra_seconds(settings, "queryResolution", _RESOLUTION)

    @property
    def url(self) -> str:
        """Return the URL of Prometheus; "" if its environment variable is not set."""
        return self._settings.connection or os.environ.get(self._settings.connection_variable, "")

    async def fetch(self, now: float) -> dict[str, dict[str, float]]:
        """Return by queue and resource the use divided by the capacity; raise `PrometheusError`.

        A resource that the cluster does not have counts nothing. In KAI that is an error.
        """
        found: dict[str, dict[str, float]] = {}
        is_known = not self.query("", now)  # a window that has just begun has no figures
        timeout = aiohttp.ClientTimeout(total=self._timeout)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            for name in _PREFIXES:
                capacity = await self._query(session, self._capacity[name], now)
                total = capacity[0][1] if capacity else 0.0
                if total <= 0:
                    continue
                is_known = True
                for labels, value in await self._query(session, self._held[name], now):
                    found.setdefault(str(labels.get("queue_name", "")), {})[name] = value / total
        if not is_known:
            raise PrometheusError(f"no data for the capacity of the cluster, such as {self._capacity[CPU]}")
        return found

    async def _query(
        self, session: aiohttp.ClientSession, metric: str, now: float
    ) -> list[tuple[dict[str, Any], float]]:
        """Return labels and value of each sample."""
        query = self.query(metric, now)
        if not query:
            return []
        try:
            url, params = f"{self.url.rstrip('/')}/api/v1/query", {"query": query, "time": f"{now:.3f}"}
            async with session.get(url, params=params) as reply:
                body, status = await reply.read(), reply.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise PrometheusError(f"{type(error).__name__}: {error}") from error
        if status != HTTPStatus.OK:
            raise PrometheusError(f"{status} for the query {query}: {body[:200].decode('utf-8', 'replace')}")
        return _samples(body, query)

    def query(self, metric: str, now: float) -> str:
        """Return the query for the sum of a metric over the window; "" if the window has just begun."""
        settings = self._settings
        if settings.half_life:
            metric = f"(({metric}) * (0.5^(({now:.0f} - time()) / {settings.half_life:f})))"
        seconds = settings.window
        if settings.window_type == "tumbling":
            seconds = (now - settings.window_start) % settings.window if now > settings.window_start else 0.0
        whole = math.floor(seconds)
        return f"sum_over_time(({metric})[{whole}s:{format_duration(self._resolution)}])" if whole else ""


def _extra_seconds(settings: UsageSettings, key: str, default: str) -> float:
    """Return a duration among the further parameters; as in KAI, one that cannot be read is the default."""
    try:
        return parse_duration(settings.extra.get(key, default))
    except ValueError:
        return parse_duration(default)


def _samples(body: bytes, query: str) -> list[tuple[dict[str, Any], float]]:
    try:
        answer = json.loads(body)
        data = answer["data"]
        if answer["status"] != "success" or data["resultType"] != "vector":
            raise PrometheusError(f"expected a vector for the query {query}")
        found = [(dict(each["metric"]), float(each["value"][1])) for each in data["result"]]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise PrometheusError(f"unreadable answer to the query {query}: {error!r}") from error
    return [(labels, value) for labels, value in found if math.isfinite(value)]

"""Metrics of the process that Prometheus' Go client exports and the Python client does not.

Source: client_golang, prometheus/process_collector_linux.go.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client import Metric

__all__ = ["LinuxProcessCollector"]

#: Go's value for "no limit": the largest number of 64 bits.
_UNLIMITED: Final = float(2**64 - 1)


class LinuxProcessCollector(Collector):
    """The limit of the address space, and the network traffic of the network namespace."""

    def __init__(self, proc: str = "/proc") -> None:
        self._netstat = Path(proc, "self", "net", "netstat")

    def collect(self) -> Iterator[Metric]:
        """Yield the families; those about the network only where the system provides them."""
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        yield GaugeMetricFamily(
            "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes.",
            value=_UNLIMITED if limit == resource.RLIM_INFINITY else float(limit),
        )
        octets = self._octets()
        for name, field, what in (
            ("process_network_receive_bytes", "InOctets", "received"),
            ("process_network_transmit_bytes", "OutOctets", "sent"),
        ):
            if field in octets:
                text = f"Number of bytes {what} by the process over the network."
                yield CounterMetricFamily(name, text, value=float(octets[field]))

    def _octets(self) -> Mapping[str, int]:
        """Return the fields of the line pair `IpExt`: names in one line, numbers in the next."""
        try:
            lines = self._netstat.read_text(encoding="ascii").splitlines()
        except OSError:
            return {}
        names, numbers = [line.split()[1:] for line in lines if line.startswith("IpExt:")] or ([], [])
        return {name: int(number) for name, number in zip(names, numbers, strict=True)}

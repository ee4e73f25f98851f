"""Limit the connections of a port, in total and for each client address.

At a limit, a new connection replaces the oldest connection that has not sent a request yet.

Differs from kube-scheduler, which accepts any number of connections.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import socket
import time
from collections import Counter
from contextlib import suppress
from typing import Final

import attrs

__all__ = ["ConnectionLimits", "Connections"]

_log = logging.getLogger(__name__)

#: How often a warning about refused connections is logged.
_WARNING_SECONDS: Final = 60.0
#: An IPv6 host usually has all addresses of a network of this size.
_HOST_PREFIX: Final = 64


@attrs.frozen(kw_only=True)
class ConnectionLimits:
    """The limits of one port. A TLS connection costs about 73 KiB."""

    total: int = 256
    per_address: int = 128
    handshake_seconds: float = 5.0
    #: From acceptance to the end of the headers of the first request.
    first_request_seconds: float = 10.0
    #: How long a connection may be idle after a request; Prometheus and the kubelet ask more often.
    idle_seconds: float = 90.0


class Connections:
    """The connections of one port, which are accepted within limits."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        #: The connections without a request, the oldest first, and the number of all by origin.
        self._silent: dict[object, _Connection] = {}
        self._open: Counter[str] = Counter()
        self._warned_at = -math.inf

    def admit(self, accepted: socket.socket, address: object) -> socket.socket | None:
        """Take over an accepted socket, which the caller closes later. Beyond the limits, close it and return None."""
        origin = _origin(address)
        if not self._has_room(origin):
            accepted.close()
            self._warn(origin)
            return None
        connection = _Connection(accepted, self, address, origin)
        self._open[origin] += 1
        self._silent[address] = connection
        loop = asyncio.get_running_loop()
        connection.timer = loop.call_later(self._limits.first_request_seconds, connection.end)
        return connection

    def heard(self, address: object) -> None:
        """Note that the connection from `address` has sent a request."""
        connection = self._silent.pop(address, None)
        if connection is not None and connection.timer is not None:
            connection.timer.cancel()

    def closed(self, connection: _Connection) -> None:
        """Give back the place of a connection."""
        if self._silent.get(connection.address) is connection:
            self.heard(connection.address)
        self._open[connection.origin] -= 1
        if not self._open[connection.origin]:
            del self._open[connection.origin]

    def _has_room(self, origin: str) -> bool:
        """Return True if there is a place for a connection, perhaps because a silent one ends."""
        if self._open[origin] >= self._limits.per_address:
            silent = [each for each in self._silent.values() if each.origin == origin]
        elif self._open.total() >= self._limits.total:
            silent = [*self._silent.values()]
        else:
            return True
        if not silent:
            return False
        self.heard(silent[0].address)
        silent[0].end()
        return True

    def _warn(self, origin: str) -> None:
        now = time.monotonic()
        if now - self._warned_at >= _WARNING_SECONDS:
            self._warned_at = now
            text = "Refusing connections beyond the limits address=%s ofAddress=%d open=%d"
            _log.warning(text, origin, self._open[origin], self._open.total())


class _Connection(socket.socket):
    """An accepted connection, which gives back its place when it is closed."""

    def __init__(self, accepted: socket.socket, all_of_port: Connections, address: object, origin: str) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        self._all = all_of_port
        self.address = address
        self.origin = origin
        self.timer: asyncio.TimerHandle | None = None
        self._is_counted = True

    def end(self) -> None:
        """End the connection; its owner reads the end of the stream then, and closes it."""
        with suppress(OSError):  # the client has ended it
            self.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection and give back its place."""
        super().close()
        if self._is_counted:
            self._is_counted = False
            self._all.closed(self)


def _origin(address: object) -> str:
    """Return the client of an address: an IPv4 address, or the network of an IPv6 host."""
    if not isinstance(address, tuple):
        return ""
    ip = ipaddress.ip_address(address[0].partition("%")[0])
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((ip, _HOST_PREFIX), strict=False))

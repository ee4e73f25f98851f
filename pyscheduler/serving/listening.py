"""Open a port for the scheduler's HTTP or HTTPS server.

Differs from kube-scheduler: if a default port is in use, pyscheduler runs without it.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import socket
from typing import Final

from pyscheduler.framework.errors import ConfigError

__all__ = ["listen"]

_log = logging.getLogger(__name__)

_BACKLOG: Final = 128
#: Errors of a system without IPv6.
_NO_IPV6: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


def listen(address: str, port: int, *, flag: str, named: bool, share: bool = False) -> socket.socket | None:
    """Return a listening socket, or None if the port is in use and was not `named` by the user.

    `flag` sets the port and appears in messages. Port 0 takes a free port. An address of all interfaces listens on IPv4
    and IPv6. `share` sets SO_REUSEPORT. Raises `ConfigError` if the socket cannot listen.
    """
    try:
        return _open(address, port, share=share)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        if error.errno == errno.EADDRINUSE and not named:
            _log.warning("Port is in use, running without it address=%s flag=%s", where, flag)
            return None
        if error.errno == errno.EADDRNOTAVAIL:
            raise ConfigError(f"--bind-address {address}: {reason}; name an address of this machine") from error
        message = f"{flag} {port}: cannot listen on {where}: {reason}; set {flag} to another port, or to 0 for none"
        raise ConfigError(message) from error


def _open(address: str, port: int, *, share: bool) -> socket.socket:
    if not ipaddress.ip_address(address).is_unspecified:
        return _create(address, port, share=share)
    try:
        return _create("::", port, share=share, dual=socket.has_dualstack_ipv6())
    except OSError as error:
        if error.errno not in _NO_IPV6:
            raise
    return _create("0.0.0.0", port, share=share)  # noqa: S104 - what was asked for


def _create(address: str, port: int, *, share: bool, dual: bool = False) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family, reuse_port=share, dualstack_ipv6=dual, backlog=_BACKLOG)

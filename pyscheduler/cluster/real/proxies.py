"""Find the proxy for an API server or an extender in environment variables such as HTTPS_PROXY.

Source: `golang.org/x/net/http/httpproxy`.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["environment_proxy"]

_PORTS = {"http": 80, "https": 443}


def environment_proxy(server: str, environment: Mapping[str, str]) -> str | None:
    """Return the URL of the proxy to `server`, as it is written, with a scheme; None if there is none.

    The machine itself is never asked for through a proxy. Upper-case variables come before lower-case ones.
    """
    parts = urlsplit(server)
    scheme, host = parts.scheme, (parts.hostname or "").rstrip(".")
    proxy = _read(environment, f"{scheme}_proxy")
    if not proxy or _is_excepted(host, parts.port or _PORTS.get(scheme, 0), _read(environment, "no_proxy")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _read(environment: Mapping[str, str], name: str) -> str:
    return (environment.get(name.upper()) or environment.get(name) or "").strip()


def _is_excepted(host: str, port: int, exceptions: str) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    entries = [entry.strip().lower() for entry in exceptions.split(",")]
    return any(_matches(entry, host, address, port) for entry in entries if entry)


def _matches(entry: str, host: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None, port: int) -> bool:
    """Return True if an entry of NO_PROXY matches: `*`, a network, an address or a domain, with or without port.

    `domain` means itself and what is beneath it, `.domain` and `*.domain` only the latter.
    """
    if entry == "*":
        return True
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, wanted = _split_port(entry)
    if wanted not in {None, str(port)}:
        return False
    named = _address(name)
    if named is not None:
        return named == address
    if name.startswith("*."):
        name = name[1:]
    if name.startswith("."):
        return host.endswith(name)
    return host == name or host.endswith(f".{name}")


def _split_port(entry: str) -> tuple[str, str | None]:
    """Split `host:port`, `[address]:port`, or neither; the colons of a bare IPv6 address are its own."""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":") or None
    name, colon, port = entry.partition(":")
    return (name, port) if colon and ":" not in port else (entry, None)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None

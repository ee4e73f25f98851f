"""Find the scheduler's leading replica, and send requests to its HTTPS port with the user's credentials.

The API server's proxy for pods cannot be used, because it removes the user's token.
"""

from __future__ import annotations

import ipaddress
import math
import socket
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import attrs
import msgspec

from kube_objects.coordination import Lease
from kube_objects.durations import format_duration
from kube_objects.times import seconds_of
from pyscheduler.api import DecodeError, decode
from pyscheduler.cluster.real.http import HTTPTransport
from pyscheduler.cluster.real.response_errors import raise_for_status
from pyscheduler.framework.errors import APIError, ConfigError, NotFoundError, TransportError

if TYPE_CHECKING:
    from pyscheduler.cluster.real.auth import Credentials

__all__ = ["Answer", "Leader", "find_leader", "why_none_leads"]

_PORT: Final = 10259
_SECONDS: Final = 10.0
#: The header `Date` has whole seconds, and the leader has another clock than the API server.
_DATE_SECONDS: Final = 5.0
_ANONYMOUS: Final = "system:anonymous"


@attrs.frozen
class Answer:
    """The body of an answer; if there is none, `why` says the reason in a sentence without a full stop."""

    body: bytes = b""
    why: str = ""


@attrs.frozen(kw_only=True)
class Leader:
    """The leader's HTTPS port; `why` says why it cannot be asked."""

    url: str = ""
    why: str = ""
    _credentials: Credentials | None = None

    async def get(self, path: str) -> Answer:
        """Return what the leader answers, or why there is no answer.

        Each request has a connection of its own: if the address is that of a Service, the next connection may lead to
        another replica.
        """
        if self._credentials is None:
            return Answer(why=self.why)
        transport = HTTPTransport(attrs.evolve(self._credentials))  # which forgets its credentials when it is closed
        try:
            response = await transport.request("GET", path, timeout_seconds=_SECONDS)
            return Answer(raise_for_status(response, f"GET {self.url}{path}"))
        except APIError as error:
            text = str(error)
            cure = "; it cannot identify users; start it with --authentication-kubeconfig" if _ANONYMOUS in text else ""
            return Answer(why=f"the scheduler at {self.url} refuses: {text}{cure}")
        except TransportError as error:
            return Answer(why=f"the scheduler at {self.url} gave no answer: {error}")
        finally:
            await transport.close()


async def find_leader(
    credentials: Credentials, cluster: HTTPTransport, *, url: str | None, authority: str | None, lease: tuple[str, str]
) -> Leader:
    """Return the scheduler at `url`, or else the holder of the `lease` (namespace and name).

    `authority` is a file of certificates. Raises `ConfigError` for a URL or a file that cannot be used.
    """
    if url:
        return await _opened(credentials, _checked(url), authority, is_named=True)
    namespace, name = lease
    try:
        host = await _holder(cluster, namespace, name)
        if host == socket.gethostname():
            return await _opened(credentials, f"https://localhost:{_PORT}", authority)
        address = await _address(cluster, namespace, host)
    except _NoLeaderError as error:
        return Leader(why=f"no replica leads: {error}")
    except (APIError, TransportError, DecodeError, LookupError) as error:
        return Leader(why=f"the leader was not found: {error}; give its address with --scheduler")
    if authority is None:
        return Leader(
            why=f"the leader's certificate is not known; give its authority with --scheduler-ca, or run "
            f"kubectl --namespace {namespace} port-forward pod/{host} {_PORT}, and add "
            f"--scheduler https://localhost:{_PORT}"
        )
    return await _opened(credentials, address, authority)


async def why_none_leads(cluster: HTTPTransport, lease: tuple[str, str]) -> str:
    """Return why no replica leads, by the `lease` (namespace and name); "" if one may lead, or if nothing is known."""
    try:
        await _holder(cluster, *lease)
    except _NoLeaderError as error:
        return str(error)
    except (APIError, TransportError, DecodeError, LookupError):
        pass
    return ""


async def _holder(cluster: HTTPTransport, namespace: str, name: str) -> str:
    """Return the host name of the replica that holds a lease.

    Raises `LookupError` if there is no lease, and `_NoLeaderError` if nobody holds it, or if it has expired by the
    clock of the API server.
    """
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
    try:
        response = await cluster.request("GET", path, timeout_seconds=_SECONDS)
        body = raise_for_status(response, f"GET {path}")
    except NotFoundError as error:
        raise LookupError(f"there is no lease {namespace}/{name}; name another one with --lease") from error
    spec = decode(Lease, body).spec
    holder = spec.holder_identity
    if not holder:
        raise _NoLeaderError(f"nobody holds the lease {namespace}/{name}")
    # The clock of this machine may be wrong; then the lease would seem to have expired.
    now = _seconds_of_date(response.headers.get("date", ""))
    renewed = seconds_of(spec.renew_time, math.inf)
    if now - renewed > (spec.lease_duration_seconds or 0) + _DATE_SECONDS:
        ago = format_duration(float(round(now - renewed)))
        raise _NoLeaderError(
            f"the lease {namespace}/{name} has expired; {holder} renewed it last at {spec.renew_time}, {ago} ago"
        )
    return holder.rpartition("_")[0] or holder


class _NoLeaderError(LookupError):
    """Report that no replica holds the lease."""


def _seconds_of_date(header: str) -> float:
    """Return the time of a header `Date`, in seconds since the epoch; minus infinity for a header without one."""
    try:
        return parsedate_to_datetime(header).timestamp()
    except (TypeError, ValueError):
        return -math.inf


async def _address(cluster: HTTPTransport, namespace: str, pod: str) -> str:
    """Return the URL of a pod; raise `LookupError` if it has no address."""
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}"
    try:
        body = raise_for_status(await cluster.request("GET", path, timeout_seconds=_SECONDS), f"GET {path}")
    except NotFoundError as error:
        raise LookupError(f"its host {pod} is neither this machine nor a pod in {namespace}") from error
    status = msgspec.json.decode(body, type=dict[str, Any]).get("status") or {}
    address = status.get("podIP")
    if not address:
        raise LookupError(f"the pod {namespace}/{pod} has no address")
    return f"https://{f'[{address}]' if ':' in address else address}:{_PORT}"


async def _opened(credentials: Credentials, url: str, authority: str | None, *, is_named: bool = False) -> Leader:
    host = urlsplit(url).hostname or ""
    # On the loopback interface, where `kubectl port-forward` ends, too, no other host can receive the user's token.
    is_verified = authority is not None or not _is_loopback(host)
    made = await credentials.for_server(
        url,
        authority=authority,
        is_verified=is_verified,
        compares_names=is_named,  # the address of a pod is not in its certificate
        setting="--scheduler-ca",
    )
    return Leader(url=url, credentials=made)


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise ConfigError(f"--scheduler must be a URL like https://10.0.0.1:{_PORT}, not {url!r}")
    return url.rstrip("/")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

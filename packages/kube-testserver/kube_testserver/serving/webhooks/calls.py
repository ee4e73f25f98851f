"""Call an admission webhook over HTTPS or HTTP; errors have the messages of Go's HTTP client."""

from __future__ import annotations

import asyncio
import base64
import errno
import os
import ssl
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from kube_testserver.serving.webhooks.reviews import CallError

if TYPE_CHECKING:
    from kube_testserver.registry import Registry
    from kube_testserver.serving.webhooks.matching import Webhook
    from kube_testserver.store import Object

__all__ = ["call"]

_SERVICES: Final = "services"
_DEFAULT_SECONDS: Final = 10
_HTTPS_PORT: Final = 443
_OK: Final = 200
_SERVER_ERROR: Final = 500
_HEADERS: Final = {
    "content-type": "application/json",
    "accept": "application/json, */*",
    "user-agent": "kube-apiserver-admission",
}
_STATUS_TEXTS: Final = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    503: "the server is currently unable to handle the request",
}
#: OpenSSL's codes for a certificate that no known authority signed.
_UNKNOWN_AUTHORITY: Final = frozenset({18, 19, 20, 21})


async def call(registry: Registry, webhook: Webhook, body: bytes) -> bytes:
    """Send a review to a webhook and return what it answers; `CallError` if it does not answer in time."""
    client = webhook.spec["clientConfig"]
    seconds = webhook.spec.get("timeoutSeconds") or _DEFAULT_SECONDS
    service = client.get("service")
    url = _with_timeout(client["url"] if service is None else _service_url(service), seconds)
    if service is not None:
        raise _failed(f'Post "{url}": {_why_unreachable(registry, service)}')
    try:
        async with asyncio.timeout(seconds):
            status, content_type, raw = await _post(url, body, _trust(url, client.get("caBundle")))
    except TimeoutError as error:
        raise _failed(f'Post "{url}": context deadline exceeded') from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise _failed(f'Post "{url}": {_go_text(error)}') from error
    if status != _OK:
        raise _failed(_status_text(status, raw))
    if not raw:
        raise _failed(f"0-length response with status code: {status} and content type: {content_type}")
    return raw


async def _post(url: str, body: bytes, tls: ssl.SSLContext | bool) -> tuple[int, str, bytes]:
    # One session for each call: calls are rare, and nobody would close a session that stays open.
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls), headers=_HEADERS) as session,
        session.post(url, data=body) as response,
    ):
        return response.status, response.headers.get("content-type", ""), await response.read()


def _trust(url: str, bundle: str | None) -> ssl.SSLContext | bool:
    """Return what trusts the authorities of a webhook's `caBundle`; True for those of this machine, or without TLS."""
    if not bundle or url.startswith("http://"):
        return True
    return ssl.create_default_context(cadata=base64.b64decode(bundle).decode())


def _with_timeout(url: str, seconds: int) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=parts.path or "/", query=f"timeout={seconds}s"))


def _service_url(service: Object) -> str:
    port, path = service.get("port") or _HTTPS_PORT, (service.get("path") or "").lstrip("/")
    return f"https://{service['name']}.{service['namespace']}.svc:{port}/{path}"


def _why_unreachable(registry: Registry, service: Object) -> str:
    """Return why a service leads nowhere: no pod behind it listens."""
    found = registry.store.collection(_SERVICES).get(f"{service['namespace']}/{service['name']}")
    if found is None:
        return f'service "{service["name"]}" not found'
    return f'no endpoints available for service "{service["name"]}"'


def _status_text(status: int, raw: bytes) -> str:
    if status in _STATUS_TEXTS:
        return _STATUS_TEXTS[status]
    if status < _SERVER_ERROR:
        return f"the server responded with the status code {status} but did not return more information"
    shown = raw.decode(errors="replace").strip().replace("\n", "\\n") or "unknown"
    return f'an error on the server ("{shown}") has prevented the request from succeeding'


def _go_text(error: Exception) -> str:
    """Return the text of Go's client for an error of the connection."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        found = error.certificate_error
        unknown = isinstance(found, ssl.SSLCertVerificationError) and found.verify_code in _UNKNOWN_AUTHORITY
        why = "certificate signed by unknown authority" if unknown else str(found)
        return f"tls: failed to verify certificate: x509: {why}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {error.host}: no such host"
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno:
        code = error.os_error.errno
        why = "connection refused" if code == errno.ECONNREFUSED else os.strerror(code).lower()
        return f"dial tcp {error.host}:{error.port}: connect: {why}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error) or type(error).__name__


def _failed(why: str) -> CallError:
    return CallError(f"failed to call webhook: {why}")

"""Credentials: kubeconfig, in-cluster service account, exec plugins. The one module that imports the official client.

The official client reads files, runs exec plugins and renews tokens; it is asked for host, TLS files and the current
token, and for nothing else. It is imported late, because that takes over half a second.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from pyscheduler.framework.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["Credentials", "load", "plain"]


class _Configuration(Protocol):
    """What is used of the official client's Configuration."""

    host: str
    ssl_ca_cert: str | None
    ca_cert_data: str | None
    cert_file: str | None
    key_file: str | None
    verify_ssl: bool
    tls_server_name: str | None
    proxy: str | None
    username: str | None
    password: str | None
    get_api_key_with_prefix: Callable[[str], Awaitable[str | None]]


@attrs.define(kw_only=True)
class Credentials:
    """How to reach and convince one API server."""

    server: str
    ssl_context: ssl.SSLContext | bool = True
    proxy: str | None = None
    basic_auth: str | None = None
    _configuration: _Configuration | None = None

    async def headers(self) -> dict[str, str]:
        """Return the headers of the next request; an expired token is renewed first."""
        if self._configuration is not None:
            token = await self._configuration.get_api_key_with_prefix("BearerToken")
            if token:
                return {"Authorization": token}
        if self.basic_auth is not None:
            return {"Authorization": self.basic_auth}
        return {}

    async def close(self) -> None:
        """Forget the credentials."""
        self._configuration = None


def plain(server: str) -> Credentials:
    """Return credentials for a server that asks for none (the embedded one, or a local proxy)."""
    return Credentials(server=server)


async def load(*, kubeconfig: str | None = None, context: str | None = None, master: str | None = None) -> Credentials:
    """Return the credentials that kubeconfig or service account give.

    `kubeconfig` None: `$KUBECONFIG`, the pod's service account, then `~/.kube/config`. `master` overrides the server.
    Raises `ConfigError` with one line where nothing usable is found.
    """
    # Reading files and running exec plugins may block; a lease or a watch must not wait for it.
    configuration = await asyncio.to_thread(_import_configuration)
    path = kubeconfig or os.environ.get("KUBECONFIG") or ""
    in_cluster = not path and "KUBERNETES_SERVICE_HOST" in os.environ
    try:
        if in_cluster:
            await asyncio.to_thread(_load_in_cluster, configuration)
        else:
            await _load_file(configuration, path, context)
    except ConfigError:
        raise
    except Exception as error:  # the client raises many kinds, all of them about the user's file
        source = "service account" if in_cluster else f"kubeconfig {path or _default_path()}"
        raise ConfigError(f"{source} cannot be used: {_one_line(error)}") from error
    return Credentials(
        server=master or configuration.host,
        ssl_context=_ssl_context(configuration),
        proxy=configuration.proxy,
        basic_auth=_basic(configuration),
        configuration=configuration,
    )


def _default_path() -> str:
    return str(Path.home() / ".kube" / "config")


def _import_configuration() -> Any:
    from kubernetes.aio.client import Configuration

    return Configuration()


def _load_in_cluster(configuration: Any) -> None:
    from kubernetes.aio.config import load_incluster_config

    load_incluster_config(client_configuration=configuration)


async def _load_file(configuration: Any, path: str, context: str | None) -> None:
    from kubernetes.aio.config import load_kube_config

    shown = path or _default_path()
    await asyncio.to_thread(_check_readable, shown)
    await load_kube_config(config_file=shown, context=context, client_configuration=configuration, persist_config=False)


def _check_readable(paths: str) -> None:
    """Say which file is missing or unreadable: the client's own message does not."""
    for part in paths.split(os.pathsep):
        try:
            Path(part).expanduser().read_bytes()
        except FileNotFoundError as error:
            raise ConfigError(f"kubeconfig {part} does not exist; name one with --kubeconfig or $KUBECONFIG") from error
        except OSError as error:
            raise ConfigError(f"kubeconfig {part} cannot be read: {error.strerror}") from error


def _ssl_context(configuration: _Configuration) -> ssl.SSLContext | bool:
    if not configuration.host.startswith("https"):
        return True
    try:
        made = ssl.create_default_context(cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data)
        if configuration.cert_file:
            made.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"certificates in the kubeconfig cannot be used: {_one_line(error)}") from error
    # Many clusters' own authorities lack an extension that newer Pythons insist on and Go does not.
    made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.verify_ssl:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    return made


def _basic(configuration: _Configuration) -> str | None:
    if not configuration.username or not configuration.password:
        return None
    pair = f"{configuration.username}:{configuration.password}".encode()
    return "Basic " + base64.b64encode(pair).decode("ascii")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__

"""Serve a cluster over HTTP, optionally with simulated kubelets and controllers."""

from __future__ import annotations

import ssl
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from kube_objects.errors import APIError, ConfigError
from kube_testserver.workloads.controllers import WorkloadControllers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kube_testserver.cluster import EmbeddedCluster
    from kube_testserver.controllers.garbage_collection import GarbageCollector
    from kube_testserver.controllers.lifecycle import Lifecycle
    from kube_testserver.serving.http_server import ApiServer
    from kube_testserver.store import Object

__all__ = ["load_file", "make_tls", "serve_cluster"]


@asynccontextmanager
async def serve_cluster(
    cluster: EmbeddedCluster,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
    lifecycle: Lifecycle | None = None,
    controllers: bool = False,
) -> AsyncIterator[ApiServer]:
    """Run the kubelets of `lifecycle`, with `controllers` also those of workloads and the garbage collector, and serve.

    Gives the running server; afterwards everything is stopped. `ConfigError` when the address cannot be had.
    """
    helpers: list[Lifecycle | GarbageCollector | WorkloadControllers] = [] if lifecycle is None else [lifecycle]
    if controllers:
        helpers += [cluster.garbage_collector(), WorkloadControllers(cluster)]
    with ExitStack() as running:
        for helper in helpers:
            running.callback(helper.stop)
            helper.start()
        server = cluster.server(host=host, port=port, tls=tls)
        await server.start()
        try:
            yield server
        finally:
            await server.stop()


def load_file(cluster: EmbeddedCluster, path: Path, *, source: str) -> list[Object]:
    """Create the objects of a file. `ConfigError` for an unreadable file or a refused object begins with `source`."""
    try:
        return cluster.load(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{source}: {path} cannot be read: {error.strerror}; name a file of manifests") from error
    except (APIError, ConfigError) as error:
        raise ConfigError(f"{source}: {path} was rejected: {error}") from error


def make_tls(address: str, *, wanted_by: str) -> tuple[ssl.SSLContext, bytes]:
    """Return a TLS context for an address and this host, and the certificate of the CA that signed for it, in PEM.

    `ConfigError` names the option that wants it if the library is missing.
    """
    try:
        import trustme
    except ImportError as error:
        raise ConfigError(f'{wanted_by} needs trustme; run: pip install "kube-testserver[tls]"') from error
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*dict.fromkeys(("127.0.0.1", "localhost", address))).configure_cert(context)
    return context, authority.cert_pem.bytes()

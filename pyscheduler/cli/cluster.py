"""`pyscheduler cluster`: the embedded API server alone."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyscheduler.cli.options import logging_options
from pyscheduler.framework.errors import APIError, ConfigError

if TYPE_CHECKING:
    from pyscheduler.cluster.embedded.cluster import EmbeddedCluster

__all__ = ["command"]


async def _serve(address: str, port: int, files: tuple[str, ...], kubeconfig: str | None, *, lifecycle: bool) -> None:
    from pyscheduler.cluster.embedded.cluster import EmbeddedCluster
    from pyscheduler.cluster.embedded.lifecycle import Lifecycle
    from pyscheduler.framework.clock import LoopClock

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    clock = LoopClock()
    cluster = EmbeddedCluster(clock=clock)
    loaded = sum(len(_load(cluster, Path(file))) for file in files)
    kubelets = Lifecycle(cluster.registry, clock=clock) if lifecycle else None
    if kubelets is not None:
        kubelets.start()
    server = cluster.server(host=address, port=port)
    await server.start()
    if kubeconfig:
        _write_kubeconfig(Path(kubeconfig), server.url)
    # One line, flushed, for those who start this as a child and wait for it.
    click.echo(f"serving {server.url} objects={loaded}")
    await stop.wait()
    if kubelets is not None:
        kubelets.stop()
    await server.stop()


def _load(cluster: EmbeddedCluster, path: Path) -> list[dict[str, Any]]:
    """Create the objects of a file; raise `ConfigError` naming it where it cannot be read or an object is refused."""
    try:
        return cluster.load(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}; --load takes a file of manifests") from error
    except APIError as error:
        raise ConfigError(f"{path} was refused: {error}") from error


def _write_kubeconfig(path: Path, url: str) -> None:
    path.write_text(
        "apiVersion: v1\n"
        "kind: Config\n"
        f"clusters: [{{name: embedded, cluster: {{server: '{url}'}}}}]\n"
        "users: [{name: embedded, user: {}}]\n"
        "contexts: [{name: embedded, context: {cluster: embedded, user: embedded}}]\n"
        "current-context: embedded\n",
        encoding="utf-8",
    )


@click.command("cluster")
@click.option("--address", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8001, show_default=True, help="Port to listen on; 0 takes a free one.")
@click.option(
    "--load", "files", multiple=True, metavar="FILE", help="Objects to begin with: YAML or JSON, documents or Lists."
)
@click.option("--write-kubeconfig", "kubeconfig", metavar="FILE", help="Write a kubeconfig for this server.")
@click.option(
    "--lifecycle/--no-lifecycle",
    default=True,
    show_default=True,
    help="Let bound pods become Running, and deleted ones go away, as a kubelet would.",
)
@logging_options()
def command(address: str, port: int, files: tuple[str, ...], kubeconfig: str | None, *, lifecycle: bool) -> None:
    """Serve an embedded Kubernetes API server: nodes, pods, events and whatever a scheduler needs, in memory.

    \b
    Try it:
      pyscheduler cluster --write-kubeconfig embedded.yaml &
      kubectl --kubeconfig embedded.yaml get nodes
      pyscheduler run --kubeconfig embedded.yaml
    """
    asyncio.run(_serve(address, port, files, kubeconfig, lifecycle=lifecycle))

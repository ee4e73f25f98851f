"""`pyscheduler cluster`: the embedded API server alone."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyscheduler.cli.options import logging_options
from pyscheduler.framework.errors import APIError, ConfigError

if TYPE_CHECKING:
    from pyscheduler.cluster.embedded.cluster import EmbeddedCluster

__all__ = ["command"]


async def _serve(
    address: str, port: int, files: tuple[str, ...], kubeconfig: str | None, *, lifecycle: bool, with_stdin: bool
) -> None:
    from pyscheduler.cluster.embedded.cluster import EmbeddedCluster
    from pyscheduler.cluster.embedded.lifecycle import Lifecycle
    from pyscheduler.framework.clock import LoopClock

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if with_stdin:
        _stop_with_stdin(stop)
    clock = LoopClock()
    cluster = EmbeddedCluster(clock=clock)
    loaded = sum(len(_load(cluster, Path(file))) for file in files)
    kubelets = Lifecycle(cluster.registry, clock=clock) if lifecycle else None
    if kubelets is not None:
        kubelets.start()
    server = cluster.server(host=address, port=port)
    await server.start()
    if kubeconfig:
        try:
            _write_kubeconfig(Path(kubeconfig), server.url)
        except ConfigError:
            await server.stop()
            raise
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
    except (APIError, ConfigError) as error:
        raise ConfigError(f"{path} was refused: {error}") from error


def _stop_with_stdin(stop: asyncio.Event) -> None:
    """Set `stop` when whoever holds the other end of standard input lets go of it."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        if not os.read(0, 4096):
            loop.remove_reader(0)
            stop.set()

    try:
        loop.add_reader(0, read)
    except OSError as error:
        raise ConfigError("--stop-with-stdin: standard input is no pipe or terminal") from error


def _write_kubeconfig(path: Path, url: str) -> None:
    text = (
        "apiVersion: v1\n"
        "kind: Config\n"
        f"clusters: [{{name: embedded, cluster: {{server: '{url}'}}}}]\n"
        "users: [{name: embedded, user: {}}]\n"
        "contexts: [{name: embedded, context: {cluster: embedded, user: embedded}}]\n"
        "current-context: embedded\n"
    )
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--write-kubeconfig: {path} cannot be written: {error.strerror}") from error


@click.command("cluster")
@click.option("--address", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8001,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
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
@click.option(
    "--stop-with-stdin",
    "with_stdin",
    is_flag=True,
    help="Stop when standard input is closed: for programs that start this one.",
)
@logging_options()
def command(
    address: str, port: int, files: tuple[str, ...], kubeconfig: str | None, *, lifecycle: bool, with_stdin: bool
) -> None:
    """Serve an embedded Kubernetes API server: nodes, pods, events and whatever a scheduler needs, in memory.

    \b
    Try it:
      pyscheduler cluster --write-kubeconfig embedded.yaml &
      kubectl --kubeconfig embedded.yaml get nodes
      pyscheduler run --kubeconfig embedded.yaml
    """
    asyncio.run(_serve(address, port, files, kubeconfig, lifecycle=lifecycle, with_stdin=with_stdin))

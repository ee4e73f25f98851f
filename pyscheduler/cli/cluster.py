"""`pyscheduler cluster`: the embedded API server alone."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs
import click

from pyscheduler.cli.options import logging_options
from pyscheduler.framework.errors import APIError, ConfigError

if TYPE_CHECKING:
    from pyscheduler.cluster.embedded.access.users import User
    from pyscheduler.cluster.embedded.cluster import EmbeddedCluster

__all__ = ["command"]


@attrs.frozen(kw_only=True)
class _Options:
    """The command's options, as they were given."""

    address: str
    port: int
    files: tuple[str, ...]
    kubeconfig: str | None
    lifecycle: bool
    with_stdin: bool
    authorization: Literal["always-allow", "rbac"]
    token_file: str | None


async def _serve(options: _Options) -> None:
    from pyscheduler.cluster.embedded.access.users import ADMIN
    from pyscheduler.cluster.embedded.cluster import EmbeddedCluster
    from pyscheduler.framework.clock import LoopClock

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if options.with_stdin:
        _stop_with_stdin(stop)
    tokens = _read_tokens(Path(options.token_file)) if options.token_file else {}
    admin = ""
    if tokens or options.authorization == "rbac":
        admin = secrets.token_urlsafe(32)
        tokens[admin] = ADMIN
    cluster = EmbeddedCluster(clock=LoopClock(), authorization=options.authorization, tokens=tokens)
    loaded = sum(len(_load(cluster, Path(file))) for file in options.files)
    kubelets = cluster.lifecycle() if options.lifecycle else None
    if kubelets is not None:
        kubelets.start()
    server = cluster.server(host=options.address, port=options.port)
    await server.start()
    if options.kubeconfig:
        try:
            _write_kubeconfig(Path(options.kubeconfig), server.url, admin)
        except ConfigError:
            await server.stop()
            raise
    # One line, flushed, for those who start this as a child and wait for it.
    click.echo(f"serving {server.url} objects={loaded}")
    if admin and not options.kubeconfig:
        click.echo(f"token {admin}")
    await stop.wait()
    if kubelets is not None:
        kubelets.stop()
    await server.stop()


def _read_tokens(path: Path) -> dict[str, User]:
    """Return the tokens of a file and whose they are; raise `ConfigError` naming it where it cannot be read."""
    from pyscheduler.cluster.embedded.access.tokens import read_token_file

    source = f"--token-auth-file: {path}"
    try:
        return read_token_file(path.read_text(encoding="utf-8"), source=source)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"cannot be read: {why}; it takes lines of token,user,uid,groups", source=source) from error


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


def _write_kubeconfig(path: Path, url: str, token: str) -> None:
    user = f"{{token: '{token}'}}" if token else "{}"
    text = (
        "apiVersion: v1\n"
        "kind: Config\n"
        f"clusters: [{{name: embedded, cluster: {{server: '{url}'}}}}]\n"
        f"users: [{{name: embedded, user: {user}}}]\n"
        "contexts: [{name: embedded, context: {cluster: embedded, user: embedded}}]\n"
        "current-context: embedded\n"
    )
    try:
        path.touch(mode=0o600)
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
@click.option(
    "--authorization",
    type=click.Choice(["always-allow", "rbac"]),
    default="always-allow",
    show_default=True,
    help="rbac: ask for credentials, and go by roles and bindings.",
)
@click.option(
    "--token-auth-file",
    "token_file",
    metavar="FILE",
    help='Bearer tokens that are accepted: lines of token,user,uid,"group1,group2".',
)
@logging_options()
def command(**options: Any) -> None:
    """Serve an embedded Kubernetes API server: nodes, pods, events and whatever a scheduler needs, in memory.

    \b
    Try it:
      pyscheduler cluster --write-kubeconfig embedded.yaml &
      kubectl --kubeconfig embedded.yaml get nodes
      pyscheduler run --kubeconfig embedded.yaml

    With --authorization rbac the kubeconfig belongs to an administrator; without one, a second line prints their token.
    """
    asyncio.run(_serve(_Options(**options)))

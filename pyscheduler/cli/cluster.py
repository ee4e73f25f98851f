"""`pyscheduler cluster`: serve the embedded API server."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import secrets
import signal
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs
import click

from pyscheduler.cli.shared_options import logging_options
from pyscheduler.framework.errors import ConfigError

if TYPE_CHECKING:
    from kube_testserver.access.users import User
    from pyscheduler.serving.certificates import Pair

__all__ = ["command"]


@attrs.frozen(kw_only=True)
class _Options:
    """The options of the command."""

    address: str
    port: int
    files: tuple[str, ...]
    kubeconfig: str | None
    lifecycle: bool
    controllers: bool
    reject_only: bool
    with_stdin: bool
    authorization: Literal["always-allow", "rbac"]
    token_file: str | None
    tls: bool
    cert_file: str | None
    key_file: str | None
    feature_gates: str


async def _serve(options: _Options) -> None:
    from kube_objects.clock import LoopClock
    from kube_testserver.access.users import ADMIN
    from kube_testserver.cluster import EmbeddedCluster
    from kube_testserver.served_cluster import load_file, serve_cluster
    from pyscheduler.config.feature_gates import parse

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
    gates = parse(options.feature_gates)
    clock = LoopClock()
    # Clients may hold resource versions of an earlier run, so versions continue with the time.
    first_version = int(clock.wall() * 1000)
    cluster = EmbeddedCluster(
        clock=clock,
        authorization=options.authorization,
        tokens=tokens,
        first_version=first_version,
        pod_groups=gates["GenericWorkload"],
    )
    loaded = sum(len(load_file(cluster, Path(file), source="--load")) for file in options.files)
    pair = _find_pair(options)
    served = serve_cluster(
        cluster,
        host=options.address,
        port=options.port,
        tls=_make_context(pair) if pair else None,
        lifecycle=cluster.lifecycle(run_pods=not options.reject_only) if options.lifecycle else None,
        controllers=options.controllers,
    )
    async with served as server:
        if options.kubeconfig:
            _write_kubeconfig(options.kubeconfig, server.url, admin, pair.certificate if pair else b"")
        # One flushed line, for a parent process that waits for it.
        click.echo(f"serving {server.url} objects={loaded}")
        if admin and not options.kubeconfig:
            click.echo(f"token {admin}")
        if admin and pair is None:
            click.echo("note: kubectl and other Go clients send no tokens without TLS; add --tls to use them", err=True)
        await stop.wait()


def _read_tokens(path: Path) -> dict[str, User]:
    """Read the tokens of a file with their users; raise `ConfigError` naming the file if it cannot be read."""
    from kube_testserver.access.tokens import read_token_file

    source = f"--token-auth-file: {path}"
    try:
        return read_token_file(path.read_text(encoding="utf-8"), source=source)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"cannot be read: {why}; each line must be token,user,uid,groups", source=source) from error


def _stop_with_stdin(stop: asyncio.Event) -> None:
    """Set `stop` when standard input is closed."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        if not os.read(0, 4096):
            loop.remove_reader(0)
            stop.set()

    try:
        loop.add_reader(0, read)
    except OSError as error:
        raise ConfigError("--stop-with-stdin: standard input is neither a pipe nor a terminal") from error


def _find_pair(options: _Options) -> Pair | None:
    """Return the serving certificate, read from files or generated for this address; None for plain HTTP."""
    from pyscheduler.serving.certificates import read_pair, self_signed

    cert_flag, key_flag = "--tls-cert-file", "--tls-private-key-file"
    if options.cert_file and options.key_file:
        return read_pair(options.cert_file, options.key_file, cert_flag=cert_flag, key_flag=key_flag)
    if options.cert_file or options.key_file:
        raise ConfigError(f"{cert_flag} needs {key_flag}; give both, or --tls for a generated certificate")
    if not options.tls:
        return None
    try:
        ipaddress.ip_address(options.address)
    except ValueError:  # a host name; the certificate is for localhost in any case
        return self_signed("127.0.0.1")
    return self_signed(options.address)


def _make_context(pair: Pair) -> ssl.SSLContext:
    """Return the server's TLS context; raise `ConfigError` for an unusable pair."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:  # the ssl module reads only files
        files = Path(folder, "tls.crt"), Path(folder, "tls.key")
        for file, content in zip(files, (pair.certificate, pair.key), strict=True):
            file.touch(mode=0o600)
            file.write_bytes(content)
        try:
            context.load_cert_chain(*files)
        except (OSError, ValueError) as error:
            raise ConfigError(f"{pair.source}: {error}; provide a certificate and its key, both PEM") from error
    return context


def _write_kubeconfig(path: str, url: str, token: str, authority: bytes) -> None:
    from kube_testserver.kubeconfig import write_kubeconfig

    try:
        write_kubeconfig(Path(path), url, token=token, authority=authority)
    except OSError as error:
        raise ConfigError(f"--write-kubeconfig: {path} cannot be written: {error.strerror}") from error


@click.command("cluster")
@click.option("--address", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8001,
    show_default=True,
    help="Port to listen on; 0 takes a free port.",
)
@click.option(
    "--load",
    "files",
    multiple=True,
    metavar="FILE",
    help="File with objects to load at the start: YAML documents, JSON, or a List; repeatable.",
)
@click.option("--write-kubeconfig", "kubeconfig", metavar="FILE", help="Write a kubeconfig for this server.")
@click.option(
    "--lifecycle/--no-lifecycle",
    default=True,
    show_default=True,
    help="Set bound pods to Running and remove deleted pods, as a kubelet does.",
)
@click.option(
    "--controllers/--no-controllers",
    default=False,
    show_default=True,
    help="Create the pods of workloads (Deployment, Job, JobSet, PyTorchJob, RayCluster ...), and collect garbage.",
)
@click.option(
    "--reject-only",
    is_flag=True,
    help="With --no-lifecycle: reject bound pods that do not fit on their node, as a kubelet does.",
)
@click.option(
    "--stop-with-stdin",
    "with_stdin",
    is_flag=True,
    help="Stop when standard input is closed; for programs that start this server.",
)
@click.option(
    "--authorization",
    type=click.Choice(["always-allow", "rbac"]),
    default="always-allow",
    show_default=True,
    help="With rbac, require credentials and authorize by roles and bindings.",
)
@click.option(
    "--token-auth-file",
    "token_file",
    metavar="FILE",
    help='Accepted bearer tokens: lines of token,user,uid,"group1,group2".',
)
@click.option(
    "--tls/--no-tls",
    default=False,
    show_default=True,
    help="Serve HTTPS with a generated certificate, which the kubeconfig contains.",
)
@click.option("--tls-cert-file", "cert_file", metavar="FILE", help="Serve HTTPS with this certificate.")
@click.option("--tls-private-key-file", "key_file", metavar="FILE", help="Private key of --tls-cert-file.")
@click.option(
    "--feature-gates",
    default="",
    metavar="GATE=BOOL,...",
    help="GenericWorkload=true serves Workload and PodGroup of scheduling.k8s.io/v1alpha2; other gates have no effect.",
)
@logging_options()
def command(**options: Any) -> None:
    """Serve an embedded Kubernetes API server, in memory, with the kinds that a scheduler needs.

    \b
    Try it:
      pyscheduler cluster --write-kubeconfig embedded.yaml &
      kubectl --kubeconfig embedded.yaml get nodes
      pyscheduler run --kubeconfig embedded.yaml

    With --authorization rbac or --token-auth-file, the kubeconfig has the token of an administrator. With one of them
    and without --write-kubeconfig, the second line of the output is this token.
    """
    asyncio.run(_serve(_Options(**options)))

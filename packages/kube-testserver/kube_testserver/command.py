"""The command `kube-testserver`: serve an API server in memory."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import ssl
import sys
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import attrs
import click

from kube_objects.errors import ConfigError, PySchedulerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube_testserver.access.users import User

__all__ = ["command", "main", "serve", "serving_options"]

C = TypeVar("C", bound="Callable[..., object]")

_CERT_FLAG: Final = "--tls-cert-file"
_KEY_FLAG: Final = "--tls-private-key-file"


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
    #: Whether Workload and PodGroup of scheduling.k8s.io are served.
    pod_groups: bool


_OPTIONS: Final = (
    click.option("--address", default="127.0.0.1", show_default=True, help="Address to listen on."),
    click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=8001,
        show_default=True,
        help="Port to listen on; 0 takes a free port.",
    ),
    click.option(
        "--load",
        "files",
        multiple=True,
        metavar="FILE",
        help="File with objects to load at the start: YAML documents, JSON, or a List; repeatable.",
    ),
    click.option("--write-kubeconfig", "kubeconfig", metavar="FILE", help="Write a kubeconfig for this server."),
    click.option(
        "--lifecycle/--no-lifecycle",
        default=True,
        show_default=True,
        help="Set bound pods to Running and remove deleted pods, as a kubelet does.",
    ),
    click.option(
        "--controllers/--no-controllers",
        default=False,
        show_default=True,
        help="Create the pods of workloads (Deployment, Job, JobSet, PyTorchJob, RayCluster ...), and collect garbage.",
    ),
    click.option(
        "--reject-only",
        is_flag=True,
        help="With --no-lifecycle: reject bound pods that do not fit on their node, as a kubelet does.",
    ),
    click.option(
        "--stop-with-stdin",
        "with_stdin",
        is_flag=True,
        help="Stop when standard input is closed; for programs that start this server.",
    ),
    click.option(
        "--authorization",
        type=click.Choice(["always-allow", "rbac"]),
        default="always-allow",
        show_default=True,
        help="With rbac, require credentials and authorize by roles and bindings.",
    ),
    click.option(
        "--token-auth-file",
        "token_file",
        metavar="FILE",
        help='Accepted bearer tokens: lines of token,user,uid,"group1,group2".',
    ),
    click.option(
        "--tls/--no-tls",
        default=False,
        show_default=True,
        help="Serve HTTPS with a generated certificate, which the kubeconfig contains.",
    ),
    click.option(_CERT_FLAG, "cert_file", metavar="FILE", help="Serve HTTPS with this certificate."),
    click.option(_KEY_FLAG, "key_file", metavar="FILE", help="Private key of --tls-cert-file."),
    click.option(
        "--feature-gates",
        default="",
        metavar="GATE=BOOL,...",
        help="GenericWorkload=true serves Workload and PodGroup of scheduling.k8s.io/v1alpha2; "
        "other gates have no effect.",
    ),
)


def serving_options(function: C) -> C:
    """Add the options that `serve` takes to a command; of `--feature-gates`, it takes what `pod_groups` says."""
    return reduce(lambda made, option: option(made), reversed(_OPTIONS), function)


def serve(**options: Any) -> None:
    """Serve a cluster until SIGTERM or SIGINT; raise `ConfigError` for options that cannot be used."""
    asyncio.run(_serve(_Options(**options)))


async def _serve(options: _Options) -> None:
    from kube_objects.clock import LoopClock
    from kube_testserver.access.users import ADMIN
    from kube_testserver.cluster import EmbeddedCluster
    from kube_testserver.served_cluster import load_file, serve_cluster

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
    clock = LoopClock()
    # Clients may hold resource versions of an earlier run, so versions continue with the time.
    first_version = int(clock.wall() * 1000)
    cluster = EmbeddedCluster(
        clock=clock,
        authorization=options.authorization,
        tokens=tokens,
        first_version=first_version,
        pod_groups=options.pod_groups,
    )
    loaded = sum(len(load_file(cluster, Path(file), source="--load")) for file in options.files)
    context, authority = _find_tls(options)
    served = serve_cluster(
        cluster,
        host=options.address,
        port=options.port,
        tls=context,
        lifecycle=cluster.lifecycle(run_pods=not options.reject_only) if options.lifecycle else None,
        controllers=options.controllers,
    )
    async with served as server:
        if options.kubeconfig:
            _write_kubeconfig(options.kubeconfig, server.url, admin, authority)
        # One flushed line, for a parent process that waits for it.
        click.echo(f"serving {server.url} objects={loaded}")
        if admin and not options.kubeconfig:
            click.echo(f"token {admin}")
        if admin and context is None:
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


def _find_tls(options: _Options) -> tuple[ssl.SSLContext | None, bytes]:
    """Return the TLS context and the certificate that clients trust, from files or generated; None for plain HTTP."""
    from kube_testserver.served_cluster import make_tls

    cert_file, key_file = options.cert_file, options.key_file
    if not cert_file and not key_file:
        return make_tls(options.address, wanted_by="--tls") if options.tls else (None, b"")
    if not cert_file or not key_file:
        raise ConfigError(f"{_CERT_FLAG} needs {_KEY_FLAG}; give both, or --tls for a generated certificate")
    certificate = _read(cert_file, _CERT_FLAG)
    _read(key_file, _KEY_FLAG)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert_file, key_file)
    except (OSError, ValueError) as error:
        source = f"{_CERT_FLAG} and {_KEY_FLAG} ({cert_file}, {key_file})"
        raise ConfigError(f"{source}: {error}; provide a certificate and its key, both PEM") from error
    return context, certificate


def _read(path: str, flag: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{flag}: {path}: {(error.strerror or str(error)).lower()}") from error


def _write_kubeconfig(path: str, url: str, token: str, authority: bytes) -> None:
    from kube_testserver.kubeconfig import write_kubeconfig

    try:
        write_kubeconfig(Path(path), url, token=token, authority=authority)
    except OSError as error:
        raise ConfigError(f"--write-kubeconfig: {path} cannot be written: {error.strerror}") from error


@click.command("kube-testserver", context_settings={"help_option_names": ["-h", "--help"]})
@serving_options
@click.option(
    "-v",
    "--v",
    "verbosity",
    type=click.IntRange(0, 10),
    default=2,
    show_default=True,
    metavar="N",
    help="Log verbosity: 0 warnings, 2 decisions, 4 details.",
)
def command(verbosity: int, feature_gates: str, **options: Any) -> None:
    """Serve a Kubernetes API server in memory.

    \b
    Try it:
      kube-testserver --controllers --write-kubeconfig test.yaml &
      kubectl --kubeconfig test.yaml get namespaces

    With --authorization rbac or --token-auth-file, the kubeconfig has the token of an administrator. With one of them
    and without --write-kubeconfig, the second line of the output is this token.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    level = logging.WARNING if verbosity < 2 else logging.INFO if verbosity < 4 else logging.DEBUG
    logging.getLogger("kube_testserver").setLevel(level)
    serve(pod_groups="GenericWorkload=true" in feature_gates.split(","), **options)


def main() -> None:
    """Run the command; print one line on stderr for each mistake and exit with code 1."""
    try:
        command.main(prog_name="kube-testserver")
    except PySchedulerError as error:
        for line in str(error).splitlines():
            click.echo(f"error: {line}", err=True)
        sys.exit(1)

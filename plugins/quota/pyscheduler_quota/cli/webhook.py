"""`pyscheduler webhook`: run an admission webhook that refuses pods if their quota is reserved for a pod group."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
from typing import Any

import attrs
import click

from pyscheduler.cli.shared_options import block_option, logging_options

__all__ = ["command"]

_log = logging.getLogger(__name__)


@attrs.frozen(kw_only=True)
class _Options:
    """The command line."""

    kubeconfig: str | None
    master: str | None
    tls_cert_file: str
    tls_private_key_file: str
    bind_address: str
    secure_port: int
    blocked: tuple[str, ...]


@click.command("webhook")
@click.option("--kubeconfig", metavar="FILE", help="Kubeconfig of the API server. [default: as for `run`]")
@click.option("--master", metavar="URL", help="Address of the API server; overrides the kubeconfig's.")
@click.option(
    "--tls-cert-file",
    required=True,
    metavar="FILE",
    help="Certificate to serve, with its chain, in PEM; the file is read again when it changes.",
)
@click.option("--tls-private-key-file", required=True, metavar="FILE", help="Private key of --tls-cert-file, in PEM.")
@click.option(
    "--bind-address",
    default="0.0.0.0",  # noqa: S104 - the API server calls it from outside
    show_default=True,
    metavar="ADDRESS",
    help="Address of --secure-port; 0.0.0.0 and :: mean all interfaces.",
)
@click.option(
    "--secure-port", type=click.IntRange(0, 65535), default=10443, show_default=True, metavar="PORT", help="HTTPS port."
)
@block_option
@logging_options()
def command(**options: Any) -> None:
    """Refuse pods that would take quota which pod groups have reserved.

    The API server calls this webhook when a pod is created; configs/webhook has the manifests. A pod is allowed if the
    webhook cannot decide. It reads pods, ResourceQuotas and PodGroups, and writes nothing.

    \b
      pyscheduler webhook --tls-cert-file tls.crt --tls-private-key-file tls.key
    """
    asyncio.run(_serve(_Options(**options)))


async def _serve(options: _Options) -> None:
    """Serve until a signal arrives."""
    from kube_objects.clock import LoopClock
    from pyscheduler.cluster.real import auth
    from pyscheduler.cluster.real.http import HTTPTransport
    from pyscheduler.flags.run_flags import SecureServingFlags
    from pyscheduler.framework.recorder import NullRecorder
    from pyscheduler.runtime.assembly.discovery import discover
    from pyscheduler.scheduler.ports import ClientSettings
    from pyscheduler.serving.lifecycle import unless_stopped
    from pyscheduler.serving.listening import listen
    from pyscheduler_quota.admission import QuotaAdmission
    from pyscheduler_quota.cli.webhook_server import QuotaWebhook

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    serving = SecureServingFlags(
        bind_address=options.bind_address,
        secure_port=options.secure_port,
        tls_cert_file=options.tls_cert_file,
        tls_private_key_file=options.tls_private_key_file,
    )
    clock = LoopClock()
    transport = HTTPTransport(await auth.find(kubeconfig=options.kubeconfig, master=options.master))
    client = transport.connect(ClientSettings(qps=-1), clock=clock, rng=random.Random(), recorder=NullRecorder())
    admission = QuotaAdmission(discover(blocked=options.blocked).dialect_table(_warn), clock)
    webhook = QuotaWebhook(admission, client, clock=clock)
    try:
        listening = listen(serving.bind_address, serving.secure_port, flag="--secure-port", named=True)
        assert listening is not None
        await webhook.start(listening, serving)
        _log.info("Serving admission reviews address=%s port=%d", serving.bind_address, webhook.port)
        if await unless_stopped(webhook.fill(), stop) is not None:
            await stop.wait()
    finally:
        await webhook.stop()
        await client.close()
        await transport.close()


def _warn(text: str) -> None:
    _log.warning("%s", text)

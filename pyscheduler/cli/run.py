"""`pyscheduler run`: run the scheduler on a real cluster."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyscheduler.flags.declaration import FlagCommand
from pyscheduler.flags.run_flags import Flags, all_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyscheduler.flags.effective_config import Effective
    from pyscheduler.serving.lifecycle import RunOptions
    from pyscheduler.serving.watchdog import Watchdog

__all__ = ["command", "run_on_cluster", "run_program"]

_log = logging.getLogger(__name__)


async def run_on_cluster(
    options: RunOptions, *, kubeconfig: str | None, master: str | None, reload: bool = False
) -> bool:
    """Connect to the cluster and schedule until a signal arrives, or with `reload` until the code changes.

    Return True if the code has changed.
    """
    from kube_objects.clock import LoopClock
    from pyscheduler.serving.code_reload import stop_on_change
    from pyscheduler.serving.watchdog import Watchdog

    stop = asyncio.Event()
    watchdog = Watchdog(stop)
    if not reload:
        await _run_until(stop, watchdog, options, kubeconfig=kubeconfig, master=master)
        return False
    watching = asyncio.create_task(stop_on_change(stop, LoopClock()), name="code")
    try:
        await _run_until(stop, watchdog, options, kubeconfig=kubeconfig, master=master)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        watchdog.close()
    return not watching.cancelled() and watching.result()


async def _run_until(
    stop: asyncio.Event, watchdog: Watchdog, options: RunOptions, *, kubeconfig: str | None, master: str | None
) -> None:
    from pyscheduler.cluster.real import auth
    from pyscheduler.cluster.real.http import HTTPTransport
    from pyscheduler.serving.lifecycle import serve, unless_stopped

    path = kubeconfig or options.config.client_connection.kubeconfig or None

    async def open_transport() -> HTTPTransport:
        return HTTPTransport(await auth.find(kubeconfig=path, master=master))

    opened = await unless_stopped(open_transport(), stop)
    if opened is None:
        return
    transport = opened.result()
    try:
        # The lease has a connection of its own, because it uses the event loop of another thread.
        await serve(options, transport, stop=stop, lease_transport=open_transport, watchdog=watchdog)
    finally:
        await transport.close()


@click.command("run", cls=FlagCommand, params=[*all_options()])
def command(**parameters: Any) -> None:
    """Schedule those pods of a cluster that name one of the profiles in schedulerName.

    pyscheduler runs beside kube-scheduler and ignores pods with another schedulerName. SIGTERM or Ctrl-C stops it after
    the bindings under way have finished; a second signal stops it at once. The flags of kube-scheduler have the same
    meaning here.

    \b
    Try it with one pod:
      pyscheduler run --kubeconfig ~/.kube/config --config configs/default.yaml
      kubectl run hello --image=nginx --overrides='{"spec":{"schedulerName":"pyscheduler"}}'
    """
    run_program(parameters)


def run_program(parameters: Mapping[str, Any], built_in: str = "") -> None:
    """Run a scheduler until a signal arrives; `built_in` is its configuration where --config names none."""
    flags = Flags.read(parameters)
    if flags.own.reload:
        _run_again_and_again(flags, built_in)
    else:
        _run(flags, built_in)


def _run_again_and_again(flags: Flags, built_in: str) -> None:
    """Run a scheduler, and run the program anew when the code has changed; after a mistake, wait for a change."""
    from kube_objects.clock import LoopClock
    from kube_objects.errors import PySchedulerError
    from pyscheduler.cli.error_output import print_mistakes
    from pyscheduler.serving.code_reload import restart, stop_on_change

    async def changed() -> None:
        await stop_on_change(asyncio.Event(), LoopClock())

    try:
        if not _run(flags, built_in):
            return
    except PySchedulerError as error:
        print_mistakes(error)
        click.echo("waiting for a change of the code", err=True)
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(changed())
            restart()
        raise
    restart()


def _run(flags: Flags, built_in: str) -> bool:
    """Run a scheduler until a signal arrives, or until the code changes; return True then."""
    from pyscheduler.flags.effective_config import effective
    from pyscheduler.serving.lifecycle import RunOptions
    from pyscheduler.serving.version import version_text

    if flags.globals.version in {"true", "raw"}:
        click.echo(version_text(flags.globals.version))
        return False
    _set_up_logging(flags)
    found = effective(flags, built_in)
    _log.info(
        "Starting scheduler version=%s config=%s",
        version_text(""),
        flags.main.config or ("built-in" if built_in else "none"),
    )
    for name, value in flags.items():
        _log.debug("FLAG name=%s value=%s", name, value)
    for warning in found.warnings:
        _log.warning("%s", warning)
    if flags.main.write_config_to:
        _write_config(found, flags)
        return False
    options = RunOptions(
        config=found.config,
        config_file=flags.main.config or None,
        feature_gates=found.gates,
        blocked=flags.own.blocked,
        bind_address=flags.secure_serving.bind_address,
        health_port=flags.own.health_port or None,
        flags=flags,
        seed=flags.own.seed,
        max_unschedulable_seconds=flags.deprecated.max_unschedulable_seconds,
    )
    kubeconfig, master = flags.main.kubeconfig or None, flags.main.master or None
    with _logged_crash():
        return asyncio.run(run_on_cluster(options, kubeconfig=kubeconfig, master=master, reload=flags.own.reload))


@contextlib.contextmanager
def _logged_crash() -> Iterator[None]:
    """Log an error that ends the program, because the interpreter would print its traceback on many lines."""
    from kube_objects.errors import PySchedulerError

    try:
        yield
    except PySchedulerError:
        raise  # `main` prints it
    except Exception:  # noqa: BLE001 - any other error is a fault, and ends the program
        _log.exception("Scheduler ends, because of an error of the program")
        sys.exit(1)


def _set_up_logging(flags: Flags) -> None:
    from pyscheduler.telemetry.logs import configure

    form = flags.logs.log_format or flags.logs.logging_format
    split = flags.logs.log_json_split_stream if form == "json" else flags.logs.log_text_split_stream
    configure(verbosity=flags.logs.verbosity, json=form == "json", vmodule=flags.logs.vmodule, split_stream=split)


def _write_config(found: Effective, flags: Flags) -> None:
    """Check the profiles, then write the effective configuration."""
    from pyscheduler.cli.offline_scheduler import offline_scheduler
    from pyscheduler.config.completed import completed
    from pyscheduler.config.dump import dump
    from pyscheduler.config.problems import found_in
    from pyscheduler.framework.errors import ConfigError, os_error_text
    from pyscheduler.runtime.assembly.discovery import discover

    with found_in(found.config.source):
        offline_scheduler(found.config, discover(blocked=flags.own.blocked), gates=found.gates)
    path = flags.main.write_config_to
    try:
        Path(path).write_text(dump(completed(found.config), sort_keys=True), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--write-config-to: {path}: {os_error_text(error)}") from error
    _log.info("Wrote configuration file=%s", path)

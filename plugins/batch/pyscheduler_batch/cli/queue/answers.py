"""The subcommands of `pyscheduler queue`: each reads the cluster once, computes its answer, and prints it."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import attrs
import click

from kube_objects.clock import LoopClock
from pyscheduler.cli.manifests import manifests_of
from pyscheduler.cli.podgroup.command import print_data
from pyscheduler.cli.podgroup.view import list_of
from pyscheduler.cli.terminal import echo
from pyscheduler.cli.unread_kinds import refused_by_plugin, refused_of
from pyscheduler.framework.errors import ConfigError, ForbiddenError
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.telemetry.logs import configure
from pyscheduler_batch.added_dialects import added_queue_dialects
from pyscheduler_batch.cli.queue import explain_view, view
from pyscheduler_batch.cli.queue.describe_view import described
from pyscheduler_batch.cli.queue.explanation import (
    Explanation,
    explain as explain_job,
    placements,
    unknown_job,
    unsure_of_nodes,
)
from pyscheduler_batch.cli.queue.model import build_models, of_dialect, schedulers_of
from pyscheduler_batch.cli.queue.offline_pass import Offline, PassResult, open_offline, profiles_for
from pyscheduler_batch.cli.queue.reader import read_inventory
from pyscheduler_batch.cli.queue.share_changes import change_lines, changes_data, share_changes
from pyscheduler_batch.cli.queue.source import check_namespace, open_source, overlay
from pyscheduler_batch.dialects import JOB_DIALECTS, QUEUE_DIALECTS
from pyscheduler_batch.model.tasks import TaskState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from typing import Any

    from pyscheduler.api import Pod
    from pyscheduler.config.types import Configuration
    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler_batch.cli.queue.command import Options
    from pyscheduler_batch.cli.queue.model import DialectModel, JobEntry
    from pyscheduler_batch.cli.queue.offline_pass import Profiles
    from pyscheduler_batch.cli.queue.source import Source
    from pyscheduler_batch.cli.queue.view import FairShares
    from pyscheduler_batch.dialects import QueueDialect

__all__ = ["Cluster", "describe", "explain", "explained", "get", "open_cluster", "read_cluster", "simulate", "whatif"]


@attrs.frozen(kw_only=True)
class Cluster:
    """The cluster as it was read, and the batch profiles for it."""

    source: Source
    models: Sequence[DialectModel]
    profiles: Profiles
    #: The pods that name no group.
    single_pods: Sequence[Pod] = ()
    #: Whether warnings about the configuration are printed.
    warns: bool = True


async def read_cluster(
    options: Options, source: Source, *, warns: bool = True, config: Configuration | None = None
) -> Cluster:
    """Read the cluster; with `warns`, print a warning for each kind that may not be listed.

    `config`: a configuration that was read already, in place of that of the options.
    """
    registry = discover(blocked=options.blocked)
    queue_rows = _queue_rows(registry)
    _check_dialect(options.dialect, queue_rows)
    inventory = await read_inventory(source.read, queue_rows=queue_rows, unread=source.unread)
    for name in dict.fromkeys(source.unread) if warns else ():
        echo(f"Warning: {name} may not be listed, so that the answer may be incomplete", err=True)
    schedulers = schedulers_of(inventory)
    wanted = options.dialect
    # Profiles of every preset read the queues of other distributions' dialects.
    presets = [name for name in schedulers if wanted in {None, name}] or [*schedulers]
    assumed = {name: schedulers[name] for name in presets}
    profiles = profiles_for(
        assumed,
        registry=registry,
        config_file=options.config_file,
        config=config,
        feature_gates=options.feature_gates,
    )
    served = {name: [own] for name, own in profiles.names.items()}
    models = build_models(inventory, {**schedulers, **served}, trees=profiles.trees, served=served)
    chosen = [of_dialect(model, wanted) if wanted else model for model in models if model.name in presets]
    shown = [model for model in chosen if model.specs or model.jobs]
    return Cluster(source=source, models=shown, profiles=profiles, single_pods=inventory.single_pods, warns=warns)


def _queue_rows(registry: Registry) -> Sequence[QueueDialect]:
    """Return the dialects of queues: the built-in ones, and those of the installed distributions."""
    return [*QUEUE_DIALECTS, *added_queue_dialects(registry.extensions())]


def _check_dialect(dialect: str | None, queue_rows: Iterable[QueueDialect]) -> None:
    known = [row.name for row in queue_rows]
    if dialect is not None and dialect not in known:
        raise click.UsageError(
            f'--dialect: no dialect of queues is called "{dialect}"; choose one of {", ".join(known)}'
        )


@asynccontextmanager
async def open_cluster(cluster: Cluster) -> AsyncIterator[Offline]:
    """Yield a scheduler that has read the cluster; print how many warnings its configuration has."""
    async with open_offline(cluster.source.read, cluster.profiles) as offline:
        if offline.warnings and cluster.warns:
            file = cluster.profiles.source
            count = f"{offline.warnings} warning{'' if offline.warnings == 1 else 's'}"
            echo(f'Warning: {file}: {count}; "pyscheduler config --config {file}" shows them', err=True)
        yield offline


async def _passes(cluster: Cluster, *, only_shares: bool = True, is_required: bool = False) -> Mapping[str, PassResult]:
    """Return a pass of each dialect. If there can be none, print a warning, or raise with `is_required`."""
    found: dict[str, PassResult] = {}
    if not cluster.models:
        return found
    try:
        async with open_cluster(cluster) as offline:
            for model in cluster.models:
                result = await offline.run(model.name, only_shares=only_shares)
                if result is not None:
                    found[model.name] = result
                    if cluster.warns and model.specs and not result.shares():
                        why = _NO_SHARES if len(result.found.session.queues) else _NO_QUEUES
                        echo(f"Warning: fair shares of {model.name} are unknown: {why}", err=True)
    except ConfigError as error:
        if is_required:
            raise
        for problem in error.problems:
            echo(f"Warning: fair shares are unknown: {problem}", err=True)
    return found


_NO_SHARES: Final = "no policy of its profile reports them, as proportion and capacity do"
_NO_QUEUES: Final = "its profile can use none of the queues"


def _shares(passes: Mapping[str, PassResult]) -> FairShares:
    return {dialect: result.shares() for dialect, result in passes.items()}


def _open(options: Options) -> AbstractAsyncContextManager[Source]:

    configure(verbosity=0, json=False)
    return open_source(kubeconfig=options.kubeconfig, context=options.context, objects=options.objects)


def _edited(source: Source, manifests: Sequence[Mapping[str, Any]], name: str) -> Source:
    """Return the source as if the manifests of the file `name` had been applied; the cluster itself stays as it is."""
    read = overlay(source.read, manifests, source=name, namespace=source.namespace, clock=LoopClock())
    return attrs.evolve(source, read=read)


def _report_missing(names: Iterable[str], models: Sequence[DialectModel]) -> int:
    """Report the names that no dialect has, as kubectl does; return the exit code."""
    missing = [name for name in dict.fromkeys(names) if not any(name in model.specs for model in models)]
    for name in missing:
        echo(f'Error from server (NotFound): queues "{name}" not found', err=True)
    return int(bool(missing))


async def get(options: Options, names: Sequence[str], output: str, resource: str, *, headers: bool) -> int:
    """Print queues as a table, JSON or YAML; return the exit code."""
    async with _open(options) as source:
        cluster = await read_cluster(options, source)
        shares = _shares(await _passes(cluster))
    models = cluster.models
    if output in {"json", "yaml"}:
        items = [view.data_of(model, shares, queue) for model in models for queue, _ in view.tree_of(model, names)]
        print_data(items[0] if len(names) == 1 and len(items) == 1 else list_of(items), output)
        return _report_missing(names, models)
    lines = view.table_lines(models, shares, names=names, resource=resource, wide=output == "wide", headers=headers)
    if any(view.tree_of(model, names) for model in models):
        for line in lines:
            echo(line)
    elif not names:
        echo("No resources found", err=True)
    if not names:
        for line in view.footer(models):
            echo(line)
    return _report_missing(names, models)


async def describe(options: Options, names: Sequence[str]) -> int:
    """Print descriptions of queues; return the exit code."""
    async with _open(options) as source:
        cluster = await read_cluster(options, source)
        passes = await _passes(cluster, only_shares=False)
    shares = _shares(passes)
    models = cluster.models
    found = [(model, name) for name in dict.fromkeys(names) for model in models if name in model.specs]
    for number, (model, name) in enumerate(found):
        if number:
            click.echo("\n")
        reasons = passes[model.name].reasons() if model.name in passes else {}
        for line in described(model, shares, name, reasons=reasons, now=time.time()):
            echo(line)
    return _report_missing(names, models)


# --- jobs ---------------------------------------------------------------------------------------


async def explain(options: Options, job: str, namespace: str | None, output: str) -> int:
    """Print why a job waits; return the exit code."""
    async with _open(options) as source:
        try:
            cluster = await read_cluster(options, source)
        except ForbiddenError as error:
            pod = "`pyscheduler explain POD` needs only the permission to get the pod"
            raise ConfigError(f"the job cannot be explained: {error}; {pod}") from error
        model, entry = _job(cluster, job, namespace or source.namespace)
        found = await explained(cluster, model, entry)
    if output:
        print_data(explain_view.data_of(found[0]), output)
    else:
        _print(explain_view.explained(found[0]))
    return 0


async def whatif(options: Options, job: str, filename: str, namespace: str | None, output: str) -> int:
    """Print whether jobs would start now and what that would evict; return the exit code: 1 if one would not start."""
    async with _open(options) as source:
        if filename:
            manifests = manifests_of(filename)
            name = "standard input" if filename == "-" else filename
            if namespace is not None:
                check_namespace(manifests, namespace, source=name)
                source = attrs.evolve(source, namespace=namespace)
            cluster = await read_cluster(options, _edited(source, manifests, name))
            chosen = _jobs_in(cluster, manifests, name)
        else:
            cluster = await read_cluster(options, source)
            chosen = [_job(cluster, job, namespace or source.namespace)]
        results = [await explained(cluster, model, entry) for model, entry in chosen]
    plans = [(found, _plan(result, found)) for found, result in results]
    if output:
        items = [explain_view.data_of(found, plan) for found, plan in plans]
        print_data(items[0] if len(items) == 1 else list_of(items), output)
    else:
        for number, (found, plan) in enumerate(plans):
            if number:
                click.echo()
            _print(explain_view.planned(found, plan))
    return int(any(found.verdict in {"waits", "unknown"} for found, _ in plans))


def _plan(result: PassResult | None, found: Explanation) -> list[tuple[str, str, str]]:
    job = result.job(found.job) if result is not None else None
    return placements(result, result.decisions_for(job)) if result is not None and job is not None else []


async def explained(cluster: Cluster, model: DialectModel, entry: JobEntry) -> tuple[Explanation, PassResult | None]:
    """Run a pass for the job's dialect and explain the job. Kinds that may not be listed are not taken as absent."""
    unread = cluster.source.unread
    kinds = [kind for row in JOB_DIALECTS if row.name == model.name for kind in row.groups.kinds]
    kinds += [kind for row in QUEUE_DIALECTS if row.name == model.name for kind in row.kinds]
    refused = refused_of(kinds, unread)
    if refused:
        return unknown_job(model, entry, refused), None
    async with open_cluster(cluster) as offline:
        result = await offline.run(model.name)
        text = ""
        pending = [task.pod for task in entry.job.tasks.values() if task.state == TaskState.PENDING]
        is_considered = result is not None and result.job(entry.job.key) is not None
        if result is not None and is_considered and pending and pending[0] is not None:
            evaluation = await offline.evaluated(result, pending[0])
            text = offline.node_text(result, pending[0], evaluation)
            by_plugin = refused_by_plugin(evaluation, unread)
            rejecting = {miss.plugin for miss in evaluation.misses}
            refused = [*dict.fromkeys(kind for name in by_plugin if name in rejecting for kind in by_plugin[name])]
        found = explain_job(model, entry, result, text, args=offline.profiles.args.get(model.name))
        return unsure_of_nodes(found, refused), result


def _job(cluster: Cluster, job: str, namespace: str) -> tuple[DialectModel, JobEntry]:
    """Return the job of a name, or of `namespace/name`; raise `ConfigError` if there is none.

    The name is that of the job, else of one of its pods, or of the workload that owns its group or pods.
    """
    key = job if "/" in job else f"{namespace}/{job}"
    for model in cluster.models:
        if key in model.jobs:
            return model, model.jobs[key]
    found = [(model, entry) for model in cluster.models for entry in model.jobs.values() if key in entry.other_keys()]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(entry.job.key for _, entry in found)
        raise ConfigError(f"{key} is the name of no job, but of pods or owners of several: {names}; name one of them")
    for pod in cluster.single_pods:
        if pod.key == key:
            raise ConfigError(f"pod {key} is no job: {_unserved([pod.scheduler_name], cluster)}")
    refused = refused_of((kind for row in JOB_DIALECTS for kind in row.groups.kinds), cluster.source.unread)
    if refused:
        raise ConfigError(f"job {key} is not known: these credentials may not list {', '.join(refused)}")
    raise ConfigError(
        f"job {key} does not exist: no PodGroup, no pod of a batch profile, and no owner of these has this name"
    )


def _unserved(names: Iterable[str], cluster: Cluster) -> str:
    """Return the sentence about schedulerNames that no batch profile has."""
    shown = " or ".join(f'"{name}"' for name in dict.fromkeys(names))
    known = ", ".join(cluster.profiles.names.values())
    return f"no batch profile has the schedulerName {shown}, only {known}; correct it, or give another --config"


def _jobs_in(
    cluster: Cluster, manifests: Sequence[Mapping[str, Any]], source: str
) -> list[tuple[DialectModel, JobEntry]]:
    """Return the jobs of manifests; raise `ConfigError` if they describe none."""
    default = cluster.source.namespace
    named = {(one["kind"], one["metadata"].get("namespace") or default, one["metadata"]["name"]) for one in manifests}
    found = []
    for model in cluster.models:
        for entry in model.jobs.values():
            spec = entry.spec
            pods = (task.pod for task in entry.job.tasks.values() if task.pod is not None)
            if ("PodGroup", spec.namespace, spec.name) in named or any(
                ("Pod", pod.namespace, pod.name) in named for pod in pods
            ):
                found.append((model, entry))
    if not found:
        others = [pod.scheduler_name for pod in cluster.single_pods if ("Pod", pod.namespace, pod.name) in named]
        if others:
            raise ConfigError(f"no job in it: {_unserved(others, cluster)}", source=source)
        text = "no job in it; give a PodGroup with its pods, or pods with the schedulerName of a batch profile"
        raise ConfigError(text, source=source)
    return found


# --- simulate -----------------------------------------------------------------------------------


async def simulate(options: Options, filename: str, output: str) -> int:
    """Print the fair shares before and after a change of queues; return the exit code."""
    name = "standard input" if filename == "-" else filename
    manifests = manifests_of(filename)
    rows = _queue_rows(discover(blocked=options.blocked))
    kinds = {(kind.api_version, kind.kind): row.name for row in rows for kind in row.kinds}
    for one in manifests:
        if (one.get("apiVersion"), one["kind"]) not in kinds:
            text = f"{one['kind']} {one['metadata']['name']} of {one.get('apiVersion')} is no batch queue"
            raise ConfigError(
                f"{text}; give queues of {', '.join(sorted(version for version, _ in kinds))}", source=name
            )
    edited = {(kinds[one["apiVersion"], one["kind"]], one["metadata"]["name"]) for one in manifests}
    async with _open(options) as source:
        before = await read_cluster(options, source)
        after = attrs.evolve(await read_cluster(options, _edited(source, manifests, name)), warns=False)
        shares = [_shares(await _passes(each, is_required=True)) for each in (before, after)]
    for model in after.models:
        for one in manifests:
            for text in model.specs[queue].warnings if (queue := one["metadata"]["name"]) in model.specs else ():
                echo(f"Warning: queue {queue}: {text}", err=True)
    changes = share_changes(after.models, *shares, edited=edited)
    if output:
        print_data(changes_data(changes), output)
        return 0
    _print(change_lines(changes))
    _print(view.footer(after.models))
    return 0


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        echo(line)

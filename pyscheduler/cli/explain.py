"""`pyscheduler explain`: where a pod would go, or why it goes nowhere; nothing is bound or written."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from pyscheduler.cli.options import block_option, feature_gates_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.api import KubeObject, Pod
    from pyscheduler.cluster.object_sources import Read
    from pyscheduler.cluster.readonly_cluster import ReadOnlyCluster
    from pyscheduler.config.types import Configuration
    from pyscheduler.framework.clock import Clock
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.evaluation import Evaluation
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["command"]


@attrs.frozen(kw_only=True)
class _Question:
    """What was asked: a pod of the cluster by name, or a manifest."""

    namespace: str
    name: str = ""
    file: str | None = None
    objects: Sequence[str] = ()
    kubeconfig: str | None = None
    master: str | None = None
    config_file: str | None = None
    feature_gates: str = ""
    blocked: Sequence[str] = ()


@click.command("explain")
@click.argument("pod", metavar="[[NAMESPACE/]POD]", required=False)
@click.option("-f", "--filename", metavar="FILE", help="A manifest with the pod to place; - for standard input.")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of POD.")
@click.option(
    "--objects",
    multiple=True,
    metavar="FILE",
    help="Take the cluster from this file, as `kubectl get nodes,pods -A -o yaml` prints it; repeatable.",
)
@click.option("--kubeconfig", metavar="FILE", help="Take the cluster from an API server, found as by `run`.")
@click.option("--master", metavar="URL", help="The API server's address; overrides the kubeconfig's.")
@click.option("--config", "config_file", metavar="FILE", help="The profiles; without it, the default one.")
@click.option("--cases", metavar="FILE", help="Evaluate many small clusters, one JSON object a line; .gz is unpacked.")
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Processes for --cases. [default: one per CPU]")
@click.option("--top", type=click.IntRange(1), default=5, show_default=True, help="How many of the best nodes to show.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "jsonl"]),
    help="Form of the output. [default: table; jsonl with --cases]",
)
@block_option
@feature_gates_option
def command(  # noqa: PLR0913, PLR0917 - one for each flag, handed over by name
    pod: str | None,
    filename: str | None,
    namespace: str,
    objects: tuple[str, ...],
    kubeconfig: str | None,
    master: str | None,
    config_file: str | None,
    cases: str | None,
    workers: int | None,
    top: int,
    output: str | None,
    blocked: tuple[str, ...],
    feature_gates: str,
) -> None:
    """Say where a pod would go, and why not elsewhere.

    For a pod that exists, give its name; for one that does not, its manifest. The cluster is read once, from an API
    server or from files; nothing is bound, and nothing is written. Every node is looked at and every plugin's scores
    are shown, whatever percentageOfNodesToScore says.

    \b
    Why is this pod pending, where would that one go, and what if the cluster were like this:
      pyscheduler explain --kubeconfig ~/.kube/config web/frontend-0
      pyscheduler explain -f pod.yaml
      pyscheduler explain -f pod.yaml --objects cluster.yaml -o json
    """
    if cases is not None:
        if pod or filename or objects:
            raise click.UsageError("--cases brings its own pods and clusters; take out POD, --filename and --objects")
        if output not in {None, "jsonl"}:
            raise click.UsageError("--cases prints -o jsonl and nothing else")
        sys.exit(_explain_cases(cases, workers))
    if bool(pod) == bool(filename):
        raise click.UsageError("give the name of a pod of the cluster, or a manifest with --filename, and not both")
    if objects and (kubeconfig or master):
        raise click.UsageError("the cluster comes from --objects or from an API server, not both")
    space, _, name = (pod or "").rpartition("/")
    question = _Question(
        namespace=space or namespace,
        name=name,
        file=filename,
        objects=objects,
        kubeconfig=kubeconfig,
        master=master,
        config_file=config_file,
        feature_gates=feature_gates,
        blocked=blocked,
    )
    found, notes = asyncio.run(_explain(question))
    _show(found, notes, output or "table", top)


def _show(found: Sequence[Evaluation], notes: Sequence[str], output: str, top: int) -> None:
    if output == "table":
        from pyscheduler.cli.explain_view import show

        for note in notes:
            click.echo(f"note: {note}", err=True)
        for number, each in enumerate(found):
            if number:
                click.echo()
            show(each, top=top)
        return
    import msgspec

    from pyscheduler.simulation.answers import explained

    for note in notes:
        click.echo(f"note: {note}", err=True)
    data = [explained(each) for each in found]
    if output == "jsonl":
        for one in data:
            click.echo(msgspec.json.encode(one).decode())
    else:
        click.echo(msgspec.json.format(msgspec.json.encode(data[0] if len(data) == 1 else data)).decode())


# --- one pod -------------------------------------------------------------------------------------


async def _explain(question: _Question) -> tuple[list[Evaluation], list[str]]:
    """Read the cluster and evaluate; return what was found, and what its reader should know."""
    from pyscheduler.cluster.object_sources import live_objects, manifest_objects
    from pyscheduler.cluster.readonly_cluster import ReadOnlyCluster
    from pyscheduler.config.feature_gates import parse
    from pyscheduler.config.load import load
    from pyscheduler.framework.clock import LoopClock

    clock = LoopClock()
    notes: list[str] = []
    config = load(question.config_file, gates=parse(question.feature_gates))
    if question.objects:
        manifests = [one for file in question.objects for one in _manifests(file)]
        read = manifest_objects(manifests, source=", ".join(question.objects))
        if config.extenders:
            notes.append("the extenders of the configuration are not asked about a cluster that stands in files")
            config = _without_verbs(config)
        return await _evaluate_all(question, config, ReadOnlyCluster(read), read, clock, notes), notes
    import random

    from pyscheduler.cluster.real import auth
    from pyscheduler.cluster.real.http import HTTPTransport
    from pyscheduler.cluster.real.startup_check import check_server
    from pyscheduler.framework.recorder import NullRecorder
    from pyscheduler.scheduler.ports import ClientSettings

    transport = HTTPTransport(await auth.find(kubeconfig=question.kubeconfig, master=question.master))
    try:
        await check_server(transport)
        client = transport.connect(ClientSettings(qps=-1), clock=clock, rng=random.Random(0), recorder=NullRecorder())
        unread: list[str] = []
        texts: dict[str, bytes] = {}

        def keep(item: KubeObject, text: bytes) -> None:
            texts[item.uid] = text

        read = live_objects(client, unread=unread, keep=keep if config.extenders else None)
        cluster = ReadOnlyCluster(read, extender=transport.extender, texts=texts)
        found = await _evaluate_all(question, config, cluster, read, clock, notes)
        notes += [f"{plural} may not be read with these credentials, and count as absent" for plural in unread]
        return found, notes
    finally:
        await transport.close()


async def _evaluate_all(
    question: _Question, config: Configuration, cluster: ReadOnlyCluster, read: Read, clock: Clock, notes: list[str]
) -> list[Evaluation]:
    import random

    from pyscheduler.cli.mistakes import found_in
    from pyscheduler.config.feature_gates import parse
    from pyscheduler.framework.errors import ConfigError
    from pyscheduler.runtime.discovery import discover
    from pyscheduler.scheduler.assembly import Settings, build

    gates = parse(question.feature_gates)
    with found_in(question.config_file):
        scheduler = build(
            config,
            cluster,
            clock,
            random.Random(0),
            registry=discover(blocked=question.blocked),
            settings=Settings(feature_gates=gates),
        )
    try:
        await scheduler.start()
        if question.file is None:
            pod = scheduler.pods.get(question.name, question.namespace)
            if pod is None:
                raise ConfigError(f"there is no pod {question.namespace}/{question.name}, or it has ended")
            return [await _evaluated(scheduler, pod, notes)]
        pods = await _pods_of(question.file, read, clock)
        return [await _evaluated(scheduler, pod, notes) for pod in pods]
    finally:
        if scheduler.extenders is not None:
            await scheduler.extenders.close()


def _without_verbs(config: Configuration) -> Configuration:
    """Return the configuration with extenders that are never asked; what they keep account of stays their business."""
    silent = [
        attrs.evolve(one, filter_verb="", prioritize_verb="", preempt_verb="", bind_verb="") for one in config.extenders
    ]
    return attrs.evolve(config, extenders=tuple(silent))


async def _evaluated(scheduler: Scheduler, pod: Pod, notes: list[str]) -> Evaluation:
    from pyscheduler.scheduler.evaluation import evaluate

    if pod.node_name:
        notes.append(f"{pod.key} is bound to {pod.node_name}; this is as if it were not there yet")
        scheduler.cache.remove_pod(pod)
        pod = pod.with_node_name("")
    return await evaluate(scheduler, _profile_for(scheduler, pod, notes), pod)


def _profile_for(scheduler: Scheduler, pod: Pod, notes: list[str]) -> Profile:
    """Return the pod's profile; the first one for a pod that names none of ours."""
    profile = scheduler.profiles.get(pod.scheduler_name)
    if profile is None:
        profile = next(iter(scheduler.profiles.values()))
        notes.append(
            f"{pod.key} is for {pod.scheduler_name}, which no profile here is named; this is what {profile.name} says"
        )
    return profile


async def _pods_of(file: str, read: Read, clock: Clock) -> list[Pod]:
    """Return the pods of a manifest, as the API server of the cluster would store them."""
    from pyscheduler.api import PriorityClass, kind_of
    from pyscheduler.cluster.object_sources import admit
    from pyscheduler.framework.errors import ConfigError

    wanted = _manifests(file)
    for one in wanted:
        if one["kind"] != "Pod":
            text = f"a {one['kind']} is not placed itself; give the pods that it makes"
            raise ConfigError(text, source=file)
    classes = [
        one
        for one in await read(kind_of(PriorityClass, "priorityclasses", namespaced=False))
        if isinstance(one, PriorityClass)
    ]
    try:
        return [admit(one, classes, clock=clock) for one in wanted]
    except ConfigError as error:
        raise ConfigError(*error.problems, source=file) from error


def _manifests(file: str) -> list[dict[str, Any]]:
    from pyscheduler.cluster.object_sources import read_manifests
    from pyscheduler.framework.errors import ConfigError

    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise ConfigError((error.strerror or str(error)).lower(), source=file) from error
    return read_manifests(text, source="standard input" if file == "-" else file)


# --- many cases ----------------------------------------------------------------------------------


def _explain_cases(file: str, workers: int | None) -> int:
    """Print an answer per line of the file; return the exit code: 1 where one could not be evaluated."""
    import msgspec

    from pyscheduler.simulation.cases import answer_file

    failed = False
    for answer in answer_file(file, workers=workers):
        failed = failed or bool(answer.error)
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()
    return int(failed)

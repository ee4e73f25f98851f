"""`pyscheduler explain`: show where a pod would be placed, or why no node fits, without binding or writing anything.

`explain job NAME` is carried out by the Python package that added the word `job` (see `added_commands`). The module
`case_file` carries out `--cases`.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import click

from pyscheduler.cli.explain_options import ExplainOptions
from pyscheduler.cli.shared_options import block_option, feature_gates_option
from pyscheduler.cli.terminal import echo, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from kube_objects.clock import Clock
    from pyscheduler.api import KubeObject, Pod
    from pyscheduler.cli.explanation import Explanation
    from pyscheduler.cluster.object_sources import Read
    from pyscheduler.cluster.readonly_cluster import ReadOnlyCluster
    from pyscheduler.config.types import Configuration
    from pyscheduler.framework.plugin_failures import PluginFailure
    from pyscheduler.scheduler.evaluation import Evaluation
    from pyscheduler.scheduler.ports import ClusterClient
    from pyscheduler.scheduler.scheduler import Scheduler

    #: A workload has no evaluation.
    _Explained: TypeAlias = tuple[Evaluation | None, Explanation]

__all__ = ["command"]

#: A name may begin with the kind, as for kubectl.
_POD_KINDS: Final = ("pod/", "pods/", "po/")
#: The words of `explain job NAME`, and the first of them.
_SUBJECT_WORDS: Final = 2
_JOB: Final = "job"
#: The exit code if a pod's condition says something else than the evaluation.
_CONTRADICTION: Final = 3


@click.command("explain")
@click.argument("pods", metavar="[POD | KIND/NAME | job JOB]", nargs=-1)
@click.option("-f", "--filename", metavar="FILE", help="Manifest of the pod; - reads standard input.")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of POD.")
@click.option(
    "--objects",
    multiple=True,
    metavar="FILE",
    help="Read the cluster from this file, as `kubectl get nodes,pods -A -o yaml` prints it; repeatable.",
)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Read the cluster from the API server of this kubeconfig. [default: as for `run`]",
)
@click.option("--master", metavar="URL", help="Address of the API server; overrides the kubeconfig's.")
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="Configuration file with the profiles. [default: the leader's configuration, or else the default profile]",
)
@click.option(
    "--scheduler",
    envvar="PYSCHEDULER_URL",
    metavar="URL",
    help="HTTPS port of the scheduler that leads, for its configuration and the pod's story. "
    "[default: $PYSCHEDULER_URL, or the holder of the lease]",
)
@click.option(
    "--scheduler-ca",
    metavar="FILE",
    help="Authority of the scheduler's certificate. [default: none; on localhost, the certificate is not verified]",
)
@click.option(
    "--cases",
    metavar="FILE",
    help="Evaluate the pods and clusters of this file, one JSON object per line; the file may be .gz. "
    "docs/reference/cli.md has the format.",
)
@click.option(
    "--workers", type=click.IntRange(1), metavar="N", help="Number of processes for --cases. [default: one per CPU]"
)
@click.option("--top", type=click.IntRange(1), default=5, show_default=True, help="Number of best nodes to show.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "jsonl"]),
    help="Output format; wide lists the rejected nodes, too. [default: table; jsonl with --cases]",
)
@click.option("--dialect", metavar="NAME", help="With job: only jobs of this dialect, as in `pyscheduler queue`.")
@click.option("--history", is_flag=True, help="Show why the pod waited, from the logs of all replicas; needs --from.")
@click.option(
    "--from",
    "logs",
    multiple=True,
    metavar="FILE",
    help="With --history: logs of the scheduler, which may be .gz; - reads standard input; repeatable.",
)
@click.option("--traceback", is_flag=True, help="Show the traceback of each exception that a plugin raises.")
@block_option
@feature_gates_option
def command(**options: Any) -> None:
    """Show on which node a pod would be placed, and why the other nodes were rejected.

    Give the name of an existing pod, or the manifest of a new pod. The command reads the cluster once, from an API
    server or from files. It binds nothing and writes nothing. It evaluates every node, regardless of
    percentageOfNodesToScore, and shows the scores of every plugin.

    \b
    Examples:
      # A pending pod.
      pyscheduler explain --kubeconfig ~/.kube/config web/frontend-0
      # A workload: why its pods were not created, or why the first of them waits.
      pyscheduler explain -n web deployment/frontend
      # A new pod.
      pyscheduler explain -f pod.yaml
      # A new pod on a cluster in a file.
      pyscheduler explain -f pod.yaml --objects cluster.yaml -o json
      # Why a pod waited yesterday.
      kubectl -n kube-system logs -l app.kubernetes.io/name=pyscheduler --prefix --tail=-1 > logs.txt
      pyscheduler explain --history web/frontend-0 --from logs.txt
      # Why a job of a batch profile waits, as `kubectl queue explain` shows it.
      pyscheduler explain job training/resnet
    """
    given = ExplainOptions(**options)
    if given.pods and given.pods[0].startswith(_POD_KINDS):
        given = attrs.evolve(given, pods=(given.pods[0].partition("/")[2], *given.pods[1:]))
    if given.history:
        from pyscheduler.cli.history import show_history

        show_history(given)
        return
    if given.logs:
        raise click.UsageError("--from is for --history; add it, or remove --from")
    if len(given.pods) == _SUBJECT_WORDS:
        sys.exit(_explain_subject(given))
    _check(given)
    if given.cases is not None:
        sys.exit(_explain_cases(given.cases, given.workers))
    from pyscheduler.cli.leader_story import StoryOnly

    try:
        found, notes = asyncio.run(_explain(given))
    except StoryOnly as refused:
        refused.show(given.output or "table")
        return
    _show(found, notes, given.output or "table", given.top)
    if any(explanation.contradicts for _, explanation in found):
        sys.exit(_CONTRADICTION)


def _check(given: ExplainOptions) -> None:
    """Raise `UsageError` for arguments that cannot be combined."""
    if given.dialect is not None:
        raise click.UsageError("--dialect is for jobs; write job [NAMESPACE/]JOB, or remove it")
    if len(given.pods) > 1:
        raise click.UsageError("give one pod, or the word job and the name of a job")
    if given.cases is not None:
        if given.pods or given.filename or given.objects:
            raise click.UsageError("--cases contains its own pods and clusters; remove POD, --filename and --objects")
        if given.output not in {None, "jsonl"}:
            raise click.UsageError("--cases supports only -o jsonl")
        return
    if bool(given.pods) == bool(given.filename):
        raise click.UsageError("give either the name of a pod or a manifest with --filename")
    if given.objects and (given.kubeconfig or given.master):
        raise click.UsageError(
            "--objects cannot be combined with --kubeconfig or --master; choose one source of the cluster"
        )


def _source_of(given: ExplainOptions) -> str:
    """Return the words for the configuration that was used."""
    if given.source:
        return given.source
    return f"the configuration {given.config_file}" if given.config_file else "the default profile (no --config)"


def _explain_subject(given: ExplainOptions) -> int:
    """Explain what a distribution knows how to explain, such as a job; return the exit code."""
    from importlib import import_module

    from pyscheduler.cli.added_commands import added

    module, _, name = str(added("SUBJECTS").get(given.pods[0], "")).partition(":")
    if not name and given.pods[0] == _JOB:
        raise click.UsageError(
            "jobs are explained by a distribution; install it: pip install 'kube-pyscheduler[batch]'"
        )
    if not name:
        raise click.UsageError("give one pod, or the word job and the name of a job")
    found: int = getattr(import_module(module), name)(given)
    return found


def _show(found: Sequence[_Explained], notes: Sequence[str], output: str, top: int) -> None:
    for note in notes:
        first, *traceback = note.split("\n")
        for line in (f"note: {first}", *(f"  {line}" for line in traceback)):
            echo(line, err=True)
    if output in {"table", "wide"}:
        from pyscheduler.cli.explain_view import show

        for number, (each, explanation) in enumerate(found):
            if number:
                click.echo()
            show(each, explanation, top=top, wide=output == "wide")
        return
    import msgspec

    from pyscheduler.cli.explain_json import explain_json

    data = [explain_json(each, explanation) for each, explanation in found]
    if output == "jsonl":
        for one in data:
            echo(msgspec.json.encode(one).decode())
    else:
        text = msgspec.json.format(msgspec.json.encode(data[0] if len(data) == 1 else data)).decode()
        for line in text.split("\n"):
            echo(line)


# --- one pod -------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class _Source:
    """The cluster, as the command reads it."""

    #: Returns what the scheduler reads, each kind once.
    read: Read
    #: Returns kinds that the scheduler may read as other types.
    apart: Read
    clock: Clock
    #: Notes for the user.
    notes: list[str]
    #: Plurals of the kinds that may not be listed.
    unread: list[str] = attrs.Factory(list)


async def _explain(options: ExplainOptions) -> tuple[list[_Explained], list[str]]:
    """Read the cluster and evaluate the pods; return the explained evaluations, and notes for the user."""
    from kube_objects.clock import LoopClock
    from pyscheduler.api import Node, Pod
    from pyscheduler.cluster.object_sources import manifest_objects, read_once
    from pyscheduler.cluster.readonly_cluster import ReadOnlyCluster
    from pyscheduler.config.feature_gates import parse
    from pyscheduler.config.load import load

    clock = LoopClock()
    notes: list[str] = []
    config = load(options.config_file, gates=parse(options.feature_gates))
    texts: dict[str, bytes] = {}

    def keep(item: KubeObject, text: bytes) -> None:
        if isinstance(item, Node | Pod):  # extenders get them, and plugins read more fields of them
            texts[item.uid] = text

    if options.objects:
        from pyscheduler.cli.manifests import manifests_of

        manifests = [one for file in options.objects for one in manifests_of(file)]
        read = read_once(manifest_objects(manifests, source=", ".join(options.objects), keep=keep))
        if config.extenders:
            notes.append("the extenders of the configuration are not called for a cluster that is read from files")
            config = _without_verbs(config)
        cluster = ReadOnlyCluster(read, texts=texts)
        source = _Source(read=read, apart=read, clock=clock, notes=notes)
        return await _evaluate_all(options, config, cluster, source), notes
    return await _explain_live(options, config, texts, keep, notes)


async def _explain_live(
    options: ExplainOptions,
    config: Configuration,
    texts: dict[str, bytes],
    keep: Callable[[KubeObject, bytes], object],
    notes: list[str],
) -> tuple[list[_Explained], list[str]]:
    """Evaluate the pods on the cluster of an API server, with what the leader knows.

    Raises `StoryOnly` if the user may not read what an evaluation needs.
    """
    import random

    from kube_objects.clock import LoopClock
    from pyscheduler.cli.client_settings import COMMAND_CLIENT
    from pyscheduler.cli.leader_story import StoryOnly, ask_leader
    from pyscheduler.cluster.object_sources import live_objects, read_once
    from pyscheduler.cluster.readonly_cluster import ReadOnlyCluster
    from pyscheduler.cluster.real import auth
    from pyscheduler.cluster.real.http import HTTPTransport
    from pyscheduler.cluster.real.startup_check import check_server
    from pyscheduler.framework.errors import ForbiddenError
    from pyscheduler.framework.recorder import NullRecorder

    clock = LoopClock()
    credentials = await auth.find(kubeconfig=options.kubeconfig, master=options.master)
    transport = HTTPTransport(credentials)
    try:
        await check_server(transport)
        leader = await ask_leader(options, credentials, transport, config)
        if leader.config is not None:
            config, options = leader.config, attrs.evolve(options, source=leader.source)
        elif leader.why_no_config:
            notes.append(f"the default profile is used: {leader.why_no_config}")

        def connect() -> ClusterClient:
            return transport.connect(COMMAND_CLIENT, clock=clock, rng=random.Random(0), recorder=NullRecorder())

        unread: list[str] = []
        source = _Source(
            read=read_once(live_objects(connect(), unread=unread, keep=keep)),
            apart=live_objects(connect(), unread=unread),
            clock=clock,
            notes=notes,
            unread=unread,
        )
        cluster = ReadOnlyCluster(source.read, extender=transport.extender, texts=texts)
        try:
            found = await _evaluate_all(options, config, cluster, source)
        except ForbiddenError as error:
            raise StoryOnly(leader, error) from error
        found = [(each, leader.joined(each, explanation)) for each, explanation in found]
        notes += [
            f"these credentials may not list {plural}; the evaluation assumes that there are none"
            for plural in dict.fromkeys(unread)
        ]
        return found, notes
    finally:
        await transport.close()


async def _evaluate_all(
    options: ExplainOptions, config: Configuration, cluster: ReadOnlyCluster, source: _Source
) -> list[_Explained]:
    import random

    from pyscheduler.api import Pod
    from pyscheduler.config.feature_gates import parse
    from pyscheduler.config.problems import found_in
    from pyscheduler.runtime.assembly.discovery import discover
    from pyscheduler.scheduler.assembly import Settings, build

    gates = parse(options.feature_gates)
    with found_in(options.config_file):
        scheduler = build(
            config,
            cluster,
            source.clock,
            random.Random(0),
            registry=discover(blocked=options.blocked),
            settings=Settings(feature_gates=gates),
        )
    scheduler.plugin_failures.logs = False  # the notes tell about each
    failures: list[PluginFailure] = []
    scheduler.plugin_failures.listeners.append(failures.append)
    try:
        await scheduler.start()
        if options.filename:
            pods = await _pods_of(options.filename, source.read, source.clock)
        else:
            namespace, name = options.pod
            pod = scheduler.pods.get(name, namespace)
            if pod is None:
                workload = await _workload(options, scheduler, source)
                if not isinstance(workload, Pod):
                    return [(None, workload)]
                pod = workload
            pods = [pod]
        found = [await _evaluated(scheduler, pod, options, config, source) for pod in pods]
        source.notes.extend(_failure_notes(failures, {pod.key for pod in pods}, with_traceback=options.traceback))
        return found
    finally:
        if scheduler.extenders is not None:
            await scheduler.extenders.close()


async def _workload(given: ExplainOptions, scheduler: Scheduler, source: _Source) -> Explanation | Pod:
    """Return why the pods of the named workload could not be created, or the first of its pods that waits.

    Raises `ConfigError` if there is neither a pod nor a workload of this name, or if all pods have a node.
    """
    from pyscheduler.cli.workloads import find_workload, kind_called
    from pyscheduler.framework.errors import ConfigError

    word, _, name = given.pods[0].rpartition("/")
    kind = kind_called(word)
    namespace = given.namespace if kind or not word else word
    found = await find_workload(kind, name, namespace, source.apart, scheduler.pods)
    if found is None:
        what = kind or "pod"
        raise ConfigError(f"{what} {namespace}/{name} does not exist" + ("" if kind else ", or it has terminated"))
    if found.failure is not None:
        return found.failure
    waiting = [pod for pod in found.pods if not pod.node_name]
    if not waiting:
        raise ConfigError(f"{found.kind} {found.key}: no pod waits; {len(found.pods)} have a node")
    count = f"{len(waiting)} of {len(found.pods)} pods"
    source.notes.append(f"{count} of {found.kind} {found.key} wait; this is {waiting[0].key}")
    return waiting[0]


def _failure_notes(failures: Iterable[PluginFailure], pods: Collection[str], *, with_traceback: bool) -> Iterable[str]:
    """Return a note for each failure of a plugin, once for failures that read the same.

    When the cluster is read, plugins see all pending pods; their failures for other pods are left out.
    """
    notes: dict[str, None] = {}
    for failure in failures:
        if failure.pod and failure.pod not in pods:
            continue
        text = printable(str(failure))
        if failure.frames is None:
            notes[text] = None
        elif with_traceback:
            notes[f"{text}\n{failure.traceback.rstrip()}"] = None
        else:
            notes[f"{text}; --traceback shows more"] = None
    return notes


def _without_verbs(config: Configuration) -> Configuration:
    """Return the configuration with extenders that are never called; the resources that they manage stay theirs."""
    silent = [
        attrs.evolve(one, filter_verb="", prioritize_verb="", preempt_verb="", bind_verb="") for one in config.extenders
    ]
    return attrs.evolve(config, extenders=tuple(silent))


async def _evaluated(
    scheduler: Scheduler, pod: Pod, options: ExplainOptions, config: Configuration, source: _Source
) -> _Explained:
    from pyscheduler.cli.disruption import disruption_steps
    from pyscheduler.cli.explanation import explanation_of
    from pyscheduler.cli.job_steps import PodQuestion, job_steps
    from pyscheduler.framework.work_sources import WorkSourcePlugin
    from pyscheduler.scheduler.evaluation import evaluate

    notes = source.notes
    is_stored = scheduler.pods.get(pod.name, pod.namespace) is not None
    is_bound = bool(pod.node_name)
    evicted = await disruption_steps(pod, source.read, scheduler.pods)
    if is_bound:
        notes.append(f"{pod.key} is bound to {pod.node_name}; it is evaluated as if it were not bound yet")
        scheduler.cache.remove_pod(pod)
        pod = pod.with_node_name("")
    profile = scheduler.profiles.get(pod.scheduler_name) or next(iter(scheduler.profiles.values()))
    found = await evaluate(scheduler, profile, pod, reserve=True, miss_notes=notes)
    job = None
    if is_stored and not is_bound:
        question = PodQuestion(
            pod=pod,
            profile=profile,
            scheduler=scheduler,
            read=source.read,
            unread=source.unread,
            config=config,
            options=options,
        )
        job = await job_steps(question, notes)
    if job is None:
        sources = (plugin for plugin in profile.plugins.values() if isinstance(plugin, WorkSourcePlugin))
        notes += filter(None, (plugin.note_of_single_pod(profile.name, pod) for plugin in sources))
    if profile.name != pod.scheduler_name and (job is None or not job.assumed):
        notes.append(
            f"no profile has the schedulerName {pod.scheduler_name} of {pod.key}; profile {profile.name} is used"
        )
    waits = is_stored and not is_bound
    explained = explanation_of(found, _source_of(options), [*scheduler.profiles], waits=waits, job=job)
    return found, attrs.evolve(explained, steps=[*evicted, *explained.steps])


async def _pods_of(file: str, read: Read, clock: Clock) -> list[Pod]:
    """Return the pods of a manifest with the defaults that the API server would fill in."""
    from pyscheduler.api import PriorityClass, kind_of
    from pyscheduler.cli.manifests import manifests_of
    from pyscheduler.cluster.object_sources import admit
    from pyscheduler.framework.errors import ConfigError

    wanted = manifests_of(file)
    for one in wanted:
        if one["kind"] != "Pod":
            text = f"a {one['kind']} cannot be scheduled; give the manifests of its pods"
            raise ConfigError(text, source=file)
    classes = [
        one
        for one in await read(kind_of(PriorityClass, "priorityclasses", namespaced=False))
        if isinstance(one, PriorityClass)
    ]
    try:
        return admit(wanted, classes, clock=clock)
    except ConfigError as error:
        raise ConfigError(*error.problems, source=file) from error


# --- many cases ----------------------------------------------------------------------------------


def _explain_cases(file: str, workers: int | None) -> int:
    """Print one answer for each line of the file; return the exit code, 1 if a case could not be evaluated."""
    import msgspec

    from pyscheduler.cli.case_file import answer_file
    from pyscheduler.cli.error_output import print_line

    failed = False
    for answer in answer_file(file, workers=workers):
        failed = failed or bool(answer.error)
        print_line(msgspec.json.encode(answer))
    return int(failed)

"""Evaluate pods for `pyscheduler explain`: read the cluster once, build the scheduler on it, and ask the leader.

Nothing is written. The cluster comes from an API server or from files. The configuration comes from a file or from the
leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs

from pyscheduler.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from kube_objects.clock import Clock
    from pyscheduler.api import KubeObject, Pod
    from pyscheduler.cli.explain_options import ExplainOptions
    from pyscheduler.cli.explanation import Explanation
    from pyscheduler.cluster.object_sources import Read
    from pyscheduler.cluster.readonly_cluster import ReadOnlyCluster
    from pyscheduler.config.types import Configuration
    from pyscheduler.framework.plugin_failures import PluginFailure
    from pyscheduler.scheduler.evaluation import Evaluation
    from pyscheduler.scheduler.ports import ClusterClient
    from pyscheduler.scheduler.scheduler import Scheduler

    #: A workload has no evaluation.
    Explained: TypeAlias = tuple[Evaluation | None, Explanation]

__all__ = ["explain_pods"]


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


async def explain_pods(options: ExplainOptions) -> tuple[list[Explained], list[str]]:
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
) -> tuple[list[Explained], list[str]]:
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
) -> list[Explained]:
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
) -> Explained:
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


def _source_of(given: ExplainOptions) -> str:
    """Return the words for the configuration that was used."""
    if given.source:
        return given.source
    return f"the configuration {given.config_file}" if given.config_file else "the default profile (no --config)"

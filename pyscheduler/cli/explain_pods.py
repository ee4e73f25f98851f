"""Evaluate pods for `pyscheduler explain`: read the cluster's objects once, and give them to a scheduler in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import attrs

from pyscheduler.cli.explanation import Answer
from pyscheduler.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

    from kube_objects.clock import Clock
    from pyscheduler.api import KubeObject, Pod
    from pyscheduler.cli.explain_options import ExplainOptions
    from pyscheduler.cli.leader_story import LeaderFacts
    from pyscheduler.cli.workloads import Waiting
    from pyscheduler.cluster.object_sources import Read
    from pyscheduler.cluster.readonly_cluster import ReadOnlyCluster
    from pyscheduler.config.types import Configuration
    from pyscheduler.framework.errors import PySchedulerError
    from pyscheduler.framework.plugin_failures import PluginFailure
    from pyscheduler.scheduler.ports import ClusterClient
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["Answers", "explain_pods"]

T = TypeVar("T")


@attrs.define(kw_only=True)
class Answers:
    """The answers about all pods, notes for the user, and mistakes that concern one of several pods."""

    found: list[Answer] = attrs.Factory(list)
    notes: list[str] = attrs.Factory(list)
    mistakes: list[PySchedulerError] = attrs.Factory(list)


@attrs.frozen(kw_only=True)
class _Source:
    """The cluster, as the command reads it."""

    #: Returns what the scheduler reads, each kind once.
    read: Read
    #: Returns kinds that the scheduler may read as other types.
    apart: Read
    clock: Clock
    answers: Answers = attrs.Factory(Answers)
    #: The resources that may not be listed.
    unread: list[str] = attrs.Factory(list)
    #: None if the cluster is in files.
    leader: LeaderFacts | None = None

    @property
    def notes(self) -> list[str]:
        """Notes for the user."""
        return self.answers.notes


async def explain_pods(options: ExplainOptions) -> Answers:
    """Read the cluster and evaluate the pods.

    Raises `ConfigError` for a mistake, unless it concerns one of several pods.
    """
    from kube_objects.clock import LoopClock
    from pyscheduler.api import Node, Pod
    from pyscheduler.cluster.object_sources import read_once
    from pyscheduler.cluster.readonly_cluster import ReadOnlyCluster
    from pyscheduler.config.feature_gates import parse
    from pyscheduler.config.load import load

    config = load(options.config_file, gates=parse(options.feature_gates))
    texts: dict[str, bytes] = {}

    def keep(item: KubeObject, text: bytes) -> None:
        if isinstance(item, Node | Pod):  # extenders get them, and plugins read more fields of them
            texts[item.uid] = text

    if options.objects:
        from pyscheduler.cli.manifests import manifests_of
        from pyscheduler.cluster.manifest_objects import manifest_objects

        manifests = [one for file in options.objects for one in manifests_of(file)]
        read = read_once(manifest_objects(manifests, source=", ".join(options.objects), keep=keep))
        source = _Source(read=read, apart=read, clock=LoopClock())
        if config.extenders:
            source.notes.append(
                "the extenders of the configuration are not called for a cluster that is read from files"
            )
            config = _without_verbs(config)
        await _evaluate_all(options, config, ReadOnlyCluster(read, texts=texts), source)
        return source.answers
    return await _explain_live(options, config, texts, keep)


async def _explain_live(
    options: ExplainOptions,
    config: Configuration,
    texts: dict[str, bytes],
    keep: Callable[[KubeObject, bytes], object],
) -> Answers:
    """Evaluate the pods on the cluster of an API server, with what the leader knows.

    If the user may not read what an evaluation needs, the answers are what the namespace and the leader say.
    """
    import random

    from kube_objects.clock import LoopClock
    from pyscheduler.cli.client_settings import COMMAND_CLIENT
    from pyscheduler.cli.leader_story import ask_leader
    from pyscheduler.cli.namespace_answers import NamespaceReader
    from pyscheduler.cluster.object_sources import live_objects, read_once
    from pyscheduler.cluster.readonly_cluster import ReadOnlyCluster
    from pyscheduler.cluster.real import auth
    from pyscheduler.cluster.real.http import HTTPTransport
    from pyscheduler.cluster.real.startup_check import check_server
    from pyscheduler.framework.errors import ConfigError, ForbiddenError
    from pyscheduler.framework.recorder import NullRecorder

    clock = LoopClock()
    credentials = await auth.find(kubeconfig=options.kubeconfig, master=options.master)
    options = attrs.evolve(options, namespace=options.namespace or credentials.namespace)
    transport = HTTPTransport(credentials)
    try:
        await check_server(transport)
        leader = await ask_leader(options, credentials, transport, config)

        def connect() -> ClusterClient:
            return transport.connect(COMMAND_CLIENT, clock=clock, rng=random.Random(0), recorder=NullRecorder())

        unread: list[str] = []
        source = _Source(
            read=read_once(live_objects(connect(), unread=unread, keep=keep)),
            apart=read_once(live_objects(connect(), unread=unread)),
            clock=clock,
            unread=unread,
            leader=leader,
        )
        if leader.config is not None:
            config = leader.config
            options = attrs.evolve(options, source=leader.source, left_out=leader.left_out)
        cluster = ReadOnlyCluster(source.read, extender=transport.extender, texts=texts)
        try:
            await _evaluate_all(options, config, cluster, source)
        except ForbiddenError as error:
            if options.filename:
                raise ConfigError(f"nothing can be evaluated: {error}") from error
            reader = NamespaceReader(
                options=options,
                leader=leader,
                client=connect(),
                read=source.apart,
                unread=unread,
                notes=source.notes,
                refusal=error,
                now=clock.wall(),
            )
            unread.clear()
            await _ask_each(options.pods, reader.answer, source.answers)
            remark = "what they say is not known"
        else:
            remark = "what depends on them is unknown"
            if leader.why_no_config:
                source.notes.insert(0, f"the default profile is used: {leader.why_no_config}")
        source.notes.extend(f"these credentials may not list {name}; {remark}" for name in dict.fromkeys(unread))
        return source.answers
    finally:
        await transport.close()


async def _ask_each(items: Sequence[T], ask: Callable[[T], Awaitable[Answer]], answers: Answers) -> None:
    """Collect an answer for each item, and the mistakes; raise a mistake if there is one item only.

    An error of the connection or of the permissions concerns all items, so it is raised.
    """
    from pyscheduler.framework.errors import APIError, PySchedulerError, TransportError

    for item in items:
        try:
            answers.found.append(await ask(item))
        except (APIError, TransportError):
            raise
        except PySchedulerError as error:
            if len(items) == 1:
                raise
            answers.mistakes.append(error)


async def _evaluate_all(
    options: ExplainOptions, config: Configuration, cluster: ReadOnlyCluster, source: _Source
) -> None:
    """Evaluate the pods that the options name."""
    import random

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
    scheduler.plugin_failures.logs = False  # the notes have each
    failures: list[PluginFailure] = []
    scheduler.plugin_failures.listeners.append(failures.append)
    try:
        await scheduler.start()

        async def evaluated(pod: Pod) -> Answer:
            return await _evaluated(scheduler, pod, options, config, source)

        async def named(argument: str) -> Answer:
            found = await _named(argument, options, scheduler, source)
            return found if isinstance(found, Answer) else found.joined(await evaluated(found.pod))

        if options.filename:
            await _ask_each(await _pods_of(options, source.read, source.clock), evaluated, source.answers)
        else:
            await _ask_each(options.pods, named, source.answers)
        pods = {each.pod for each in source.answers.found}
        source.notes.extend(_failure_notes(failures, pods, with_traceback=options.traceback))
    finally:
        if scheduler.extenders is not None:
            await scheduler.extenders.close()


async def _named(argument: str, options: ExplainOptions, scheduler: Scheduler, source: _Source) -> Answer | Waiting:
    """Return the pod of a name, the first pod that waits of a workload, or why there is none to evaluate.

    Raises `ConfigError` if there is neither a pod nor a workload of this name, or if all pods have a node.
    """
    from pyscheduler.cli.namespace_answers import gone
    from pyscheduler.cli.workloads import Waiting, subject_of, waiting_pod

    kind, namespace, name = subject_of(argument, options)
    # A namespace may have the name of a kind.
    pod = scheduler.pods.get(name, argument.rpartition("/")[0] or namespace)
    if pod is not None:
        return Waiting(pod)
    found = await waiting_pod(
        kind, name, namespace, source.apart, scheduler.pods, unread=source.unread, notes=source.notes
    )
    return found or await gone(kind, namespace, name, source.leader, unread=source.unread, notes=source.notes)


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
) -> Answer:
    """Return the evaluation of a pod with its explanation."""
    bound = pod if pod.node_name else None
    if bound is not None:
        source.notes.append(f"{pod.key} is bound to {pod.node_name}; it is evaluated as if it were not bound yet")
        scheduler.cache.remove_pod(bound)
    try:
        return await _evaluated_alone(scheduler, pod, options, config, source)
    finally:
        if bound is not None:
            scheduler.cache.add_pod(bound)  # other pods may follow


async def _evaluated_alone(
    scheduler: Scheduler, pod: Pod, options: ExplainOptions, config: Configuration, source: _Source
) -> Answer:
    """Return the evaluation of a pod that is not in the cache."""
    from pyscheduler.cli.claim_templates import template_steps
    from pyscheduler.cli.disruption import disruption_steps, victim_steps
    from pyscheduler.cli.explanation import explanation_of, placed
    from pyscheduler.cli.held_room import held_room_steps
    from pyscheduler.cli.job_steps import PodQuestion, job_steps
    from pyscheduler.cli.unread_kinds import refused_by_plugin, with_doubt
    from pyscheduler.framework.work_sources import WorkSourcePlugin
    from pyscheduler.scheduler.evaluation import evaluate

    notes = source.notes
    is_stored = scheduler.pods.get(pod.name, pod.namespace) is not None
    bound_to = pod.node_name
    waits = is_stored and not bound_to
    now = source.clock.wall()
    evicted = await disruption_steps(pod, source.read, scheduler.pods, now)
    victims = [] if bound_to else victim_steps(pod, scheduler.cache.pods_on(pod.status.nominated_node_name), now)
    if bound_to:
        pod = pod.with_node_name("")
    profile = scheduler.profiles.get(pod.scheduler_name) or next(iter(scheduler.profiles.values()))
    found = await evaluate(scheduler, profile, pod, reserve=True, miss_notes=notes)
    if not victims:
        victims = await held_room_steps(scheduler, pod, found, now)
    job = None
    if waits:
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
    left_out = options.left_out.get(pod.scheduler_name, "")
    if profile.name != pod.scheduler_name and not left_out and (job is None or not job.assumed):
        notes.append(
            f"no profile has the schedulerName {pod.scheduler_name} of {pod.key}; profile {profile.name} is used"
        )
    explained = explanation_of(
        found,
        _source_of(options),
        [*scheduler.profiles],
        waits=waits,
        job=job,
        left_out=left_out,
        is_own=bool(options.config_file or options.source),
        is_live=source.leader is not None,
    )
    last = next((row for row, step in enumerate(explained.steps) if step.name == "condition"), len(explained.steps))
    templates, create = ([], "") if bound_to else await template_steps(pod, source.read, source.unread)
    steps = [*evicted, *explained.steps[:last], *templates, *victims, *explained.steps[last:]]
    explained = attrs.evolve(explained, steps=steps, next=create or explained.next)
    explained = with_doubt(explained, found, refused_by_plugin(found, source.unread))
    if bound_to:
        explained = placed(explained, bound_to, exists=scheduler.snapshot.get(bound_to) is not None)
    if source.leader is None or not is_stored:
        return Answer(pod=pod.key, evaluation=found, explanation=explained)
    known = await source.leader.stories_of(pod.namespace, pod.name)
    explained = source.leader.joined(pod, explained, known.stories)
    if waits:
        is_own = bool(options.config_file or options.source)
        explained = source.leader.without_leader(pod, explained, known, [*scheduler.profiles], is_own=is_own)
    return Answer(pod=pod.key, evaluation=found, explanation=explained, stories=known.stories)


async def _pods_of(options: ExplainOptions, read: Read, clock: Clock) -> list[Pod]:
    """Return the pods of the manifest with the defaults that the API server would fill in."""
    from pyscheduler.api import PriorityClass, kind_of
    from pyscheduler.cli.manifests import manifests_of
    from pyscheduler.cluster.manifest_objects import admit
    from pyscheduler.framework.errors import ConfigError

    file = options.filename or ""
    wanted = manifests_of(file)
    for one in wanted:
        if one["kind"] != "Pod":
            text = f"a {one['kind']} cannot be scheduled; give the manifests of its pods"
            raise ConfigError(text, source=file)
        if options.namespace and not one["metadata"].get("namespace"):
            one["metadata"]["namespace"] = options.namespace
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

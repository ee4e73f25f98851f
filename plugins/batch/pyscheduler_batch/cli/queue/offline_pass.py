"""Run a pass (a scheduling round over all jobs) of a batch profile on objects in memory; no object is changed."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.config.forms import placed_in_file
from pyscheduler.config.problems import found_in
from pyscheduler.framework.diagnosis import Diagnosis, FitError
from pyscheduler.framework.errors import ConfigError
from pyscheduler.framework.log_capture import configuration_warnings
from pyscheduler.framework.node_statuses import NodeStatuses
from pyscheduler_batch.batch_args import BatchArgs
from pyscheduler_batch.cli.queue.repeated_logs import without_repeated_logs
from pyscheduler_batch.model.batch_plugin import NodeUse
from pyscheduler_batch.model.decisions import DecisionKind
from pyscheduler_batch.model.tasks import TaskState
from pyscheduler_batch.sessions.assembly import sessions_of
from pyscheduler_batch.sessions.wait_texts import waiting_text
from pyscheduler_batch.sessions.waiting_reasons import reasons_of
from pyscheduler_batch.settings.batch_file import batch_profile
from pyscheduler_batch.settings.configuration import batch_args
from pyscheduler_batch.status.metrics import shares_of
from pyscheduler_batch.systems import presets, system_of, systems_by_dialect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from pyscheduler.api import Pod
    from pyscheduler.config.types import Configuration
    from pyscheduler.framework.extensions import Extensions
    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler.scheduler.evaluation import Evaluation
    from pyscheduler.scheduler.scheduler import Scheduler
    from pyscheduler_batch.cli.queue.reader import Read
    from pyscheduler_batch.model.decisions import Decision
    from pyscheduler_batch.model.tasks import Job
    from pyscheduler_batch.sessions.source import Pass, Sessions

__all__ = ["Offline", "PassResult", "Profiles", "open_offline", "profiles_for"]

BATCH: Final = "Batch"
#: The distribution that offers it.
DISTRIBUTION: Final = "kube-pyscheduler-batch"


@attrs.frozen(kw_only=True)
class Profiles:
    """A configuration with batch profiles, and how to build it."""

    config: Configuration
    #: By dialect, the schedulerName of its batch profile.
    names: Mapping[str, str]
    #: By dialect, the args of that profile.
    args: Mapping[str, BatchArgs]
    #: The dialects in which parents of queues count.
    trees: frozenset[str]
    source: str | None = None
    #: What is installed.
    registry: Registry
    gates: Mapping[str, bool]


@attrs.frozen(eq=False)
class PassResult:
    """A pass of one profile, and the sessions that ran it."""

    sessions: Sessions
    found: Pass
    #: The names of the nodes that the profile leaves to others, such as those of other node pools.
    foreign_nodes: frozenset[str] = frozenset()

    def job(self, key: str) -> Job | None:
        """Return the job of a key `namespace/name`; None if the pass did not consider it."""
        return next((job for job in self.found.session.jobs.values() if job.key == key), None)

    def reasons_of(self, job: Job) -> Mapping[str, str]:
        """Return the reasons why a job waits, as its pods say it; none for a job that does not."""
        # What is still allocated at the end of a pass was not sent to binding.
        waits = job.count((TaskState.PENDING, TaskState.PIPELINED, TaskState.ALLOCATED)) > 0
        return reasons_of(self.found.session, job) if waits else {}

    def decisions_for(self, job: Job) -> list[Decision]:
        """Return the decisions to bind or promise tasks of a job, and the evictions for it."""
        return [each for each in self.found.decisions if _claimant(each) is job]

    def reasons(self) -> dict[str, str]:
        """Return by key of a job its reasons, with their messages."""
        session, found = self.found.session, {}
        for job in session.jobs.values():
            reasons = self.reasons_of(job)
            if reasons:
                found[job.key] = waiting_text(reasons)
        return found

    def rejection(self, error: Exception) -> str:
        """Return why the filters let a pod on no node; nodes that the profile leaves to others do not count."""
        if not isinstance(error, FitError) or error.diagnosis.pre_filter_message or not self.foreign_nodes:
            return str(error)
        own = [name for name in self.found.tables.nodes.names if name not in self.foreign_nodes]
        failed = error.diagnosis.node_statuses
        statuses = NodeStatuses.from_mapping({name: status for name in own if (status := failed.get(name))})
        return str(FitError(num_all_nodes=len(own), diagnosis=Diagnosis(node_statuses=statuses)))

    def node(self, decision: Decision) -> str:
        """Return the name of the node of a decision."""
        return self.found.tables.nodes.names[decision.node]

    def shares(self) -> dict[str, dict[str, float]]:
        """Return the fair shares of queues by name and resource, without resources that are not divided."""
        found = shares_of(self.found.session)
        if found is None:
            return {}
        rows, shares, names = found
        return {
            queue: {
                name: share for name, share in zip(names, shares[row].tolist(), strict=True) if not math.isnan(share)
            }
            for queue, row in rows.items()
        }


def _claimant(decision: Decision) -> Job | None:
    return decision.by if decision.kind is DecisionKind.EVICT else decision.task.job


@attrs.frozen(eq=False)
class Offline:
    """A scheduler on a cluster that was read once."""

    scheduler: Scheduler
    profiles: Profiles
    #: How many warnings the configuration has.
    warnings: int = 0

    async def run(self, dialect: str, *, only_shares: bool = False) -> PassResult | None:
        """Run a pass for a dialect; None if no batch profile serves it. With `only_shares`, decide nothing."""
        name = self.profiles.names.get(dialect)
        sessions = next((each for each in sessions_of(self.scheduler) if each.profile.name == name), None)
        if sessions is None:
            return None
        async with self.scheduler.snapshot_access:
            found = await sessions.decide(actions=() if only_shares else None, explains=True)
        uses = {node.name: sessions.plugin.node_use(node) for node in self.scheduler.nodes}
        foreign = frozenset(name for name, use in uses.items() if use is NodeUse.NONE)
        return PassResult(sessions, found, foreign)

    async def evaluated(self, result: PassResult, pod: Pod) -> Evaluation:
        """Return the evaluation of a pod on the cluster as it is now, without evictions."""
        from pyscheduler.scheduler.evaluation import evaluate

        return await evaluate(self.scheduler, result.sessions.profile, pod, post_filter=False, miss_notes=[])

    def node_text(self, result: PassResult, pod: Pod, found: Evaluation) -> str:
        """Return what the filters say about a pod."""
        feasible = found.feasible
        names = {feasible.name(row) for row in range(len(feasible))} if feasible is not None else set()
        count = len(names - result.foreign_nodes)
        if found.fit_error is not None:
            return f"{pod.key}: {result.rejection(found.fit_error)}"
        if found.message:
            return f"{pod.key}: {found.message}"
        if not count and found.statuses is not None and found.filtered is not None:
            found.statuses.bind_names(found.filtered.name, found.filtered.index)
            error = FitError(num_all_nodes=0, diagnosis=Diagnosis(node_statuses=found.statuses))
            return f"{pod.key}: {result.rejection(error)}"
        return f"{pod.key} alone would fit on {count} node{'' if count == 1 else 's'}"


def profiles_for(
    schedulers: Mapping[str, Iterable[str]],
    *,
    registry: Registry,
    config_file: str | None = None,
    config: Configuration | None = None,
    feature_gates: str = "",
) -> Profiles:
    """Return the batch profiles of a file, or of a `config` that was read already.

    Without both, return one with the preset of each dialect in `schedulers`.

    `schedulers`: by dialect its schedulerNames, the best first. `registry`: what is installed; a file may name its
    policies and actions. Raises `ConfigError` for a file that has no batch profile, or one with a mistake.
    """
    from pyscheduler.config.feature_gates import parse
    from pyscheduler.config.load import load, loads

    gates = parse(feature_gates)
    trees = frozenset(name for name, system in systems_by_dialect().items() if system.has_queue_tree)
    if config_file is not None:
        config = load(config_file, gates=gates)
    if config is not None:
        found = _args_in(config, registry.extensions(), source=config_file)
        if not found:
            text = 'no profile enables the plugin "Batch", so no queue is served; give a file with a batch profile'
            raise ConfigError(text, source=config_file)
        return Profiles(
            config=config,
            names={dialect: name for dialect, (name, _) in found.items()},
            args={dialect: args for dialect, (_, args) in found.items()},
            trees=trees | {dialect for dialect, (_, args) in found.items() if args.has_queue_tree},
            source=config_file,
            registry=registry,
            gates=gates,
        )
    names: dict[str, str] = {}
    for dialect, known in schedulers.items():
        free = [name for name in known if name not in names.values()]
        if free:
            names[dialect] = free[0]
    args = {dialect: batch_args({"preset": dialect}, "$.pluginConfig") for dialect in names}
    config = loads(_text(names), gates=gates)
    return Profiles(config=config, names=names, args=args, trees=trees, registry=registry, gates=gates)


def _args_in(config: Configuration, extensions: Extensions, *, source: str | None) -> dict[str, tuple[str, BatchArgs]]:
    """Return by dialect the first profile whose system reads its groups: its schedulerName and args."""
    found: dict[str, tuple[str, BatchArgs]] = {}
    for index, profile in enumerate(config.profiles):
        for entry in profile.plugin_config:
            if entry.name == BATCH:
                said = entry.args if isinstance(entry.args, Mapping) else {}
                with found_in(source), placed_in_file(config):
                    args = batch_args(
                        said,
                        f"$.profiles[{index}].pluginConfig[{BATCH}].args",
                        more_actions=extensions.actions,
                        more_policies=dict.fromkeys(extensions.policies),
                        presets=presets(extensions),
                    )
                dialect = system_of(args.preset, extensions).jobs.name
                found.setdefault(dialect, (profile.scheduler_name, args))
    return found


def _text(names: Mapping[str, str]) -> str:
    profiles = [batch_profile(name, {"preset": dialect}) for dialect, name in names.items()]
    return json.dumps(
        {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": profiles}
    )


@asynccontextmanager
async def open_offline(read: Read, profiles: Profiles) -> AsyncIterator[Offline]:
    """Yield a scheduler with these profiles that has read the cluster. Extenders are not called.

    Raises `ConfigError` for a configuration that cannot be built, such as one whose plugin is not installed.
    """
    from kube_objects.clock import LoopClock
    from pyscheduler.cluster.readonly_cluster import ReadOnlyCluster
    from pyscheduler.scheduler.assembly import Settings, build

    if BATCH not in profiles.registry:
        raise ConfigError(f'the plugin "{BATCH}" is not installed; run "pip install {DISTRIBUTION}"')
    config = attrs.evolve(profiles.config, extenders=())
    with without_repeated_logs():
        with found_in(profiles.source), configuration_warnings() as warnings:
            scheduler = build(
                config,
                ReadOnlyCluster(read),
                LoopClock(),
                random.Random(0),
                registry=profiles.registry,
                settings=Settings(feature_gates=profiles.gates),
            )
        await scheduler.start()
        yield Offline(scheduler, profiles, len(warnings))

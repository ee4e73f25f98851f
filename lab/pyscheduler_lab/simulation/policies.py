"""Scheduler profiles by name, such as `binpack`, for the option `--compare` of `pyscheduler simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from kube_testserver.rules.names import subdomain_problems
from pyscheduler.config.load import load, loads
from pyscheduler.config.profiles import profiles
from pyscheduler.config.types import PluginEntry
from pyscheduler.framework.errors import ConfigError
from pyscheduler.framework.profile import ExtensionPoint
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.runtime.assembly.expansion import enabled_names, expand, score_weights
from pyscheduler_batch.settings.configuration import batch_args
from pyscheduler_lab.simulation.queue_plan import QueuePlan, Team, kai_queues, volcano_queues

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyscheduler.config.types import Configuration
    from pyscheduler_lab.clusters import Cluster
    from pyscheduler_lab.traces import Job

__all__ = [
    "POLICIES",
    "Policy",
    "jobs_of_teams",
    "policy_named",
    "queue_plan",
    "score_weights_of",
    "teams_of",
    "weighted",
]

_ONE_QUEUE: Final = "jobs"
#: The team of all jobs of a trace without teams.
_ONE_TEAM: Final = "default"
_PLACE: Final = "$.pluginConfig[Batch].args"
_HEAD: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{qps: 100000, burst: 100000}}
profiles:
- schedulerName: pyscheduler-{name}
"""
_BATCH: Final = """\
  plugins: {{multiPoint: {{enabled: [{{name: Batch}}], disabled: [{{name: DefaultPreemption}}]}}}}
  pluginConfig:
  - name: Batch
    args: {args}
"""
_VOLCANO: Final = """
      preset: volcano
      actions: "{actions}"
      tiers:
      - plugins: [{first}]
      - plugins: [{{name: predicates}}, {{name: binpack}}]
"""
_BINPACK: Final = """\
  plugins:
    multiPoint: {enabled: [{name: NodeResourcesFit, weight: 10}]}
    score: {disabled: [{name: NodeResourcesBalancedAllocation}]}
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}, {name: nvidia.com/gpu, weight: 5}]
"""
_COSCHEDULING: Final = """\
  plugins:
    queueSort: {disabled: [{name: "*"}], enabled: [{name: Coscheduling}]}
    multiPoint: {enabled: [{name: Coscheduling}]}
  pluginConfig:
  - name: Coscheduling
    args:
      permitWaitingTimeSeconds: 60
      deniedPGExpirationTimeSeconds: 0
      podGroupRejectPercentage: 10
      podGroupBackoffSeconds: 0
      deadlock: {enabled: true, graceSeconds: 2, yieldLeaseSeconds: 30}
      strategy: permit
"""
_GANG: Final = """\
  plugins:
    queueSort: {disabled: [{name: "*"}], enabled: [{name: GangSort}]}
    multiPoint: {enabled: [{name: Gang}]}
  pluginConfig:
  - {name: GangSort, args: {order: gang}}
  - name: Gang
    args:
      defaultTimeout: 600s
      defaultMatchPolicy: once-satisfied
      deadlock: {enabled: true, graceSeconds: 2, yieldLeaseSeconds: 30}
      strategy: permit
"""


def _volcano(queues: str = "") -> str:
    """Return the profile with a policy of queues in the first tier.

    The first tier that offers victims decides. Above the shares, `gang` would offer what a job has beyond its minimum,
    also of queues within their share (volcano-sh/volcano#5896).
    """
    actions = "allocate, reclaim" if queues else "allocate"
    first = "{name: gang, enableReclaimable: false}, {name: conformance}" + (f", {queues}" if queues else "")
    return _BATCH.format(args=_VOLCANO.format(actions=actions, first=first))


POLICIES: Final[Mapping[str, str]] = {
    "fifo": _volcano(),
    "drf": _volcano("{name: drf, enableHierarchy: true}"),
    "proportion": _volcano("{name: proportion}"),
    "capacity": _volcano("{name: capacity}"),
    "kai": _BATCH.format(args="{preset: kai}"),
    "default": "",
    "binpack": _BINPACK,
    "coscheduling": _COSCHEDULING,
    "gang": _GANG,
}
"""The profile by name of the policy, after its `schedulerName`.

`fifo`: jobs in order of arrival; a job that does not fit is skipped. `drf`, `proportion`, `capacity`: Volcano with this
policy and the action reclaim. `kai`: KAI's actions and policies. `default`: kube-scheduler's default profile.
`binpack`: NodeResourcesFit with MostAllocated, as in `configs/bin-packing.yaml`. `coscheduling`, `gang`: the profiles
in `configs/coscheduling.yaml` and `configs/gang.yaml`. No client limit delays a binding.
"""


@attrs.frozen(kw_only=True)
class Policy:
    """A policy with its configuration, and the text that it was read from."""

    name: str
    config: Configuration
    document: str
    #: `kai` or `volcano`, the dialect of queues and groups; "" without queues.
    preset: str = ""
    #: All jobs are in one queue, in order of arrival.
    is_fifo: bool = False
    #: The queues are a tree, and need its root.
    is_tree: bool = False

    @property
    def has_queues(self) -> bool:
        """Return True if jobs are scheduled from queues."""
        return bool(self.preset)


def policy_named(name: str, *, gates: Mapping[str, bool] | None = None) -> Policy:
    """Return a policy of `POLICIES`, or that of a configuration file, which is named after the file.

    `gates`: the feature gates (default: kube-scheduler's). Raises `ConfigError` for an unknown name and for a file that
    is not usable.
    """
    if name in POLICIES:
        document = _HEAD.format(name=name) + POLICIES[name]
        config = loads(document, source=f"policy {name}", gates=gates)
        return Policy(name=name, config=config, document=document, preset=_preset(config), is_fifo=name == "fifo")
    if not name.endswith((".yaml", ".yml", ".json")) and not Path(name).is_file():
        raise ConfigError(f'no policy "{name}"; known are {", ".join(POLICIES)}, or name a configuration file')
    config = load(name, gates=gates)
    document = Path(name).read_text(encoding="utf-8")
    args = _batch_args(config)
    is_tree = args is not None and batch_args(args, _PLACE, checks_names=False).has_queue_tree
    return Policy(name=name, config=config, document=document, preset=_preset(config), is_tree=is_tree)


def weighted(policy: Policy, weights: Mapping[str, int]) -> Policy:
    """Return the policy with these weights of Score plugins, as `plugins.score` of a profile sets them."""
    first, *others = policy.config.profiles
    score = first.plugins.score
    entries = {entry.name: entry for entry in score.enabled}
    entries |= {name: PluginEntry(name, weight) for name, weight in weights.items()}
    plugins = attrs.evolve(first.plugins, score=attrs.evolve(score, enabled=tuple(entries.values())))
    profile = attrs.evolve(first, plugins=plugins)
    return attrs.evolve(policy, config=attrs.evolve(policy.config, profiles=(profile, *others)))


def score_weights_of(policy: Policy, *, blocked: Collection[str] = ()) -> Mapping[str, int]:
    """Return the weight of each Score plugin that the profile enables; raise `ConfigError` for a mistake in it.

    There are none if the policy has queues, because batch profiles place jobs by policies of their own.
    """
    registry = discover(blocked=blocked)
    spec = profiles(policy.config, registry.args_type)[0]
    classes = {name: registry.load(name) for name in enabled_names(spec)}
    problems: list[str] = []
    names = expand(spec, classes, problems, path=spec.path)[ExtensionPoint.SCORE]
    weights = score_weights(spec, classes, problems, path=spec.path)
    if problems:
        raise ConfigError(*problems, source=policy.config.source)
    return {name: weights[name] for name in names if not policy.has_queues}


def _batch_args(config: Configuration) -> Mapping[str, Any] | None:
    return next((each.raw or {} for each in config.profiles[0].plugin_config if each.name == "Batch"), None)


def _preset(config: Configuration) -> str:
    args = _batch_args(config)
    if args is None:
        return ""
    preset = args.get("preset")
    if preset not in {"kai", "volcano"}:
        raise ConfigError("a replay of the plugin Batch needs the preset kai or volcano", source=config.source)
    return str(preset)


def jobs_of_teams(jobs: Sequence[Job], *, source: str = "") -> list[Job]:
    """Return the jobs with a team each: the one team `default` if no job has one.

    Raises `ConfigError` for a team that cannot name a queue.
    """
    if not any(job.team for job in jobs):
        return [attrs.evolve(job, team=_ONE_TEAM) for job in jobs]
    odd = next((job for job in jobs if any(subdomain_problems("", job.team))), None)
    if odd is not None:
        text = f"vc of job {odd.name} is {odd.team!r}; in a comparison, it must be the name of a queue, such as vc1"
        raise ConfigError(text, source=source or None)
    return [*jobs]


def teams_of(jobs: Sequence[Job], cluster: Cluster, quotas: Mapping[str, int] | None = None) -> list[Team]:
    """Return the teams of a trace with their quotas of GPUs.

    Without quotas, the GPUs of the cluster are divided in proportion to the GPU time of the teams' jobs, or to their
    GPUs if a job has no end; each team gets at least one. Raises `ConfigError` if the quotas name other teams than the
    trace.
    """
    has_ends = not any(job.is_endless for job in jobs)
    work: dict[str, float] = {}
    for job in jobs:
        work[job.team] = work.get(job.team, 0.0) + job.gpu_count * (job.duration if has_ends else 1.0)
    if quotas is not None:
        if quotas.keys() != work.keys():
            unknown = ", ".join(name for name in quotas if name not in work)
            what = f"the trace has no team {unknown}; " if unknown else ""
            raise ConfigError(f"quota: {what}name each team of the trace once: {', '.join(sorted(work))}")
        return [Team(name=name, quota=quotas[name]) for name in sorted(work)]
    total = sum(work.values()) or 1.0
    return [Team(name=name, quota=max(round(cluster.gpus * work[name] / total), 1)) for name in sorted(work)]


def queue_plan(policy: Policy, teams: Sequence[Team], jobs: Sequence[Job]) -> QueuePlan | None:
    """Return the queues of the teams in the form of the policy; None for a policy without queues."""
    if not policy.has_queues:
        return None
    if policy.preset == "kai":
        return QueuePlan(dialect="kai", manifests=kai_queues(teams), queue_of=lambda job: job.team)
    if policy.is_fifo:
        one = Team(name=_ONE_QUEUE, quota=sum(team.quota for team in teams))
        return QueuePlan(dialect="volcano", manifests=volcano_queues([one], jobs), queue_of=lambda _: _ONE_QUEUE)
    queues = volcano_queues(teams, jobs, is_tree=policy.is_tree)
    return QueuePlan(dialect="volcano", manifests=queues, queue_of=lambda job: job.team)

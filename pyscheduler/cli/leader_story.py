"""Ask the scheduler for its configuration, and ask its leading replica why a pod waits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import attrs
import msgspec

from pyscheduler.cli.explanation import (
    HOLDS,
    INFO,
    KUBE_SCHEDULER,
    OK,
    Step,
    next_of_pod,
    pod_scheduled,
    without_place,
)
from pyscheduler.cli.leader import find_leader, why_none_leads
from pyscheduler.cli.offline_scheduler import offline_scheduler
from pyscheduler.config.feature_gates import parse
from pyscheduler.config.load import loads
from pyscheduler.framework.errors import ConfigError
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.scheduler.pod_status import WAITING_ON_PERMIT
from pyscheduler.stories.view import PodStories

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.cli.explain_options import ExplainOptions
    from pyscheduler.cli.explanation import Explanation
    from pyscheduler.cli.leader import Leader
    from pyscheduler.cluster.real.auth import Credentials
    from pyscheduler.cluster.real.http import HTTPTransport
    from pyscheduler.config.types import Configuration
    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler.stories.view import RunView, StoryView

__all__ = ["KnownStories", "LeaderFacts", "ask_leader"]

#: With three replicas, so many connections all miss the leader once in 600 times.
_MOST_REQUESTS: Final = 16
#: The reason if no replica of the scheduler leads, as in `explain --history`.
_NO_SCHEDULER: Final = "NoScheduler"
#: What happens next with a pod in a sub-queue.
_NEXT: Final = {
    "active": "the pod is tried next",
    "backoff": "the pod is retried after its backoff",
}


@attrs.frozen(kw_only=True)
class KnownStories:
    """The answer of the leader about the pods of one name."""

    stories: Sequence[StoryView] = ()
    #: The schedulerNames that the scheduler serves; empty if it gave no answer.
    served: Sequence[str] = ()
    #: Why there is no story; "" if there is one.
    why: str = ""
    #: True if the answer is that of the leader.
    is_leader: bool = False


@attrs.frozen(kw_only=True)
class LeaderFacts:
    """The leader's configuration, or the reason why there is none; and the leader, which knows the stories of pods."""

    leader: Leader
    config: Configuration | None = None
    #: Where the configuration comes from.
    source: str = ""
    #: The profiles that cannot be used here, and why; `config` is without them.
    left_out: Mapping[str, str] = attrs.field(factory=dict)
    why_no_config: str = ""
    #: Why no replica leads, by the lease; "" if one may lead.
    absent: str = ""

    async def stories_of(self, namespace: str, name: str) -> KnownStories:
        """Return the stories of the pods of a name."""
        url = self.leader.url
        path = f"/debug/story/{quote(namespace, safe='')}/{quote(name, safe='')}"
        served: Sequence[str] = ()
        for _ in range(_MOST_REQUESTS):
            answer = await self.leader.get(path)
            if answer.why:
                return KnownStories(served=served, why=answer.why)
            try:
                found = msgspec.json.decode(answer.body, type=PodStories)
            except msgspec.MsgspecError:
                return KnownStories(why=f"{url} does not answer as a scheduler")
            served = found.profiles
            if found.is_leader:
                why = "" if found.stories else f"the scheduler at {url} knows no story of pod {namespace}/{name}"
                return KnownStories(stories=found.stories, served=served, why=why, is_leader=True)
        return KnownStories(served=served, why=f"{url} is not the leader, and does not know why pods wait")

    def joined(self, pod: Pod, explanation: Explanation, stories: Sequence[StoryView]) -> Explanation:
        """Return the explanation with the story of the pod, which decides the verdict if the pod waits."""
        story = next((each for each in stories if each.uid == pod.uid and each.pending), None)
        return explanation if story is None else _joined(explanation, pod, story)

    def without_leader(
        self, pod: Pod, explanation: Explanation, known: KnownStories, served: Sequence[str], *, is_own: bool
    ) -> Explanation:
        """Return the explanation of a pod that waits, with what follows if the leader gave no answer.

        `served` are the schedulerNames of the configuration, which is that of the scheduler if `is_own`.
        """
        if known.is_leader:
            return explanation
        is_served = pod.scheduler_name in served
        is_ours = is_served or (not is_own and pod.scheduler_name != KUBE_SCHEDULER)
        if self.absent and is_ours:
            step = Step("leader", HOLDS, _NO_SCHEDULER, f"no replica leads: {self.absent}")
            rest = [*map(without_place, explanation.steps)]
            return attrs.evolve(
                explanation,
                verdict="waits",
                reason=_NO_SCHEDULER,
                steps=[*rest[:1], step, *rest[1:]],
                next="the pod is tried when a replica of the scheduler leads",
            )
        if explanation.verdict != "fits":
            return explanation
        if not is_served and not is_own:
            then = "a sure answer needs the scheduler's configuration; give the leader's --scheduler, or --config"
            return attrs.evolve(explanation, verdict="unknown", next=then)
        return attrs.evolve(explanation, next=f"{explanation.next}, if a replica leads; none has answered")


async def ask_leader(
    options: ExplainOptions, credentials: Credentials, cluster: HTTPTransport, config: Configuration
) -> LeaderFacts:
    """Find the leader, and ask it for its configuration unless --config names one.

    Raises `ConfigError` for a mistake in the options.
    """
    given, election = _lease(options.lease), config.leader_election
    leader = await find_leader(
        credentials,
        cluster,
        url=options.scheduler,
        authority=options.scheduler_ca,
        lease=given or (election.resource_namespace, election.resource_name),
    )
    facts = LeaderFacts(leader=leader) if options.config_file else await _configuration(leader, options)
    election = (facts.config or config).leader_election
    if not election.leader_elect:
        return facts
    absent = await why_none_leads(cluster, given or (election.resource_namespace, election.resource_name))
    return attrs.evolve(facts, absent=absent)


def _lease(given: str | None) -> tuple[str, str] | None:
    """Return namespace and name of `--lease`; None without it. Raises `ConfigError` for anything else."""
    if not given:
        return None
    namespace, _, name = given.partition("/")
    if not namespace or not name or "/" in name:
        raise ConfigError(f"--lease must be NAMESPACE/NAME, such as kube-system/pyscheduler, not {given!r}")
    return namespace, name


async def _configuration(leader: Leader, options: ExplainOptions) -> LeaderFacts:
    answer = await leader.get("/configz")
    if answer.why:
        return LeaderFacts(leader=leader, why_no_config=answer.why)
    source = f"{leader.url}/configz"
    gates = parse(options.feature_gates)
    try:
        config = loads(json.dumps(json.loads(answer.body)["componentconfig"]), source=source, gates=gates)
        usable, left_out = _usable(config, discover(blocked=options.blocked), gates)
    except ConfigError as error:
        why = f"the configuration of {source} cannot be used here: {_one_line(error)}"
        return LeaderFacts(leader=leader, why_no_config=why)
    except (ValueError, LookupError, TypeError):
        return LeaderFacts(leader=leader, why_no_config=f"{source} is not the configuration of a scheduler")
    where = f"the leader's configuration ({source})"
    return LeaderFacts(leader=leader, config=usable, source=where, left_out=left_out)


def _usable(
    config: Configuration, registry: Registry, gates: Mapping[str, bool]
) -> tuple[Configuration, Mapping[str, str]]:
    """Return the configuration with the profiles that can be used here, and why each other one cannot.

    Raises `ConfigError` if none can.
    """
    try:
        offline_scheduler(config, registry, gates=gates)
    except ConfigError as error:
        whole = error
    else:
        return config, {}
    usable, left_out = [], {}
    for profile in config.profiles:
        try:
            offline_scheduler(attrs.evolve(config, profiles=(profile,)), registry, gates=gates)
        except ConfigError as error:
            left_out[profile.scheduler_name] = _one_line(error)
        else:
            usable.append(profile)
    if not usable:
        raise whole
    return attrs.evolve(config, profiles=tuple(usable)), left_out


def _one_line(error: ConfigError) -> str:
    return " ".join(str(error).split())


def _joined(explanation: Explanation, pod: Pod, story: StoryView) -> Explanation:
    if not story.runs:
        step = Step("story", INFO, "", f"the scheduler has not tried the pod yet; it sees it since {story.first_seen}")
        return attrs.evolve(explanation, steps=[*explanation.steps, step])
    run = story.runs[-1]
    times = f"{run.count} time{'' if run.count == 1 else 's'}"
    parts = [f"{run.reason} since {run.first}, found {times}, last at {run.last}"]
    if run.plugins:
        parts.append(f"plugins {', '.join(run.plugins)}")
    if run.node:
        parts.append(f"node {run.node}")
    if run.others:
        parts.append(f"evicts {', '.join(run.others)}")
    if run.woken_by:
        parts.append("woken by " + ", ".join(f"{event} {count}" for event, count in run.woken_by.items()))
    text = "; ".join(parts) + (f": {run.message}" if run.message else "")
    if explanation.verdict == "waits" and explanation.reason == run.reason:
        return attrs.evolve(explanation, steps=[*explanation.steps, Step("story", INFO, "", text)])
    steps = [*map(without_place, explanation.steps), Step("story", HOLDS, run.reason, text)]
    contradicts = explanation.contradicts
    said = pod_scheduled(pod)
    if contradicts and said is not None and said[0] == run.reason:
        # The evaluation contradicts the condition, but the leader says the same.
        contradicts = False
        agreed = Step("condition", OK, "", f"PodScheduled is False: {said[0]}: {said[1]}")
        steps = [agreed if step.name == "condition" else step for step in steps]
    return attrs.evolve(
        explanation,
        verdict="waits",
        reason=run.reason,
        steps=steps,
        contradicts=contradicts,
        next=_next(pod, story, run),
    )


def _next(pod: Pod, story: StoryView, run: RunView) -> str:
    if story.queue in _NEXT and run.reason != WAITING_ON_PERMIT:
        return _NEXT[story.queue]
    known = next_of_pod(pod, run.reason, run.message, run.plugins)
    return known or "the pod is retried after an event that can change the answer"

"""Ask the leader for its configuration and for the story of a pod, and add them to an explanation.

The evaluation shows what an attempt would say now, in this process. The leader knows more: who waits at Permit, and
what failed in its own process. So if the pod waits, the reason in its story is the verdict.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import attrs
import msgspec

from pyscheduler.cli.explanation import HOLDS, INFO, OK, Step
from pyscheduler.cli.history import show_stories
from pyscheduler.cli.leader import find_leader
from pyscheduler.cli.offline_scheduler import offline_scheduler
from pyscheduler.cli.terminal import echo
from pyscheduler.config.feature_gates import parse
from pyscheduler.config.load import loads
from pyscheduler.framework.errors import ConfigError
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.scheduler.pod_status import WAITING_ON_PERMIT
from pyscheduler.stories.view import PodStories

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.api import Pod
    from pyscheduler.cli.explain_options import ExplainOptions
    from pyscheduler.cli.explanation import Explanation
    from pyscheduler.cli.leader import Leader
    from pyscheduler.cluster.real.auth import Credentials
    from pyscheduler.cluster.real.http import HTTPTransport
    from pyscheduler.config.types import Configuration
    from pyscheduler.framework.errors import ForbiddenError
    from pyscheduler.scheduler.evaluation import Evaluation
    from pyscheduler.stories.view import StoryView

__all__ = ["LeaderFacts", "StoryOnly", "ask_leader"]

#: What happens next with a pod in a sub-queue.
_NEXT: Final = {
    "active": "the pod is tried next",
    "backoff": "the pod is retried after its backoff",
    "unschedulable": "the pod is retried after an event that can change the answer",
    "gated": "the pod is scheduled when its gates are removed",
}


@attrs.frozen(kw_only=True)
class LeaderFacts:
    """The leader's configuration and the stories of one pod, or the reasons why there are none."""

    config: Configuration | None = None
    #: Where the configuration comes from.
    source: str = ""
    stories: Sequence[StoryView] = ()
    why_no_config: str = ""
    why_no_story: str = ""

    def joined(self, found: Evaluation | None, explanation: Explanation) -> Explanation:
        """Return the explanation with the story of the pod, which decides the verdict if the pod waits."""
        if found is None:
            return explanation
        story = next((each for each in self.stories if each.uid == found.pod.uid and each.pending), None)
        return explanation if story is None else _joined(explanation, found.pod, story)


class StoryOnly(Exception):  # noqa: N818 - for the user it is no error if there is a story
    """The user may not list pods or nodes, so that nothing can be evaluated."""

    def __init__(self, leader: LeaderFacts, refusal: ForbiddenError) -> None:
        super().__init__()
        self._leader = leader
        self._refusal = refusal

    def show(self, output: str) -> None:
        """Print the stories of the pod that the leader knows. Raises `ConfigError` if there are none."""
        leader = self._leader
        if not leader.stories:
            why = leader.why_no_story or "a manifest has no story"
            raise ConfigError(f"nothing can be evaluated: {self._refusal}; and there is no story of the pod: {why}")
        echo(f"note: nothing is evaluated, but the leader knows the story of the pod: {self._refusal}", err=True)
        show_stories(leader.stories[0].pod, leader.stories, output)


async def ask_leader(
    options: ExplainOptions, credentials: Credentials, cluster: HTTPTransport, config: Configuration
) -> LeaderFacts:
    """Ask the leader for its configuration, unless --config names one, and for the stories of a pod that exists.

    Raises `ConfigError` for a mistake in the options.
    """
    election = config.leader_election
    leader = await find_leader(
        credentials,
        cluster,
        url=options.scheduler,
        authority=options.scheduler_ca,
        lease=(election.resource_namespace, election.resource_name),
    )
    try:
        facts = LeaderFacts() if options.config_file else await _configuration(leader, options)
        if not options.pods:
            return facts
        stories, why = await _stories(leader, options)
        return attrs.evolve(facts, stories=stories, why_no_story=why)
    finally:
        await leader.close()


async def _configuration(leader: Leader, options: ExplainOptions) -> LeaderFacts:
    answer = await leader.get("/configz")
    if answer.why:
        return LeaderFacts(why_no_config=answer.why)
    source = f"{leader.url}/configz"
    gates = parse(options.feature_gates)
    try:
        config = loads(json.dumps(json.loads(answer.body)["componentconfig"]), source=source, gates=gates)
        offline_scheduler(config, discover(blocked=options.blocked), gates=gates)
    except ConfigError as error:
        why = f"the configuration of {source} cannot be used here: {' '.join(str(error).split())}"
        return LeaderFacts(why_no_config=why)
    except (ValueError, LookupError, TypeError):
        return LeaderFacts(why_no_config=f"{source} is not the configuration of a scheduler")
    return LeaderFacts(config=config, source=f"the leader's configuration ({source})")


async def _stories(leader: Leader, options: ExplainOptions) -> tuple[Sequence[StoryView], str]:
    answer = await leader.get("/debug/story/" + "/".join(quote(part, safe="") for part in options.pod))
    if answer.why:
        return (), answer.why
    try:
        found = msgspec.json.decode(answer.body, type=PodStories)
    except msgspec.MsgspecError:
        return (), f"{leader.url} does not answer as a scheduler"
    if not found.is_leader:
        return (), f"{leader.url} is not the leader, and does not know why pods wait"
    return found.stories, ""


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
    steps = [*map(_without_place, explanation.steps), Step("story", HOLDS, run.reason, text)]
    contradicts = explanation.contradicts
    reason, message = _condition(pod)
    if contradicts and reason == run.reason:
        # The evaluation contradicts the condition, but the leader says the same.
        contradicts = False
        agreed = Step("condition", OK, "", f"PodScheduled is False: {reason}: {message}")
        steps = [agreed if step.name == "condition" else step for step in steps]
    return attrs.evolve(
        explanation,
        verdict="waits",
        reason=run.reason,
        steps=steps,
        contradicts=contradicts,
        next=_next(story),
    )


def _without_place(step: Step) -> Step:
    """Return the step without the node on which the evaluation would place the pod."""
    return attrs.evolve(step, text=step.text.partition("; the pod would be placed on ")[0])


def _condition(pod: Pod) -> tuple[str, str]:
    for each in pod.status.conditions:
        if each.type == "PodScheduled" and each.status == "False":
            return each.reason, each.message
    return "", ""


def _next(story: StoryView) -> str:
    if story.reason == WAITING_ON_PERMIT:
        return "the pod is bound when all plugins at Permit allow it"
    return _NEXT.get(story.queue, "")

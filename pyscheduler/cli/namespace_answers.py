"""Answer `pyscheduler explain` for a user who may read only one namespace, and so cannot list the nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from kube_objects.kinds import PODS
from kube_objects.times import seconds_of
from pyscheduler.api import Pod
from pyscheduler.cli.claim_facts import claim_facts
from pyscheduler.cli.disruption import disruption_steps, is_evicted
from pyscheduler.cli.explanation import (
    GATED,
    HOLDS,
    INFO,
    NO_PROFILE,
    OK,
    Answer,
    Explanation,
    Step,
    next_of_pod,
    pod_scheduled,
)
from pyscheduler.cli.pod_facts import pod_facts
from pyscheduler.cli.podgroup.reader import CORE_EVENTS, CoreEvent
from pyscheduler.cli.workloads import is_other_kind, refused_kinds, subject_of, waiting_pod
from pyscheduler.cluster.kinds_within import within
from pyscheduler.framework.errors import ConfigError, ForbiddenError, NotFoundError
from pyscheduler.stories.record import ENDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyscheduler.api import KubeObject, ResourceKind
    from pyscheduler.cli.explain_options import ExplainOptions
    from pyscheduler.cli.leader_story import KnownStories, LeaderFacts
    from pyscheduler.cluster.object_sources import Read
    from pyscheduler.scheduler.ports import ClusterClient

__all__ = ["NamespaceReader", "gone"]


@attrs.frozen(kw_only=True)
class NamespaceReader:
    """Reads what the user may read; `refusal` says why nothing is evaluated."""

    options: ExplainOptions
    leader: LeaderFacts
    client: ClusterClient
    read: Read
    #: Grows by the resources that may not be listed.
    unread: Sequence[str]
    notes: list[str]
    refusal: ForbiddenError
    #: In seconds since the epoch.
    now: float

    async def answer(self, argument: str) -> Answer:
        """Return what is known about the pod or workload. Raises `ConfigError` if nothing is."""
        kind, namespace, name = subject_of(argument, self.options)
        pod = None if kind else await self._pod(namespace, name)
        if pod is not None:
            return await self._of_pod(pod)
        pods = await self._pods(namespace)
        found = await waiting_pod(
            kind, name, namespace, self.read, pods, unread=self.unread, notes=self.notes
        ) or await gone(kind, namespace, name, self.leader, unread=self.unread, notes=self.notes)
        return found if isinstance(found, Answer) else found.joined(await self._of_pod(found.pod))

    async def _pod(self, namespace: str, name: str) -> Pod | None:
        self.client.informer(PODS, optional=True)  # Lets the client know the kind; it is not started.
        try:
            return await self.client.get(Pod, name, namespace)
        except NotFoundError:
            return None
        except ForbiddenError as error:
            raise ConfigError(
                f"nothing can be evaluated: {self.refusal}; and the pod cannot be read: {error}; the role view in the "
                "namespace permits it"
            ) from error

    async def _pods(self, namespace: str) -> Sequence[Pod]:
        try:
            return [each for each in await self.read(within(PODS, namespace)) if isinstance(each, Pod)]
        except ForbiddenError as error:
            self.notes.append(f"the other pods of the namespace are not known: {error}")
            return ()

    async def _of_pod(self, pod: Pod) -> Answer:
        known = await self.leader.stories_of(pod.namespace, pod.name)
        has_story = any(story.uid == pod.uid for story in known.stories)
        but = ", but the leader knows the story of the pod" if has_story else ""
        self.notes.append(f"nothing is evaluated{but}: {self.refusal}")
        events = await self.read(within(CORE_EVENTS, pod.namespace))
        mine = [each for each in events if isinstance(each, CoreEvent) and each.involved_object.uid == pod.uid]
        explanation = _explanation(pod, known, self.leader.leader.url, mine)
        if pod.node_name:
            steps = await self._end(pod, known)
            explanation = attrs.evolve(explanation, steps=[*explanation.steps, *steps])
        else:
            claims = await claim_facts(pod, self.read, self.unread)
            facts = pod_facts(pod, await self._pods(pod.namespace), claims)
            explanation = attrs.evolve(explanation, steps=[*explanation.steps, *facts])
        explanation = self.leader.joined(pod, explanation, known.stories)
        return Answer(pod=pod.key, explanation=explanation, stories=known.stories)

    async def _end(self, pod: Pod, known: KnownStories) -> list[Step]:
        """Return why a pod ends on its node; nothing if it does not."""

        async def read(kind: ResourceKind) -> Iterable[KubeObject]:
            return await self.read(within(kind, pod.namespace))

        if not pod.is_terminating and not is_evicted(pod):
            return []
        last = (run for story in known.stories if story.uid == pod.uid for run in story.runs[-1:])
        heirs = [each for run in last if run.reason in ENDS for each in run.others]
        pods = await self._pods(pod.namespace)
        return await disruption_steps(pod, read, pods, self.now, heirs)


async def gone(
    kind: str, namespace: str, name: str, leader: LeaderFacts | None, *, unread: Sequence[str], notes: list[str]
) -> Answer:
    """Return the stories of a pod that does not exist any more. Raises `ConfigError` if there are none.

    `kind` is that of a workload, or "". `unread` has the resources that may not be listed.
    """
    key = f"{namespace}/{name}"
    if kind:
        raise ConfigError(f"{kind} {key} does not exist")
    text = f"pod {key} does not exist, or it has terminated"
    if is_other_kind(namespace):
        text += f"; of the kinds, only pods and workloads can be explained, and {namespace} is neither"
    known = await leader.stories_of(namespace, name) if leader is not None else None
    if known is not None and known.stories:
        notes.append(f"{text}; the leader knows its story")
        return Answer(pod=key, stories=known.stories)
    refused = refused_kinds(unread)
    if refused:
        text += f"; these credentials may not list {', '.join(refused)}, so it may be the name of a workload"
    if known is not None:
        text += f"; {known.why}; if it was a pod, the logs may know it: explain --history {key} --from FILE"
    raise ConfigError(text)


def _explanation(pod: Pod, known: KnownStories, url: str, events: Sequence[CoreEvent]) -> Explanation:
    """Return what the pod and its events say."""
    condition = pod_scheduled(pod)
    steps = [_scheduler(pod, known, url, is_unseen=condition is None)]
    if pod.spec.scheduling_gates:
        gates = ", ".join(each.name for each in pod.spec.scheduling_gates)
        steps.append(Step("gates", HOLDS, GATED, f"scheduling gates: {gates}"))
    if pod.node_name:
        steps.append(Step("node", OK, "", f"the pod is on {pod.node_name}"))
    elif condition is not None:
        why, message = condition
        node = pod.status.nominated_node_name
        promised = f"; {node} is promised to the pod" if node else ""
        steps.append(Step("condition", HOLDS, why, f"PodScheduled is False: {message}{promised}"))
    else:
        steps.append(Step("condition", INFO, "", "no scheduler has written the condition PodScheduled"))
    newest = max(events, key=lambda each: seconds_of(each.last_seen), default=None)
    if newest is not None:
        who = newest.reporting_component or newest.source.component
        count = f", {newest.count} times" if newest.count > 1 else ""
        is_known = condition is not None and newest.message == condition[1]
        message = "the message of the condition" if is_known else newest.message
        text = f"{newest.reason} of {who}, last at {newest.last_seen}{count}: {message}"
        steps.append(Step("event", INFO, "", text))
    held = next((step for step in steps if step.result == HOLDS), None)
    reason = held.reason if held is not None else ""
    message = condition[1] if condition is not None else ""
    plugins = next((story.runs[-1].plugins for story in known.stories if story.uid == pod.uid and story.runs), ())
    return Explanation(
        subject=f"pod {pod.key}, schedulerName {pod.scheduler_name}",
        verdict="placed" if pod.node_name else "waits",
        reason="" if pod.node_name else reason,
        steps=steps,
        next="" if pod.node_name or not reason else next_of_pod(pod, reason, message, plugins),
        contradicts=False,
    )


def _scheduler(pod: Pod, known: KnownStories, url: str, *, is_unseen: bool) -> Step:
    """Return the step about the pod's schedulerName."""
    name = pod.scheduler_name
    if not known.served:
        return Step("scheduler", INFO, "", f'the pod has the schedulerName "{name}"; {known.why}')
    if name in known.served:
        why = f"; {known.why}" if known.why else ""
        return Step("scheduler", OK, "", f"the scheduler at {url} serves {name}{why}")
    served = ", ".join(known.served)
    text = f'no profile of the scheduler at {url} has the schedulerName "{name}"; it serves {served}'
    is_held = is_unseen and not pod.node_name
    return Step("scheduler", HOLDS if is_held else INFO, NO_PROFILE if is_held else "", text)

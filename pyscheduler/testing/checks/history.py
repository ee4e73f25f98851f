"""Run a history (random steps on a cluster) with a plugin."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeAlias

from kube_testserver.access.authorizer import AlwaysAllow
from kube_testserver.access.rules import compile_rule
from pyscheduler.cluster.real import event_writer
from pyscheduler.framework.errors import PySchedulerError
from pyscheduler.testing.checks.answers import PluginAnswers, difference
from pyscheduler.testing.checks.observation import Observation
from pyscheduler.testing.checks.plugin_calls import observe_calls, place_of
from pyscheduler.testing.checks.probes import Probes, ProbingPipeline
from pyscheduler.testing.checks.sleeping_pods import SleepingPods
from pyscheduler.testing.checks.victims_in_turn import VictimsInTurn
from pyscheduler.testing.fake_cluster import FakeCluster
from pyscheduler.testing.plugin_errors import unbound_pods

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kube_testserver.access.attributes import Attributes
    from kube_testserver.access.authorizer import Decision
    from kube_testserver.access.users import User
    from pyscheduler.scheduler.scheduler import Scheduler
    from pyscheduler.testing.checks.coverage import Coverage
    from pyscheduler.testing.checks.findings import Finding
    from pyscheduler.testing.checks.steps import Step
    from pyscheduler.testing.checks.subject import Subject
    from pyscheduler.testing.fake_framework import FakeFramework

__all__ = ["Decisions", "decide", "observe"]

#: The longest backoff of a pod, in seconds: after it, each pod that an event woke was tried.
_BACKOFF_SECONDS: Final = 11.0

#: After each step, the state of each pod: (name, state, node, message).
Decisions: TypeAlias = "list[list[tuple[str, str, str | None, str]]]"


def observe(
    subject: Subject, history: Sequence[Step], checks: Collection[str], *, cpu_limit: float, coverage: Coverage
) -> Sequence[Finding]:
    """Run a history with the plugin and return the findings of `checks`; add its calls to `coverage`."""
    seen = Observation(plugin=subject.name, checks=checks, cpu_limit=cpu_limit, coverage=coverage)
    asyncio.run(_observe(subject, history, seen))
    return seen.findings


def decide(subject: Subject, history: Sequence[Step]) -> Decisions:
    """Run a history without observers and return the decisions after each step."""
    return asyncio.run(_decide(subject, history))


async def _observe(subject: Subject, history: Sequence[Step], seen: Observation) -> None:
    cluster = FakeCluster()
    framework = subject.framework(cluster)
    profile = subject.profile(framework)
    scheduler = framework.scheduler
    probes = Probes(profile, seen, scheduler.work.close)
    observe_calls(probes.answers.calls, profile.snapshot, seen)
    # Only the scheduler sends requests; the steps change the objects themselves.
    cluster.server.access.authorizer = _UndeclaredRequests(scheduler, seen.coverage)
    cluster.server.access.closed = True
    former = scheduler.scheduling.pipeline
    scheduler.scheduling.pipeline = ProbingPipeline(
        snapshot=former.snapshot,
        tie_break=former.tie_break,
        percentage_of_nodes_to_score=former.percentage_of_nodes_to_score,
        extenders=former.extenders,
        seen=seen,
        probes=probes,
    )
    sleeping = SleepingPods(framework, profile, probes, seen)
    victims = VictimsInTurn(framework, cluster, profile, seen)
    try:
        await framework.settle()
        for number, step in enumerate(history):
            seen.step = number
            probes.attempts = 0
            sleeping.begin_step()
            await _run(step, framework, cluster)
            if seen.wants("bind"):
                _check_bindings(framework, seen)
            if seen.findings:
                return
            if seen.wants("hints"):
                await sleeping.check()
            if seen.wants("victims") and not seen.findings:
                await victims.check()
            if seen.findings:
                return
        if seen.wants("earlier-pods"):
            _compare_with_new(subject, cluster, framework, seen)
    finally:
        await cluster.close()


def _check_bindings(framework: FakeFramework, seen: Observation) -> None:
    """Add a finding if the plugin said that it bound a pod, and did not."""
    for pod, method in unbound_pods(framework):
        if method.plugin == seen.plugin:
            what = f"for pod {pod.key}, it returned success and did not bind the pod to {pod.node_name}"
            seen.add("bind", place_of(method), what)
            return


async def _decide(subject: Subject, history: Sequence[Step]) -> Decisions:
    cluster = FakeCluster()
    framework = subject.framework(cluster)
    decisions: Decisions = []
    try:
        await framework.settle()
        for step in history:
            await _run(step, framework, cluster)
            pods = sorted(cluster.pods(), key=lambda pod: (pod.namespace, pod.name))
            results = [(pod.key, framework.result(pod.name, namespace=pod.namespace)) for pod in pods]
            decisions.append([(key, each.state, each.node, each.message) for key, each in results])
    finally:
        await cluster.close()
    return decisions


async def _run(step: Step, framework: FakeFramework, cluster: FakeCluster) -> None:
    """Run a step, and try each pod that it woke."""
    await step.run(cluster)
    await framework.settle()
    await cluster.clock.advance(_BACKOFF_SECONDS)


def _compare_with_new(subject: Subject, cluster: FakeCluster, framework: FakeFramework, seen: Observation) -> None:
    """Compare the plugin's answers with those of a new scheduler on the same cluster."""
    scheduler = framework.scheduler
    if scheduler.binding_count or scheduler.waiting_pods:
        return  # what a pod holds before it is bound, only this scheduler knows
    profile = subject.profile(framework)
    framework.nodes()
    fresh = subject.framework(cluster)
    try:
        fresh.nodes()
    except PySchedulerError:
        return
    old, new = PluginAnswers(profile, subject.name), PluginAnswers(subject.profile(fresh), subject.name)
    for pod in sorted(cluster.pods(), key=lambda pod: pod.name):
        if pod.node_name or pod.is_terminal or pod.scheduler_name != profile.name:
            continue
        first = old.about(pod, profile.snapshot.nodes)
        second = new.about(pod, subject.profile(fresh).snapshot.nodes)
        names = ("of this scheduler", "of a new scheduler on the same cluster")
        found = difference(first, second, names=names)
        if found is not None:
            place = Probes(profile, seen).place(found[0])
            seen.add("earlier-pods", place, f"for pod {pod.key}, {found[1]}")
            return


class _UndeclaredRequests(AlwaysAllow):
    """Allows every request, and notes those that the API server of a cluster would refuse.

    Neither `rbac` nor `watches` of a plugin nor the scheduler grants them.
    """

    def __init__(self, scheduler: Scheduler, coverage: Coverage) -> None:
        self._coverage = coverage
        self._rules = [
            compile_rule(
                {
                    "verbs": [*rule.verbs],
                    "apiGroups": [*rule.api_groups],
                    "resources": [*rule.resources],
                    "resourceNames": [*rule.resource_names],
                }
            )
            for rule in (*(need.rule for need in scheduler.needs()), *event_writer.RULES)
        ]

    def authorize(self, user: User, asked: Attributes, *, note: bool = False) -> Decision:
        """Allow it."""
        if asked.resource and not any(rule.allows(asked) for rule in self._rules):
            self._coverage.undeclared.add((asked.group, asked.combined, asked.verb))
        return super().authorize(user, asked, note=note)

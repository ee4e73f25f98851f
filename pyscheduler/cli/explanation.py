"""Turn the evaluation of a pod into an explanation: a table of checks, and a sentence about what the pod waits for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.profile import ExtensionPoint
from pyscheduler.scheduler.nearest_miss import said
from pyscheduler.scheduler.pod_status import WAITING_ON_PERMIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.api import Pod
    from pyscheduler.cli.job_steps import JobSteps
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.scheduler.evaluation import Evaluation
    from pyscheduler.stories.view import StoryView

__all__ = [
    "GATED",
    "HOLDS",
    "INFO",
    "KUBE_SCHEDULER",
    "NO_PROFILE",
    "OK",
    "UNKNOWN",
    "Answer",
    "Explanation",
    "Step",
    "explanation_of",
    "names_of",
    "next_of_pod",
    "placed",
    "pod_scheduled",
    "without_place",
    "words_of",
]

#: The results of a step: no objection, the step holds the pod or job, a fact that decides nothing by itself, or unknown
#: because the user may not list what the step reads.
OK: Final = "ok"
HOLDS: Final = "holds"
INFO: Final = "info"
UNKNOWN: Final = "unknown"

#: Reasons: no profile has the pod's schedulerName, and the pod has scheduling gates.
NO_PROFILE: Final = "NoProfile"
GATED: Final = "SchedulingGated"
#: The schedulerName of kube-scheduler.
KUBE_SCHEDULER: Final = "default-scheduler"
_UNSCHEDULABLE: Final = "Unschedulable"
_NO_NODE: Final = "NodeDoesNotExist"
_ERROR: Final = "SchedulerError"
_CONTRADICTION: Final = "Contradiction"
_NUMBERS: Final = re.compile(r"\d+")
#: Messages about a claim that does not exist, and its kind.
_MISSING: Final = (
    (re.compile(r'persistentvolumeclaim "([^"]+)" not found'), "PersistentVolumeClaim"),
    (re.compile(r'could not find ResourceClaim "([^"]+)"'), "ResourceClaim"),
)
#: Between the number of nodes that fit and the best node.
_PLACE: Final = "; the pod would be placed on "
#: Between the reasons of the filters and the message of PostFilter.
_END_OF_REASONS: Final = ". "


@attrs.frozen
class Step:
    """One step on the way of a pod or job to its nodes. `reason` is "" unless the step holds it."""

    name: str
    result: str
    reason: str
    text: str


@attrs.frozen(kw_only=True)
class Explanation:
    """The steps of one pod or workload in the order of the scheduler."""

    #: The pod or workload in words.
    subject: str
    #: `waits`, `fits`, or `unknown` if the user may not list enough; `placed` if the pod has a node.
    verdict: str
    #: The reason of the first step that holds the pod; "" if none does.
    reason: str
    steps: Sequence[Step]
    next: str
    #: True if the pod's condition says something else than the evaluation.
    contradicts: bool


@attrs.frozen(kw_only=True)
class Answer:
    """The answer of the command about a pod or workload."""

    #: `namespace/name` of the pod; "" for a workload.
    pod: str = ""
    #: None for a workload, and if the user may not list what an evaluation needs.
    evaluation: Evaluation | None = None
    #: None if there are only stories.
    explanation: Explanation | None = None
    #: The stories that the leader knows of the pods of this name.
    stories: Sequence[StoryView] = ()


def explanation_of(
    found: Evaluation,
    source: str,
    served: Sequence[str],
    *,
    waits: bool = True,
    job: JobSteps | None = None,
    left_out: str = "",
    is_own: bool = False,
    is_live: bool = False,
) -> Explanation:
    """Return the explanation; `source` names the configuration, `served` the schedulerNames of its profiles.

    `waits`: the pod is an object of the cluster without a node, not only a manifest. `job`: the steps of its job.
    `left_out`: why the pod's own profile cannot be used here; "" if it can. `is_own`: the configuration is that of the
    scheduler, not the default. `is_live`: the cluster has a scheduler, whose configuration may be another.
    """
    steps = [_scheduler(found, source, served, waits=waits, job=job, left_out=left_out, is_own=is_own, is_live=is_live)]
    if job is not None and job.verdict and found.pre_enqueue is None:
        steps += [*job.steps, *_rejections(found)]
    else:
        steps += [*_attempt(found), *(job.steps if job is not None else ())]
    condition = _condition(found, steps, job, is_own=is_own)
    steps += condition
    held = [step for step in steps if step.result == HOLDS]
    contradicts = any(step.reason == _CONTRADICTION for step in condition)
    reason = held[0].reason if held else ""
    nodes = f"{len(found.all_nodes)} node{'' if len(found.all_nodes) == 1 else 's'}"
    return Explanation(
        subject=f"pod {found.pod.key}, profile {found.profile.name}, {nodes}",
        verdict="waits" if held else (job.verdict if job is not None else "") or "fits",
        reason=reason,
        steps=steps,
        next=(job.next if job is not None else "") or _next(found, reason),
        contradicts=contradicts,
    )


def _scheduler(
    found: Evaluation,
    source: str,
    served: Sequence[str],
    *,
    waits: bool,
    job: JobSteps | None,
    left_out: str,
    is_own: bool,
    is_live: bool,
) -> Step:
    name = found.pod.scheduler_name
    if name in served:
        return Step("scheduler", OK, "", f"profile {name} of {source}")
    if left_out:
        text = f"profile {name} of {source} cannot be used here: {left_out}"
        assumed = job.assumed if job is not None and job.assumed else f"profile {found.profile.name} is used instead"
        return Step("scheduler", INFO, "", f"{text}; {assumed}")
    names = ", ".join(served)
    text = f'no profile of {source} has the schedulerName "{name}"; it serves {names}'
    if job is not None and job.assumed:
        return Step("scheduler", INFO, "", f"{text}; {job.assumed}")
    # A pod of a manifest, and a pod that has a node, has or may have another scheduler. A condition may be older than
    # the configuration; but kube-scheduler may run beside this scheduler, and no scheduler may use the default.
    is_unserved = waits and (
        (pod_scheduled(found.pod) is None and (is_own or not is_live)) or (is_own and name != KUBE_SCHEDULER)
    )
    return Step("scheduler", HOLDS if is_unserved else INFO, NO_PROFILE if is_unserved else "", text)


def _attempt(found: Evaluation) -> list[Step]:
    """Return the steps of an attempt, up to the first that fails."""
    if found.pre_enqueue is not None:
        return [Step("gates", HOLDS, GATED, f"{found.pre_enqueue.plugin}: {said(found.pre_enqueue)}"), *_behind(found)]
    if found.error is not None:
        return [Step("plugins", HOLDS, _ERROR, found.error.message)]
    if found.feasible is None or found.scores is None:
        return [Step("nodes", HOLDS, _UNSCHEDULABLE, found.message), *_rejections(found), *_preemption(found)]
    text = f"{len(found.feasible)} of {len(found.all_nodes)} nodes fit"
    if found.reserve is not None:
        refusal = f"{found.reserve.plugin} rejects the pod on {found.best_node}: {said(found.reserve)}"
        steps = [Step("nodes", OK, "", text), Step("reserve", HOLDS, _UNSCHEDULABLE, refusal)]
    else:
        steps = [Step("nodes", OK, "", f"{text}{_PLACE}{_place(found)}"), *_permit(found)]
    return [*steps, *_rejections(found)]


def _behind(found: Evaluation) -> list[Step]:
    """Return the steps of a pod that PreEnqueue rejects if no node would fit afterwards; none if one would."""
    later = found.ungated
    if later is None or later.fit_error is None or found.pre_enqueue is None:
        return []
    if later.pre_filter is not None and later.pre_filter.message == found.pre_enqueue.message:
        return []  # the same cause
    text = f"without this rejection: {later.message}"
    return [Step("nodes", HOLDS, _UNSCHEDULABLE, text), *_rejections(later)]


def _place(found: Evaluation) -> str:
    """Return the best node, and with how many others it shares its score."""
    assert found.scores is not None
    equal = int((found.scores.totals == found.scores.totals.max()).sum())
    others = f"one of {equal} nodes with the same score, chosen at random, such as " if equal > 1 else ""
    return f"{others}{found.best_node}"


def _permit(found: Evaluation) -> list[Step]:
    """Return the step of a pod that waits at Permit, or the one that names the plugins that were not asked."""
    if found.wait:
        node = found.pod.status.nominated_node_name
        return [Step("permit", HOLDS, WAITING_ON_PERMIT, f"{f'for {node}: ' if node else ''}{found.wait}")]
    plugins = found.profile.points[ExtensionPoint.PERMIT]
    return [Step("permit", INFO, "", f"not asked: {', '.join(plugins)}")] if plugins else []


def _rejections(found: Evaluation) -> list[Step]:
    """Return a step for each plugin that rejected nodes, and one for the nodes that PreFilter left out."""
    steps = []
    total = len(found.all_nodes)
    for miss in found.misses:
        names = f" ({', '.join(miss.examples)}{', ...' if miss.nodes > len(miss.examples) else ''})"
        parts = [f"{miss.nodes} of {total} nodes{names if miss.examples else ''}", miss.reasons, miss.text]
        steps.append(Step(miss.plugin, INFO, "", ": ".join(filter(None, parts))))
    left_out = 0
    if found.node_names is not None and not any(miss.nodes == total for miss in found.misses):
        left_out = sum(name not in found.node_names for name in names_of(found.all_nodes))
    if left_out:
        steps.append(Step("prefilter", INFO, "", f"leaves out {left_out} of {total} nodes"))
    if found.closest:
        steps.append(Step("closest", INFO, "", found.closest))
    return steps


def _preemption(found: Evaluation) -> list[Step]:
    findings = found.preemption
    if findings is None:
        return []
    if findings.refusal:
        return [Step("preemption", INFO, "", findings.refusal)]
    chosen = findings.chosen
    if chosen is None:
        return [Step("preemption", INFO, "", "no eviction of pods with a lower priority makes room")]
    text = f"evicts {', '.join(info.pod.key for info in chosen.victims)} on {chosen.node_name}"
    others = len(findings.best) - 1
    if others > 0:
        text += f"; equally good: {others} other node{'' if others == 1 else 's'}"
    if chosen.pdb_violations:
        names = ", ".join(findings.violated) or "of a plugin"
        text += f"; violates the disruption budget {names} for {chosen.pdb_violations} of them"
    return [Step("preemption", INFO, "", text)]


def names_of(nodes: Nodes) -> list[str]:
    """Return the names of all `nodes`, in their order."""
    return [nodes.name(row) for row in range(len(nodes))]


def placed(explanation: Explanation, node: str, *, exists: bool) -> Explanation:
    """Return the explanation of a pod that is bound to a node; no step of the evaluation holds it any more."""
    steps = [
        attrs.evolve(step, result=INFO if step.result == HOLDS else step.result, reason="")
        for step in explanation.steps
    ]
    if exists:
        step, then = Step("node", OK, "", f"the pod is on {node}"), f"nothing, the pod is bound to {node}"
    else:
        text = f"the pod is bound to {node}, which does not exist, so no kubelet starts it"
        step, then = Step("node", HOLDS, _NO_NODE, text), f"add the node {node}, or delete the pod"
    verdict, reason = ("placed", "") if exists else ("waits", _NO_NODE)
    return attrs.evolve(explanation, verdict=verdict, reason=reason, steps=[step, *steps], next=then, contradicts=False)


def without_place(step: Step) -> Step:
    """Return the step without the node on which the evaluation would place the pod."""
    return attrs.evolve(step, text=step.text.partition(_PLACE)[0])


def pod_scheduled(pod: Pod) -> tuple[str, str] | None:
    """Return reason and message of the condition PodScheduled, if it says that the pod has no node."""
    for each in pod.status.conditions:
        if each.type == "PodScheduled" and each.status == "False":
            return each.reason, each.message
    return None


def _condition(found: Evaluation, steps: Sequence[Step], job: JobSteps | None, *, is_own: bool) -> list[Step]:
    """Return the step that compares the steps with the pod's condition."""
    said = pod_scheduled(found.pod)
    if said is None:
        return []
    reason, message = said
    text = f"PodScheduled is False: {reason}: {message}"
    held = [step for step in steps if step.result == HOLDS]
    if held and held[0].reason == NO_PROFILE:
        return [
            Step("condition", INFO, "", f"{text}; written before by a scheduler that served the pod, or by another")
        ]
    if _differs(found, held, reason, message, job):
        cure = (
            "it may be older than the cluster is now" if is_own else "give the scheduler's configuration with --config"
        )
        text = f"{text}; but the steps above say something else; {cure}"
        return [Step("condition", HOLDS, _CONTRADICTION, text)]
    is_same = any(message == step.text for step in held)
    return [Step("condition", OK, "", f"PodScheduled says the same: {reason}" if is_same else text)]


def _differs(found: Evaluation, held: Sequence[Step], reason: str, message: str, job: JobSteps | None) -> bool:
    if job is not None and job.verdict:
        # The reasons of a job change between two passes, and `promised` waits for victims; but a job waits, or not.
        return not held and job.verdict == "starts"
    if not held:
        return True
    if held[0].reason == WAITING_ON_PERMIT:
        # The steps of a group say for whom its member waits, if no plugin of the profile is asked at Permit.
        return len(held) == 1 and not found.profile.points[ExtensionPoint.PERMIT]
    if held[0].reason != reason and reason != WAITING_ON_PERMIT:
        return True
    return held[0].name == "nodes" and words_of(held[0].text) != words_of(message)


def words_of(message: str) -> list[str]:
    """Return the reasons of a message without counts and what PostFilter said, which change with the cluster."""
    reasons = _NUMBERS.sub("", message.partition(_END_OF_REASONS)[0]).partition(":")[2]
    return sorted(part.strip(" .") for part in reasons.split(","))


def _next(found: Evaluation, reason: str) -> str:
    if reason == GATED and found.pre_enqueue is not None:
        then = next_of_pod(found.pod, reason, found.message, [found.pre_enqueue.plugin])
        if found.ungated is None or not _behind(found):
            return then
        first = "the pod is tried when its gates are removed" if found.pod.spec.scheduling_gates else then
        return f"{first}; then: {_next(found.ungated, _UNSCHEDULABLE)}"
    return next_of_pod(found.pod, reason, found.message, [miss.plugin for miss in found.misses])


def next_of_pod(pod: Pod, reason: str, message: str, plugins: Sequence[str] = ()) -> str:
    """Return what a pod waits for: an object to create, if the message names one that is missing."""
    if reason in {GATED, _UNSCHEDULABLE}:
        for pattern, kind in _MISSING:
            missing = pattern.search(message)
            if missing is not None:
                name = missing[1]
                return f"create the {kind} {name if '/' in name else f'{pod.namespace}/{name}'}"
    if reason == GATED and not pod.spec.scheduling_gates:
        return f"the pod is tried when {', '.join(plugins) or 'a plugin'} no longer keeps it out of the queue"
    return _next_of(reason, plugins)


def _next_of(reason: str, plugins: Sequence[str] = ()) -> str:
    """Return what a pod waits for; `plugins` rejected nodes."""
    if reason == NO_PROFILE:
        return "correct schedulerName, or start a scheduler that serves it"
    if reason == GATED:
        return "the pod is scheduled when its gates are removed"
    if reason == _UNSCHEDULABLE:
        names = ", ".join(filter(None, plugins))
        return f"the pod is retried after an event that can change the answer of {names or 'a plugin'}"
    if reason == _ERROR:
        return "the pod is retried after its backoff"
    if reason == WAITING_ON_PERMIT:
        return "the pod is bound when all plugins at Permit allow it"
    return "" if reason else "the pod is scheduled in its next attempt"

"""Explain why a job waits: one line for each check, with a reason code if the job fails the check.

`docs/reference/cli.md` lists the codes.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import numpy as np

from pyscheduler.api import format_time
from pyscheduler.cli.explanation import HOLDS, INFO, OK, Step
from pyscheduler.cli.unread_kinds import unknown_step
from pyscheduler_batch.cli.queue.model import WAITING, missing_pods
from pyscheduler_batch.contract import JobOrder
from pyscheduler_batch.model.amounts import amount_text, amounts_text
from pyscheduler_batch.model.axis import PODS
from pyscheduler_batch.model.build import MISSING
from pyscheduler_batch.model.decisions import DecisionKind
from pyscheduler_batch.model.tasks import ACTIVE, TaskState
from pyscheduler_batch.queue_problems import HELD, queue_text
from pyscheduler_batch.sessions.pod_facts import NO_QUEUE
from pyscheduler_batch.sessions.tables import NO_GROUP
from pyscheduler_batch.sessions.wait_texts import NOT_READY
from pyscheduler_batch.sessions.waiting_reasons import steps_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyscheduler.api import KubeObject
    from pyscheduler_batch.batch_args import BatchArgs
    from pyscheduler_batch.cli.queue.model import DialectModel, JobEntry
    from pyscheduler_batch.cli.queue.offline_pass import PassResult
    from pyscheduler_batch.contract import Action
    from pyscheduler_batch.model.axis import Amounts
    from pyscheduler_batch.model.decisions import Decision
    from pyscheduler_batch.model.plan_log import RejectedPlan
    from pyscheduler_batch.model.tasks import Job

    #: By step, reasons with their messages.
    _Reasons: TypeAlias = defaultdict[str, list[tuple[str, str]]]

__all__ = ["Explanation", "explain", "placements"]

#: The reasons of jobs that no pass considers.
NO_PROFILE: Final = "NoBatchProfile"
OTHER_POOL: Final = "OtherNodePool"
#: How many names a sentence lists.
_NAMED: Final = 5


@attrs.frozen(kw_only=True)
class Explanation:
    """The steps of one job, in the order in which they are checked."""

    job: str
    dialect: str
    queue: str
    #: `waits`, `starts` (in the next pass), `promised` (once evicted or ending pods are gone), `placed`, or `unknown`.
    verdict: str
    #: The first reason that holds the job; "" if none does.
    reason: str
    steps: Sequence[Step]


def explain(
    model: DialectModel,
    entry: JobEntry,
    result: PassResult | None,
    node_text: str = "",
    *,
    args: BatchArgs | None = None,
) -> Explanation:
    """Return the explanation of a job.

    `result`: an offline pass of the job's profile; None if no profile serves the dialect. `node_text`: what the filters
    say about a pending pod, for a job that the pass did not try on nodes. `args`: those of the profile.
    """
    job = result.job(entry.job.key) if result is not None else None
    decisions = result.decisions_for(job) if result is not None and job is not None else []
    reasons = _by_step(result, job) if result is not None and job is not None else defaultdict(list)
    steps = [_declared(model, entry), _pods(model, entry, reasons), _queue(model, entry, reasons)]
    unserved = _unserved(model, entry, result, job, args)
    if unserved is not None:
        steps.append(unserved)
    elif result is not None and job is not None and entry.job.queue_row >= 0:
        steps.append(_gates(model, entry, reasons))
        steps += _share(model, entry, result)
        steps += _line(entry, result, job)
        steps.append(_nodes(entry, result, job, decisions, reasons, node_text))
        steps.append(_evictions(entry, result, job, decisions, reasons))
    held = [step for step in steps if step.result == HOLDS]
    verdict = _verdict(entry, decisions)
    # A gang that lost a pod.
    if verdict == "placed" and held and held[0].name == "pods":
        verdict = "waits"
    if verdict == "waits":
        steps.append(_next(model, entry, held, result))
    reason = held[0].reason if held and verdict == "waits" else ""
    return Explanation(
        job=entry.job.key, dialect=model.name, queue=entry.spec.queue, verdict=verdict, reason=reason, steps=steps
    )


def unknown_job(model: DialectModel, entry: JobEntry, refused: Sequence[str]) -> Explanation:
    """Return the explanation of a job of which nothing is known, because its groups or queues may not be listed."""
    steps = [unknown_step("job", refused)]
    return Explanation(
        job=entry.job.key, dialect=model.name, queue=entry.spec.queue, verdict="unknown", reason="", steps=steps
    )


def unsure_of_nodes(found: Explanation, refused: Sequence[str]) -> Explanation:
    """Return the explanation without a rejection by plugins that read the kinds `refused`, which may not be listed."""
    steps = [
        unknown_step("nodes", refused) if refused and (step.name, step.result) == ("nodes", HOLDS) else step
        for step in found.steps
    ]
    if steps == found.steps:
        return found
    held = [step for step in steps if step.result == HOLDS]
    return attrs.evolve(
        found, steps=steps, verdict="waits" if held else "unknown", reason=held[0].reason if held else ""
    )


def _by_step(result: PassResult, job: Job) -> _Reasons:
    """Return by step why a job waits; what its policy gives the step `limits` is among `gates`, too."""
    steps = {NOT_READY: "pods", **dict.fromkeys(HELD, "gates")}
    steps |= steps_of(result.found.session, result.sessions.plugin.actions)
    found = defaultdict(list)
    for reason in result.reasons_of(job).items():
        step = steps.get(reason[0], "")
        found[step].append(reason)
        if step == "limits":
            found["gates"].append(reason)
    return found


def placements(result: PassResult, decisions: Iterable[Decision]) -> list[tuple[str, str, str]]:
    """Return what the decisions do: (`bind`, `promise` or `evict`; pod; node)."""
    words = {DecisionKind.BIND: "bind", DecisionKind.NOMINATE: "promise", DecisionKind.EVICT: "evict"}
    return [(words[each.kind], each.task.key, result.node(each)) for each in decisions]


def _unserved(
    model: DialectModel, entry: JobEntry, result: PassResult | None, job: Job | None, args: BatchArgs | None
) -> Step | None:
    """Return the step of a job that is none of the profile; None if the pass considers it."""
    if result is None or args is None:
        text = f"no batch profile serves the dialect {model.name}; give one with --config"
        return Step("session", HOLDS, NO_PROFILE, text)
    profile = result.sessions.profile.name
    pods = [task.pod for task in entry.job.tasks.values() if task.pod is not None]
    others = sorted({pod.scheduler_name for pod in pods} - {profile})
    if job is None and others:
        names = " or ".join(f'"{name}"' for name in others)
        text = f'its pods have the schedulerName {names}, but the batch profile of {model.name} is "{profile}"'
        return Step("session", HOLDS, NO_PROFILE, f"{text}; correct it, or give another --config")
    objects: list[KubeObject] = [*pods] if entry.state is None or entry.state.object is None else [entry.state.object]
    key, own = model.system.node_pool_label_of(args), args.node_pool
    pools = {item.labels.get(key, "") for item in objects} if model.system.has_pools and key else {own}
    mine = f"with {key}={own}" if own else f"without the label {key}"
    advice = "correct the label, or give another --config"
    if job is None and pools - {own}:
        theirs = f"the label {key}={min(pools - {own})}" if pools - {own, ""} else f"no label {key}"
        text = f"the job has {theirs}, but the batch profile serves jobs {mine}; {advice}"
        return Step("session", HOLDS, OTHER_POOL, text)
    if job is not None:
        return None if entry.job.queue_error or entry.spec.error else _unseen_queue(model, job, mine, advice)
    return Step("session", INFO, "", "no pod takes part in a pass") if entry.is_waiting else None


def _unseen_queue(model: DialectModel, job: Job, mine: str, advice: str) -> Step | None:
    """Return the step of a job whose queue is as it must be by itself, but not among what the profile serves."""
    if not job.queue_error or job.queue_error.partition(": ")[0] in HELD:
        return None
    # A scheduler with several dialects refuses the queues that two of them have.
    if not model.system.has_pools or job.queue_error not in {NO_QUEUE, MISSING}:
        return Step("session", HOLDS, job.queue_error, queue_text(job.queue_error, job.queue, "pod group"))
    text = f"queue {job.queue} or one above it is in another node pool; the batch profile serves queues {mine}"
    return Step("session", HOLDS, OTHER_POOL, f"{text}; {advice}")


def _verdict(entry: JobEntry, decisions: Sequence[Decision]) -> str:
    kinds = {each.kind for each in decisions}
    placed = sum(each.kind is not DecisionKind.EVICT for each in decisions)
    if _is_partial(entry, placed):
        return "waits"
    if DecisionKind.NOMINATE in kinds:
        return "promised"
    if DecisionKind.BIND in kinds:
        return "starts"
    return "waits" if entry.is_waiting or not entry.job.tasks else "placed"


def _is_partial(entry: JobEntry, placed: int) -> bool:
    """Return whether a pass places only a part of a gang: such nodes are promised, and no more."""
    return placed > 0 and entry.job.count(ACTIVE) + placed < entry.job.min_member


def _declared(model: DialectModel, entry: JobEntry) -> Step:
    spec = entry.spec
    if spec.error:
        (problem, *_) = model.problems_of(entry.job.key, "job")
        return Step("declared", HOLDS, problem.reason, "; ".join([problem.message, *spec.warnings]))
    kind = "PodGroup" if entry.state is not None else "pod without a group"
    phase = f", phase {spec.phase}" if spec.phase else ""
    disagreements = entry.state.group.disagreements if entry.state is not None else ()
    notes = [*spec.warnings, *disagreements]
    text = f"{kind} of {model.name}, minimum {spec.min_member}{phase}"
    return Step("declared", INFO if notes else OK, "", "; ".join([text, *notes]))


def _pods(model: DialectModel, entry: JobEntry, reasons: _Reasons) -> Step:
    job, missing, found = entry.job, missing_pods(model.system, entry), reasons["pods"]
    if missing:
        default = model.system.reports.too_few_pods
        reason = found[0][0] if found else default
        has_all = job.counts[TaskState.GATED] and job.count((*ACTIVE, *WAITING)) >= entry.spec.min_member
        waits = "until the gates are removed" if has_all else "for its controller to create pods"
        text = f"{'; '.join(missing)}; the job waits {waits}"
        # What a session says of sub-groups is more than which of them lack pods.
        return Step("pods", HOLDS, reason, found[0][1] if reason == "NotReady" and found else text)
    for reason, message in found:
        return Step("pods", HOLDS, reason, message)
    present = job.count((*ACTIVE, *WAITING))
    malformed = model.malformed_pods(job)
    if malformed:
        text = "; ".join(f"pod {each.name} is ignored: {each.message}" for each in malformed)
        holds = present - len(malformed) < entry.spec.min_member
        return Step("pods", HOLDS if holds else INFO, malformed[0].reason if holds else "", text)
    parts = [f"{job.count(ACTIVE)} with a node", f"{job.counts[TaskState.PENDING]} pending"]
    if job.counts[TaskState.GATED]:
        parts.append(f"{job.counts[TaskState.GATED]} with scheduling gates")
    return Step("pods", OK, "", f"{present} of minimum {entry.spec.min_member} present: {', '.join(parts)}")


def _queue(model: DialectModel, entry: JobEntry, reasons: _Reasons) -> Step:
    job, queues = entry.job, model.queues
    problems = [each for each in model.problems_of(job.key, "job") if each.reason == job.queue_error]
    if problems:
        return Step("queue", HOLDS, problems[0].reason, problems[0].message)
    for reason, message in reasons["queue"]:
        return Step("queue", HOLDS, reason, message)
    if job.queue_row < 0:
        return Step("queue", INFO, "", "not known, because the group does not exist")
    path = "/".join(queues.names[row] for row in reversed(queues.paths[job.queue_row].tolist()))
    state = model.specs[job.queue].state
    if state != "Open":
        return Step("queue", HOLDS, "QueueClosed", f"queue {path} is {state}; it accepts no new job")
    return Step("queue", OK, "", f"queue {path} is Open")


def _gates(model: DialectModel, entry: JobEntry, reasons: _Reasons) -> Step:
    """Return what the limits of queues say; the reasons are those of the pass, the amounts those of the cluster now."""
    over = _over_limits(model, entry)
    found = reasons["gates"]
    if found:
        # The amounts of `over` have units, those of a reason are what the policy computes with.
        kept = [each for each in found if not over or each not in reasons["limits"]]
        texts = [f"{reason}: {message}" if len(found) > 1 else message for reason, message in kept]
        return Step("gates", HOLDS, found[0][0], "; ".join([*texts, *over]))
    if over:
        return Step("gates", INFO, "", "; ".join(over))
    demand = {name: value for name, value in model.axis.mapping(_demand(model, entry)).items() if value}
    demand.pop(PODS, None)
    text = f"the next pods request {amounts_text(demand)}, within the limits of all queues of the path"
    return Step("gates", OK, "", text if entry.is_waiting else "no pod is pending")


def _over_limits(model: DialectModel, entry: JobEntry) -> list[str]:
    """Return by how much the next pods of a job exceed limits on its path."""
    queues, demand, texts = model.queues, _demand(model, entry), []
    for row in queues.paths[entry.job.queue_row].tolist():
        over = queues.allocated[row] + demand - queues.limit[row]
        for column in np.flatnonzero((over > 0) & (demand > 0)).tolist():
            name = model.axis.names[column]
            texts.append(
                f"queue {queues.names[row]} is {amount_text(name, over[column])} {name} short: "
                f"limit {amount_text(name, queues.limit[row, column])}, "
                f"allocated {amount_text(name, queues.allocated[row, column])}, "
                f"the job needs {amount_text(name, demand[column])}"
            )
    return texts


def _too_low_bounds(model: DialectModel, entry: JobEntry, refusal: str) -> list[str]:
    """Return the bounds on the path that the next pods of a job exceed even if the queue is empty.

    A quota is a bound only if the text of the `refusal` says so.
    """
    queues, demand, texts = model.queues, _demand(model, entry), []
    running = [task.request for task in entry.job.tasks.values() if task.state in ACTIVE]
    # A gang needs its pods at the same time; of other jobs, a pod may end to make room for the next.
    needed = sum(running if len(running) < entry.spec.min_member else (), demand)
    for row in queues.paths[entry.job.queue_row].tolist():
        for word, bounds in (("limit", queues.limit[row]), ("quota", queues.quota[row])):
            for column in np.flatnonzero((needed > bounds) & (demand > 0)).tolist():
                name = model.axis.names[column]
                if word == "quota" and f"queue {queues.names[row]} would exceed its {name} quota" not in refusal:
                    continue
                texts.append(
                    f"the {word} of queue {queues.names[row]} from {amount_text(name, bounds[column])} to "
                    f"{amount_text(name, needed[column])} {name}"
                )
    return texts


def _demand(model: DialectModel, entry: JobEntry) -> Amounts:
    """Return float64[R]: what the pods request that the job needs next: up to its minimum, then one."""
    job = entry.job
    pending = [task.request for task in job.tasks.values() if task.state == TaskState.PENDING]
    count = max(entry.spec.min_member - job.count(ACTIVE), 1)
    return sum(pending[:count], model.axis.zeros())


def _share(model: DialectModel, entry: JobEntry, result: PassResult) -> list[Step]:
    share, row = result.shares().get(entry.spec.queue), entry.job.queue_row
    if share is None:
        return []
    demand, texts = _demand(model, entry), []
    for name, value in share.items():
        column = model.axis.index.get(name)
        if column is None or demand[column] <= 0 or name == PODS:
            continue
        held = model.queues.allocated[row, column]
        over = held + demand[column] - value
        more = f", {amount_text(name, over)} above its fair share with this job" if over > 0 else ""
        texts.append(f"{amount_text(name, held)} of {amount_text(name, value)} {name}{more}")
    return [Step("share", INFO, "", f"queue {entry.spec.queue} holds {'; '.join(texts)}")] if texts else []


def _line(entry: JobEntry, result: PassResult, job: Job) -> list[Step]:
    """Return the place of the job among the waiting jobs of its queue, by the job orders of the profile."""
    session = result.found.session
    if not entry.is_waiting or job.queue_row < 0:
        return []
    orders = [policy for tier in session.policies(JobOrder, "enableJobOrder") for policy in tier]
    waiting = [
        each
        for each in session.jobs.values()
        if each.queue_row == job.queue_row and each.count((*WAITING, TaskState.PIPELINED))
    ]
    keys = {
        each.uid: (*(part for order in orders for part in order.job_key(each)), each.created, each.uid)
        for each in waiting
    }
    if job.uid not in keys:
        return []
    waiting.sort(key=lambda each: keys[each.uid])
    place = waiting.index(job)
    ahead = ", ".join(each.key for each in waiting[max(place - _NAMED, 0) : place])
    text = f"place {place + 1} of {len(waiting)} waiting jobs of queue {job.queue}"
    return [Step("line", INFO, "", f"{text}, after {ahead}" if ahead else text)]


def _nodes(
    entry: JobEntry,
    result: PassResult,
    job: Job,
    decisions: Sequence[Decision],
    reasons: _Reasons,
    node_text: str,
) -> Step:
    placed = [each for each in decisions if each.kind is not DecisionKind.EVICT]
    if placed and not _is_partial(entry, len(placed)):
        counts = Counter(result.node(each) for each in placed)
        listed = ", ".join(f"{name} ({count})" for name, count in counts.most_common(_NAMED))
        more = ", ..." if len(counts) > _NAMED else ""
        is_promise = any(each.kind is DecisionKind.NOMINATE for each in placed)
        verb = "are promised room" if is_promise else "get nodes in the next pass"
        return Step("nodes", OK, "", f"{len(placed)} pods {verb}: {listed}{more}")
    if not entry.is_waiting:
        return Step("nodes", OK, "", "all pods have a node")
    rejections = result.found.rejections
    errors = [rejections[uid] for uid in job.tasks if uid in rejections]
    messages = [result.rejection(error) for error in errors]
    found = reasons["nodes"]
    # The filters count the nodes by reason, unless the pass knew without asking them.
    by_reason = messages[:1] or ([node_text] if node_text else [])
    said = {str(error) for error in errors}
    text = "; ".join([*(message for _, message in found if message not in said), *by_reason])
    if found or messages:
        return Step("nodes", HOLDS, found[0][0] if found else "NotEnoughResources", text)
    return Step("nodes", INFO, "", text or "not tried, because an earlier step holds the job")


def _evictions(entry: JobEntry, result: PassResult, job: Job, decisions: Sequence[Decision], reasons: _Reasons) -> Step:
    victims = [each for each in decisions if each.kind is DecisionKind.EVICT]
    if victims:
        by_action: dict[str, list[str]] = {}
        for each in victims:
            by_action.setdefault(each.action, []).append(each.task.key)
        texts = [f"{action} evicts {_listed(names)}" for action, names in by_action.items()]
        return Step("evictions", OK, "", "; ".join(texts))
    for reason, message in reasons["evictions"]:
        return Step("evictions", HOLDS, reason, message)
    log = result.found.session.plan_log
    for action in result.sessions.plugin.actions:
        plan = log.plans.get((job.uid, action.name)) if log is not None and not action.evicts else None
        if plan is not None:
            return Step("evictions", INFO, "", f"{action.name}: {_rejected(plan)}")
    if not entry.is_waiting or any(each.kind is DecisionKind.BIND for each in decisions):
        return Step("evictions", OK, "", "none needed")
    actions = [action for action in result.sessions.plugin.actions if action.evicts]
    if not actions:
        return Step("evictions", INFO, "", "the actions of the profile evict nothing")
    return Step("evictions", INFO, "", _candidates(result, job, actions))


def _candidates(result: PassResult, job: Job, actions: Sequence[Action]) -> str:
    """Return for each action its best plan and the rule it failed; without a plan, whether there are candidates."""
    session = result.found.session
    holders = [each for each in session.jobs.values() if each.uid != job.uid and each.preemptible and _runs(each)]
    texts = []
    log = session.plan_log
    for action in actions:
        plan = log.plans.get((job.uid, action.name)) if log is not None else None
        if plan is not None:
            texts.append(f"{action.name}: {_rejected(plan)}")
            continue
        if action.evicts == "preempt":
            count = sum(each.queue == job.queue and each.priority < job.priority for each in holders)
            which = f"of lower priority in queue {job.queue}"
        elif action.evicts == "reclaim":
            gives = session.queues.reclaimable
            count = sum(each.queue != job.queue and each.queue_row >= 0 and gives[each.queue_row] for each in holders)
            which = "in other queues" if gives.all() else "in other reclaimable queues"
        else:
            count, which = len(holders), "that could move"
        jobs = f"preemptible job{'' if count == 1 else 's'} {which}"
        found = f"{count} {jobs}, but no allowed plan makes enough room" if count else f"no {jobs}"
        texts.append(f"{action.name}: {found}")
    return "; ".join(texts)


def _rejected(plan: RejectedPlan) -> str:
    """Return the best plan of an action, and the rule it failed."""
    why = f"{plan.refusal.reason}: {plan.refusal.message}" if plan.refusal.message else plan.refusal.reason
    return f"the best plan evicts {_listed(plan.victims)}, but {why}" if plan.victims else why


def _runs(job: Job) -> bool:
    """Return True if a pod of the job that may be evicted has a node now, whatever the pass decided about it."""
    return any(
        task.preemptable and task.pod is not None and task.pod.node_name and not task.pod.is_terminal
        for task in job.tasks.values()
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


_NEXT: Final = {
    "declared": "when the PodGroup changes",
    "pods": "when pods of the job are created, or lose their scheduling gates",
    "queue": "when a queue or the PodGroup changes",
    "session": "when a batch profile serves the job",
    "gates": "when a pod of these queues ends, or a queue changes",
    "nodes": "when a pod ends, or a node or a queue changes",
    "evictions": "when that time is over, or the cluster changes",
}


def _next(model: DialectModel, entry: JobEntry, held: Sequence[Step], result: PassResult | None) -> Step:
    """Return when the job is tried again; a delay or a protection that ends makes a pass, too."""
    if held and entry.spec.error == NO_GROUP:
        return Step("next", INFO, "", f"create the PodGroup {entry.job.key}")
    bounds = _too_low_bounds(model, entry, held[0].text) if held and held[0].name == "gates" else []
    if bounds:
        return Step("next", INFO, "", f"raise {'; '.join(bounds)}; or lower the requests: no end of a pod is enough")
    when = _NEXT[held[0].name] if held else "when a pod, a node, a queue or the PodGroup changes"
    at = result.found.session.wake_at if result is not None else math.inf
    if math.isfinite(at):
        when = f"{when}, or at {format_time(at)}"
    return Step("next", INFO, "", f"the next attempt follows {when}")

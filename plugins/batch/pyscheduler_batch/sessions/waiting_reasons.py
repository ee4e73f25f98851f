"""Find out why jobs wait; the reasons are shown in the statuses of pods and by commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.scheduler.failure import truncated
from pyscheduler_batch.model.sub_groups import is_whole
from pyscheduler_batch.model.tasks import ACTIVE, ALIVE, TaskState
from pyscheduler_batch.queue_problems import queue_problem
from pyscheduler_batch.sessions.recovery import TURN_EVERY
from pyscheduler_batch.sessions.wait_texts import LONGEST_TEXT, NOT_READY, waiting_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyscheduler_batch.contract import Action, Policy
    from pyscheduler_batch.model.session import Session
    from pyscheduler_batch.model.tasks import Job

__all__ = ["PIPELINED", "reasons_of", "steps_of", "waiting_texts"]

#: The reason of a job that was promised nodes.
PIPELINED: Final = "Pipelined"
#: The states of pods that count for a gang once nothing holds them back.
_FREE: Final = (ALIVE | {TaskState.SUCCEEDED}) - {TaskState.GATED}


def reasons_of(session: Session, job: Job, *, is_cut: bool = False) -> Mapping[str, str]:
    """Return by reason the message why a job waits; empty if the pass did not come to it.

    What is wrong with its queue comes first, then its scheduling gates, then what the pass recorded. `is_cut`: what the
    model would say of a job that was tried means nothing.
    """
    problem = queue_problem(job, session.queues)
    if problem is not None:
        return dict([problem])
    if gated := _gated_text(job):
        return {NOT_READY: gated}
    reasons = session.reasons.get(job.uid)
    if reasons:
        return reasons
    # Some models promise nodes to a part of a gang; these are not kept.
    if job.counts[TaskState.PIPELINED] and job.count(ACTIVE) >= job.min_member:
        return {PIPELINED: "the job waits until pods have ended on the nodes that it was promised"}
    return {} if is_cut else session.why_waiting(job)


def steps_of(session: Session, actions: Iterable[Action]) -> dict[str, str]:
    """Return by reason code the step that shows the reason, as session, actions and policies declare it."""
    policies = (entry.policy for tier in session.tiers for entry in tier)
    parts: Iterable[Session | Action | Policy] = (session, *actions, *policies)
    return {code: step for part in parts for code, step in part.steps.items()}


def _gated_text(job: Job) -> str:
    """Return how many pods have scheduling gates, if the job lacks only these for its minimum; else ""."""
    gated = job.counts[TaskState.GATED]
    if not gated or is_whole(job, _FREE) or not is_whole(job, _FREE | {TaskState.GATED}):
        return ""
    free = job.count(_FREE)
    return f"{gated} of {free + gated} pods have scheduling gates; the job needs at least {job.min_member} without"


async def waiting_texts(
    session: Session, before: Mapping[str, Mapping[str, str]], texts_before: Mapping[str, str], *, is_cut: bool
) -> dict[str, str]:
    """Return by job key why a job with tasks that hold no node waits.

    `before`: by uid of a job, the reasons of the last pass; `texts_before`: what this function said of them.
    """
    found: dict[str, str] = {}
    #: By kind and identity of the reasons: look-alikes that were refused together share both.
    texts: dict[tuple[int, int], str] = {}
    cut_in = session.action if is_cut else ""
    for at, job in enumerate(session.jobs.values()):
        if at % TURN_EVERY == 0:
            await session.turn()
        counts = job.counts
        if not (counts[TaskState.PENDING] or counts[TaskState.PIPELINED] or counts[TaskState.ALLOCATED]):
            continue
        reasons = session.reasons.get(job.uid)
        # Some models keep reasons from pass to pass. What is wrong with a queue comes before them.
        is_known = reasons and reasons is before.get(job.uid) and not counts[TaskState.GATED]
        if is_known and not job.queue_error and not session.queues.problems:
            text = texts_before.get(job.key)
            if text is not None:
                found[job.key] = text
                continue
        if job.look_alike is None or job.counts[TaskState.PIPELINED]:
            found[job.key] = _waiting_text(session, job, cut_in)
            continue
        kind = (job.look_alike, id(reasons))
        text = texts.get(kind)
        if text is None:
            text = texts[kind] = _waiting_text(session, job, cut_in)
        found[job.key] = text
    return found


def _waiting_text(session: Session, job: Job, cut_in: str) -> str:
    reasons = reasons_of(session, job, is_cut=bool(cut_in))
    return truncated(waiting_text(reasons), LONGEST_TEXT) or _not_tried(job, cut_in)


def _not_tried(job: Job, cut_in: str) -> str:
    """Return why a pass did not try a job: it has too few pods, or its turn did not come.

    `cut_in`: the action in which the pass was cut, "" for a pass that ended.
    """
    alive, succeeded = job.count(ALIVE), job.counts[TaskState.SUCCEEDED]
    if alive + succeeded < job.min_member:
        return f"{NOT_READY}: {alive + succeeded} of at least {job.min_member} pods exist"
    if cut_in:
        return f'{NOT_READY}: the pass did not come to this job; the action "{cut_in}" took too long'
    return f"{NOT_READY}: the pass did not come to this job"

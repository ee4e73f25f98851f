"""Convert answers of `explain` to JSON."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler.cli.explanation import names_of
from pyscheduler.framework.preemption import PreemptionFindings

if TYPE_CHECKING:
    from pyscheduler.cli.explanation import Answer
    from pyscheduler.framework.preemption import Candidate
    from pyscheduler.framework.status import Status
    from pyscheduler.scheduler.evaluation import Evaluation

__all__ = ["answer_json", "explain_json", "status_json"]

Json = dict[str, Any]

_SUCCESS: Final = "Success"


def status_json(status: Status | None) -> Json:
    """Return a status as JSON; None is success."""
    if status is None:
        return {"code": _SUCCESS, "plugin": "", "reasons": []}
    said: Json = {"code": status.code.label, "plugin": status.plugin, "reasons": sorted(status.reasons)}
    after = status.retry_after_seconds
    return {**said, "retryAfterSeconds": after} if after is not None and isfinite(after) else said


def answer_json(found: Evaluation) -> Json:
    """Return everything that an evaluation found, from PreEnqueue to the chosen node."""
    actual: Json = {
        "preFilter": {
            **status_json(found.pre_filter),
            "nodeNames": None if found.node_names is None else sorted(found.node_names),
            "skipPlugins": sorted(found.skipped_filters),
        },
        "filter": _filter(found),
        "feasible": sorted(names_of(found.feasible)) if found.feasible is not None else [],
        "skipScorePlugins": sorted(found.skipped_scores),
        "scores": {},
        "total": {},
        "best": [],
        "fitError": str(found.fit_error) if found.fit_error is not None else None,
        "error": found.error.message if found.error is not None else None,
        "postFilter": _post_filter(found),
    }
    if found.feasible is not None and found.scores is not None and found.error is None:
        names = names_of(found.feasible)
        for plugin, scores in found.scores.by_plugin.items():
            raw = scores.raw if scores.raw is not None else scores.normalized
            rows = zip(names, raw.tolist(), scores.normalized.tolist(), scores.weighted.tolist(), strict=True)
            actual["scores"][plugin] = {
                name: {"raw": raw, "normalized": normalized, "weighted": weighted}
                for name, raw, normalized, weighted in rows
            }
        totals = found.scores.totals.tolist()
        actual["total"] = dict(zip(names, totals, strict=True))
        actual["best"] = sorted(name for name, total in actual["total"].items() if total == max(totals))
    return actual


def _filter(found: Evaluation) -> Json:
    """Return each node's result of Filter; nodes that PreFilter excluded are omitted."""
    if found.filtered is None or found.statuses is None:
        return {}
    verdicts: Json = {}
    absent = found.statuses.absent
    for row in range(len(found.all_nodes)):
        verdicts[found.all_nodes.name(row)] = {**status_json(absent), "plugin": "", "excludedByPreFilter": True}
    for row, name in enumerate(names_of(found.filtered)):
        status = found.statuses.status(row)
        verdicts[name] = {"code": _SUCCESS} if status is None else status_json(status)
    return verdicts


def _post_filter(found: Evaluation) -> Json | None:
    """Return the result of PostFilter with the victims of preemption; None if PostFilter did not run.

    A node, its victims and the number of PDB violations are included only if the choice does not depend on chance.
    """
    status = found.post_filter
    if status is None:
        return None
    preemption = found.preemption or PreemptionFindings()
    result = found.post_filter_result
    nominating = result.nominating_info if result is not None else None
    only = preemption.best[0] if len(preemption.best) == 1 else None
    candidates: Json = {name: _victims(candidate) for name, candidate in preemption.candidates.items()}
    for name, reason in preemption.statuses.items():
        candidates[name] = {"code": reason.code.label, "reasons": sorted(reason.reasons)}
    return {
        "code": status.code.label,
        "plugin": "" if status.is_success else status.plugin,
        "message": status.message,
        "eligible": not preemption.refusal,
        "eligibleReason": preemption.refusal,
        "candidates": candidates,
        "bestNodes": sorted(candidate.node_name for candidate in preemption.best),
        "nominatedNode": only.node_name if only is not None else None,
        "victims": [],
        "numPDBViolations": None,
        **(_victims(only) if only is not None else {}),
        "clearsNomination": nominating is not None and nominating.override and not nominating.node_name,
    }


def _victims(candidate: Candidate) -> Json:
    victims = [info.pod.key for info in candidate.victims]
    return {"victims": victims, "numPDBViolations": candidate.pdb_violations}


def explain_json(answer: Answer) -> Json:
    """Return verdict and steps, and the stories if there are any.

    For a pod that was evaluated, also the evaluation with profile, number of nodes and message.
    """
    found, explanation = answer.evaluation, answer.explanation
    stories: Json = {"stories": answer.stories} if answer.stories else {}
    if explanation is None:
        return {"pod": answer.pod, **stories}
    said: Json = {
        "verdict": explanation.verdict,
        "reason": explanation.reason,
        "contradicts": explanation.contradicts,
        "steps": [attrs.asdict(step) for step in explanation.steps],
        "next": explanation.next,
        **stories,
    }
    if found is None:
        return {**({"pod": answer.pod} if answer.pod else {"workload": explanation.subject}), **said}
    return {
        **said,
        "pod": found.pod.key,
        "profile": found.profile.name,
        "nodes": len(found.all_nodes),
        "message": found.message,
        "preEnqueue": status_json(found.pre_enqueue),
        **({"reserve": {**status_json(found.reserve), "node": found.best_node}} if found.reserve is not None else {}),
        **({"permit": {"code": "Wait", "message": found.wait}} if found.wait else {}),
        **answer_json(found),
    }

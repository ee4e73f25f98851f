"""Show the result of a plugin as unknown in `explain` if the user may not list the objects that the plugin reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.cli.explanation import HOLDS, OK, UNKNOWN, Step, pod_scheduled, without_place, words_of
from pyscheduler.framework.profile import ExtensionPoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyscheduler.api import ResourceKind
    from pyscheduler.cli.explanation import Explanation
    from pyscheduler.scheduler.evaluation import Evaluation

__all__ = ["refused_by_plugin", "refused_of", "unknown_step", "with_doubt"]

#: Where a plugin can keep a pod from a node.
_DECISIVE: Final = (
    ExtensionPoint.PRE_ENQUEUE,
    ExtensionPoint.PRE_FILTER,
    ExtensionPoint.FILTER,
    ExtensionPoint.RESERVE,
    ExtensionPoint.PERMIT,
)
#: Steps that no list of objects can change.
_CERTAIN: Final = {"gates", "scheduler"}


def refused_of(kinds: Iterable[ResourceKind], unread: Iterable[str]) -> list[str]:
    """Return which of some kinds are among the resources that may not be listed, each once."""
    known = {*unread}
    return [*dict.fromkeys(kind.resource for kind in kinds if kind.resource in known)]


def refused_by_plugin(found: Evaluation, unread: Iterable[str]) -> dict[str, list[str]]:
    """Return by plugin the kinds that it reads, but that may not be listed; only plugins that concern the pod."""
    profile = found.profile
    names = dict.fromkeys(name for point in _DECISIVE for name in profile.points[point])
    refused = {name: refused_of(profile.plugins[name].watches, unread) for name in names}
    return {name: kinds for name, kinds in refused.items() if kinds and name not in found.skipped_filters}


def unknown_step(name: str, refused: Sequence[str]) -> Step:
    """Return the step about which nothing is known, because some kinds may not be listed."""
    return Step(name, UNKNOWN, "", f"unknown: these credentials may not list {', '.join(refused)}")


def with_doubt(explanation: Explanation, found: Evaluation, refused: Mapping[str, Sequence[str]]) -> Explanation:
    """Return the explanation without conclusions from kinds that may not be listed; `refused` has them by plugin."""
    unsure = [step for step in explanation.steps if step.result == UNKNOWN]
    if not refused and not unsure:
        return explanation
    lacking = dict.fromkeys(name for kinds in refused.values() for name in kinds)
    condition = next((step for step in explanation.steps if step.name == "condition"), None)
    said = pod_scheduled(found.pod)
    # The condition of a job's pod is taken as equal if the job waits, whatever the reasons are.
    agrees = (
        condition is not None
        and condition.result == OK
        and all(words_of(step.text) == words_of(said[1]) for step in explanation.steps if _is_rejection(step) and said)
    )
    certain = [step for step in explanation.steps if step.name != "closest" or not refused]
    steps = [_doubted(step, found, refused, agrees=agrees) for step in certain]
    if steps == explanation.steps and not unsure and not explanation.contradicts:
        return explanation
    if any(step.name == "nodes" and step.result == UNKNOWN for step in steps):
        steps = [step for step in steps if step.name != "preemption"]
    is_certain = any(step.result == HOLDS and step.name in _CERTAIN for step in steps)
    if said is not None and not agrees and not is_certain:
        reason, message = said
        as_found = Step("condition", HOLDS, reason, f"PodScheduled is False: {reason}: {message}")
        steps = [as_found if step is condition else _unsure_of_nodes(step, lacking) for step in steps]
    held = [step for step in steps if step.result == HOLDS]
    is_unknown = any(step.result == UNKNOWN for step in steps)
    return attrs.evolve(
        explanation,
        verdict="waits" if held else "unknown" if is_unknown else explanation.verdict,
        reason=held[0].reason if held else "",
        steps=steps,
        next=explanation.next if is_certain or agrees else _next(steps, lacking),
        contradicts=explanation.contradicts and is_certain,
    )


def _is_rejection(step: Step) -> bool:
    return step.name == "nodes" and step.result == HOLDS


def _doubted(step: Step, found: Evaluation, refused: Mapping[str, Sequence[str]], *, agrees: bool) -> Step:
    if step.name in refused and step.result != UNKNOWN:
        nodes = step.text.partition(": ")[0]
        unknown = unknown_step(step.name, refused[step.name])
        return attrs.evolve(unknown, text=f"{nodes}: {unknown.text}")
    if step.result != HOLDS or agrees:
        return step
    rejecting = {
        "gates": [found.pre_enqueue.plugin] if found.pre_enqueue is not None else [],
        "nodes": [miss.plugin for each in (found, found.ungated) if each is not None for miss in each.misses],
        "reserve": [found.reserve.plugin] if found.reserve is not None else [],
    }.get(step.name, [])
    lacking = dict.fromkeys(kind for name in rejecting for kind in refused.get(name, ()))
    return unknown_step(step.name, [*lacking]) if lacking else step


def _unsure_of_nodes(step: Step, lacking: Iterable[str]) -> Step:
    """Return the step that found nodes for the pod as unknown: the scheduler found none."""
    if step.name != "nodes" or step.result != OK:
        return step
    text = f"{without_place(step).text} without {', '.join(lacking) or 'what may not be listed'}"
    return Step("nodes", UNKNOWN, "", text)


def _next(steps: Iterable[Step], lacking: Iterable[str]) -> str:
    names = ", ".join(lacking)
    if not names:
        text = next(step.text for step in steps if step.result == UNKNOWN)
        names = text.rpartition("may not list ")[2]
    return f"a sure answer needs credentials that may list {names}"

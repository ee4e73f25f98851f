"""The findings of `check_plugin`: mistakes of a plugin, each with advice on how to correct it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.testing.checks.steps import Step

__all__ = ["CHANGING_REMEDY", "CHECKS", "UNEQUAL", "Finding", "PluginCheckError"]

#: The checks, and how an author mends what each of them finds.
CHECKS: Final[Mapping[str, str]] = {
    "raises": "Handle this input: a method that raises costs the pod its attempt, and the pod waits for its backoff.",
    "statuses": (
        "Return the type and the codes that the interface names. Give each rejection a reason, because users read it."
    ),
    "scores": "Bring scores to 0..100 in normalize_scores; default_normalize of pyscheduler.framework.scoring does it.",
    "forms": "Let both forms apply the same rule, or define only the columnar one.",
    "snapshot": "Copy what you change: nodes, pods and their arrays belong to the snapshot.",
    "node-order": (
        "Let each answer depend on its own node, not on the row, on the order of the nodes, or on the other nodes. "
        "Sums over nodes go over self.handle.snapshot.nodes: `nodes` may be some of them."
    ),
    "signature": (
        "Return each part of the pod that the answers depend on from sign_pod, or return a rejection, such as "
        "Status.unschedulable(reason), for a pod without a signature."
    ),
    "cache": (
        "Declare a `reuse` that covers everything the answers depend on, return False from may_reuse(pod) for the pods "
        "concerned, call handle.forget_answers([node_name]) at each change with UNTIL_FORGOTTEN, or remove `reuse`."
    ),
    "reserve": "Undo in unreserve everything that reserve did, also in a trial (state.trial); unreserve is idempotent.",
    "bind": "Await handle.client.bind(pod, node_name) before bind returns success, or return Status.skip().",
    "hints": (
        "Register the event in events_to_register, and return QUEUE from its hint when the event may help. "
        "If no event tells, call handle.activate([pod]); if time alone helps, pass retry_after to Status.unschedulable."
    ),
    "victims": (
        "Define potential_victims(node, preemptor, state) in the preemption rules as a generator. Each pod that it "
        "yields is taken off the snapshot and the state before it goes on: count with what is left, and stop in time."
    ),
    "earlier-pods": (
        "Let answers depend on the cluster and the pod only. Keep values of one attempt in the CycleState, and forget "
        "a pod when it is deleted, bound or unreserved."
    ),
    "hash-seed": "Sort sets and the keys of unordered collections before their order can change an answer.",
    "blocking": (
        "Do slow work in run() or a task of handle.spawn, with awaitable calls, and let this method read the result."
    ),
}


#: The checks that find unequal answers to equal questions.
UNEQUAL: Final = frozenset({"forms", "node-order", "signature", "cache", "reserve", "earlier-pods", "hash-seed"})
#: The remedy if the plugin reads a clock of the machine, or draws random numbers.
CHANGING_REMEDY: Final = (
    "Read self.handle.clock.now(), or wall() for the time of day, in place of a clock of the machine: tests move "
    "this clock. Derive choices from the pod, for example zlib.crc32(pod.uid.encode()), and not from random numbers."
)


@attrs.frozen(kw_only=True)
class Finding:
    """One way in which a plugin breaks its contract.

    `place` is the method, `what` a sentence with the facts, `step` the position of the step after which it was seen.
    `is_measured` is true for a time: on a busy machine, one alone proves nothing.
    """

    check: str
    place: str
    what: str
    step: int
    remedy: str = ""
    is_measured: bool = False


class PluginCheckError(AssertionError):
    """A plugin fails a check.

    `check`, `plugin`, `place` and `remedy` say what failed, where, and how to mend it. `history` has the fewest steps
    that reproduce the failure, and `code` is a test with these steps.
    """

    def __init__(self, *, plugin: str, finding: Finding, history: list[Step], code: str) -> None:
        self.finding = finding
        self.check = finding.check
        self.plugin = plugin
        self.place = finding.place
        self.remedy = finding.remedy or CHECKS[finding.check]
        self.history = history
        self.code = code
        steps = "\n".join(f"  {number}. {step.text}" for number, step in enumerate(history, 1)) or "  (no step)"
        super().__init__(
            f'plugin "{plugin}" fails the check "{finding.check}" in {finding.place}: {finding.what}\n'
            f"How to mend it: {self.remedy}\n"
            f"The shortest history found:\n{steps}\n"
            f"As a test:\n\n{code}"
        )

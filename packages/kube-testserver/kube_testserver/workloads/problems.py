"""The event and the condition by which a controller reports that it cannot make the objects of a workload.

Reasons and texts are kube-controller-manager's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_testserver.workloads.objects import name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kube_testserver.workloads.contract import Object

__all__ = ["FAILED_CREATE", "REPLICA_FAILURE", "NotExpandedError", "creation_problem", "with_replica_failure"]

FAILED_CREATE: Final = "FailedCreate"
REPLICA_FAILURE: Final = "ReplicaFailure"


class NotExpandedError(Exception):
    """A workload cannot be expanded: a warning about it has this reason and message.

    `answer` is what the API server said, if it refused an object.
    """

    def __init__(self, reason: str, message: str, *, answer: str = "") -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message
        self.answer = answer


def creation_problem(workload: Object, child: Object, answer: str) -> NotExpandedError:
    """Return the problem of a workload for which the API server refused to create an object."""
    if workload["kind"] == "Deployment":
        text = f'Failed to create new replica set "{name_of(child)}": {answer}'
        return NotExpandedError("ReplicaSetCreateError", text, answer=answer)
    if workload["kind"] == "StatefulSet":
        name, cause = name_of(child), answer
        if child["kind"] == "PersistentVolumeClaim":
            # The names of a pod and of its claims end with the same ordinal.
            name, cause = f"{name_of(workload)}-{name.rpartition('-')[2]}", f"failed to create PVC {name}: {answer}"
        text = f"create Pod {name} in StatefulSet {name_of(workload)} failed error: {cause}"
        return NotExpandedError(FAILED_CREATE, text, answer=answer)
    return NotExpandedError(FAILED_CREATE, f"Error creating: {answer}", answer=answer)


def with_replica_failure(
    conditions: Sequence[Object], problem: NotExpandedError | None, now: str
) -> Sequence[Object] | None:
    """Return the conditions with ReplicaFailure if there is a problem, else without; None if there are none.

    The condition stays as it is while the problem lasts, although each attempt has another pod's name in its answer.
    """
    others = [one for one in conditions if one.get("type") != REPLICA_FAILURE]
    if problem is not None:
        present = [one for one in conditions if one.get("type") == REPLICA_FAILURE]
        new = {"type": REPLICA_FAILURE, "status": "True", "reason": FAILED_CREATE, "message": problem.answer}
        others += present or [{**new, "lastTransitionTime": now}]
    return others or None

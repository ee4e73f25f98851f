"""`BindRequest`: the object by which KAI's scheduler asks a binder to bind one pod to one node.

Source: KAI-Scheduler, `pkg/apis/scheduling/v1alpha2/bindrequest_types.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pyscheduler.api import KubeObject, kind_of, pod_requests

if TYPE_CHECKING:
    from pyscheduler.api import Pod

__all__ = ["BIND_REQUESTS", "FAILED", "PENDING", "SUCCEEDED", "BindRequest", "request_body"]

PENDING: Final = "Pending"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"

_NODE_LABEL: Final = "selected-node"
#: The longest value of a label. The names of nodes may be longer.
_LABEL_LIMIT: Final = 63
_GPU: Final = "nvidia.com/gpu"


class BindRequest(KubeObject):
    """An order to bind a pod; it has the pod's name and belongs to the pod. Fields of wrong types count as unset."""

    api_version: ClassVar[str] = "scheduling.run.ai/v1alpha2"
    kind: ClassVar[str] = "BindRequest"

    spec: Any = None
    status: Any = None

    @property
    def pod_name(self) -> str:
        """The name of the pod."""
        return _text(self.spec, "podName")

    @property
    def pod_uid(self) -> str:
        """The uid of the pod that owns the request; "" without one."""
        return next((each.uid for each in self.metadata.owner_references if each.kind == "Pod"), "")

    @property
    def node_name(self) -> str:
        """The node that the scheduler chose."""
        return _text(self.spec, "selectedNode")

    @property
    def backoff_limit(self) -> int:
        """The number of further attempts after a failure; none if it is not set."""
        return _count(self.spec, "backoffLimit")

    @property
    def resource_type(self) -> str:
        """The kind of resource that the pod received: `Regular`, or a `Fraction` of a GPU."""
        return _text(self.spec, "receivedResourceType")

    @property
    def has_claims(self) -> bool:
        """Return whether the binder is to allocate resource claims; schedulers of this project do that themselves."""
        return isinstance(self.spec, Mapping) and bool(self.spec.get("resourceClaimAllocations"))

    @property
    def phase(self) -> str:
        """`Pending`, `Succeeded`, `Failed`, or "" as long as no binder has seen the request."""
        return _text(self.status, "phase")

    @property
    def reason(self) -> str:
        """Why the last attempt failed."""
        return _text(self.status, "reason")

    @property
    def failed_attempts(self) -> int:
        """The number of attempts that failed."""
        return _count(self.status, "failedAttempts")

    @property
    def is_final(self) -> bool:
        """Return whether no binder will touch the request again.

        KAI's binder may try a `Failed` request again; schedulers delete such a request, which ends that.
        """
        return self.phase in {SUCCEEDED, FAILED} or bool(self.metadata.deletion_timestamp)


BIND_REQUESTS: Final = kind_of(BindRequest, "bindrequests")


def request_body(pod: Pod, node_name: str, *, backoff_limit: int) -> dict[str, Any]:
    """Return the manifest of the request to bind a pod to a node.

    Differs from KAI: `backoffLimit` is set, so the binder tries again after a failure. The label `selected-node` is
    left out for a node whose name is too long for a label; KAI's scheduler cannot bind to such a node.
    """
    gpus = int(pod_requests(pod).get(_GPU, 0))
    received = {"count": gpus, "portion": "1.00"} if gpus else {"portion": "0.00"}
    labels = {_NODE_LABEL: node_name} if len(node_name) <= _LABEL_LIMIT else {}
    return {
        "apiVersion": BindRequest.api_version,
        "kind": BindRequest.kind,
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "labels": labels,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}],
        },
        "spec": {
            "podName": pod.name,
            "selectedNode": node_name,
            "receivedResourceType": "Regular",
            "receivedGPU": received,
            "backoffLimit": backoff_limit,
        },
    }


def _text(part: object, key: str) -> str:
    value = part.get(key) if isinstance(part, Mapping) else None
    return value if isinstance(value, str) else ""


def _count(part: object, key: str) -> int:
    value = part.get(key) if isinstance(part, Mapping) else None
    return max(value, 0) if isinstance(value, int) and not isinstance(value, bool) else 0

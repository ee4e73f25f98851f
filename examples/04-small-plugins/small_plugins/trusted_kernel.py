"""TrustedKernel: place a pod on nodes whose kernel is at least the version in the pod's annotation."""

from typing import Final

from pyscheduler import CycleState, FilterPlugin, NodeInfo, Pod, Status
from pyscheduler.api import Wire

LEAST: Final = "example.com/least-kernel"
OLD: Final = Status.unresolvable("node(s) had too old a kernel")


class NodeSystem(Wire):
    """The part of `status.nodeInfo` that is read."""

    kernel_version: str = ""


class NodeReport(Wire):
    """The part of the status that is read; `node_info` is `nodeInfo` on the wire."""

    node_info: NodeSystem = NodeSystem()


class Kernel(Wire):
    """The report of a node about its kernel."""

    status: NodeReport = NodeReport()


class TrustedKernel(FilterPlugin):
    """Keep pods off nodes whose kernel is older than the pod demands."""

    node_fields = (Kernel,)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        wanted = pod.annotations.get(LEAST)
        if wanted is None or node.node is None:
            return None
        found = self.handle.fields(node.node, Kernel).status.node_info.kernel_version
        return OLD if version(found) < version(wanted) else None


def version(text: str) -> tuple[int, ...]:
    """Return `(6, 8, 0)` for `6.8.0-45-generic`."""
    return tuple(int(part) for part in text.partition("-")[0].split(".") if part.isdigit())

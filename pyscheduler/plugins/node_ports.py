"""NodePorts: two pods on a node cannot use the same host port with the same protocol and address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler.api import Pod, host_ports
from pyscheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    HostPorts,
    NodeInfo,
    Nodes,
    NodeStatuses,
    PreFilterPlugin,
    PreFilterResult,
    QueueingHint,
    Reuse,
    SignFragment,
    SignPlugin,
    StateKey,
    Status,
)
from pyscheduler.framework.signatures import HOST_PORTS

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["NodePorts"]

_REJECTION: Final = Status.unschedulable("node(s) didn't have free ports for the requested pod ports")
_WANTED: Final[StateKey[tuple[tuple[str, str, int], ...]]] = StateKey("PreFilterNodePorts")


class NodePorts(PreFilterPlugin, FilterPlugin, EnqueueExtensions, SignPlugin):
    """Refuse nodes on which a host port of the pod is in use."""

    reuse = Reuse.WHILE_PODS_STAY

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        wanted = host_ports(pod)
        if not wanted:
            return Status.skip()
        state.write(_WANTED, wanted)
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        taken = np.zeros(len(nodes), dtype=np.bool_)
        for ip, protocol, port in state.read(_WANTED):
            taken[nodes.host_port_conflicts(ip, protocol, port)] = True
        return NodeStatuses.failing(taken, _REJECTION)

    def why(self, pod: Pod, node: NodeInfo) -> str:
        texts = []
        for info in node.pods:
            used = HostPorts()
            for each in host_ports(info.pod):
                used.add(*each)
            for ip, protocol, port in host_ports(pod):
                if used.conflicts(ip, protocol, port):
                    texts.append(f"{info.pod.key} holds port {port}/{protocol}")
        return "; ".join(texts)

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        # As in kube-scheduler: the ports of all init containers count, addresses and protocols do not.
        ports = {
            port.host_port
            for container in (*pod.spec.containers, *pod.spec.init_containers)
            for port in container.ports
            if port.host_port
        }
        return (SignFragment(HOST_PORTS, tuple(sorted(ports))),)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(ClusterEvent(EventResource.POD, ActionType.DELETE), self.after_pod_deleted),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD)),
        )

    def after_pod_deleted(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue when a pod that had a node, or the promise of one, gave back a port that this pod wants."""
        assert isinstance(old, Pod)
        if not old.node_name and not old.status.nominated_node_name:
            return QueueingHint.SKIP
        freed = HostPorts()
        for port in host_ports(old):
            freed.add(*port)
        shared = len(freed) > 0 and any(freed.conflicts(*port) for port in host_ports(pod))
        return QueueingHint.QUEUE if shared else QueueingHint.SKIP

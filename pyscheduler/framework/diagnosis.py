"""`Diagnosis`: the reasons why a pod could not be scheduled, by node and by plugin, and the message for users."""

from __future__ import annotations

from collections import Counter

import attrs

from pyscheduler.framework.node_statuses import NodeStatuses
from pyscheduler.framework.status import Code, Status

__all__ = ["NO_NODES_AVAILABLE", "Diagnosis", "FitError", "NoNodesError"]

NO_NODES_AVAILABLE = "no nodes available to schedule pods"


class NoNodesError(Exception):
    """The snapshot holds no node at all."""

    def __init__(self) -> None:
        super().__init__(NO_NODES_AVAILABLE)


@attrs.define(kw_only=True)
class Diagnosis:
    """The findings of an attempt; PostFilter plugins and the queue read them."""

    #: Made when somebody asks: most attempts find a node.
    _node_statuses: NodeStatuses | None = None
    #: Plugins that rejected the pod or nodes; the queue asks their hints.
    unschedulable_plugins: set[str] = attrs.Factory(set)
    #: Plugins that answered PENDING.
    pending_plugins: set[str] = attrs.Factory(set)
    #: The shortest `retry_after_seconds` of the rejections, and whose it is.
    retry_after_seconds: float | None = None
    retry_plugin: str = ""
    #: Why PreFilter rejected the pod; then no node was looked at.
    pre_filter_message: str = ""
    #: What PostFilter had to say.
    post_filter_message: str = ""

    @property
    def node_statuses(self) -> NodeStatuses:
        """Return why each node was refused, and what nodes get that no filter looked at."""
        if self._node_statuses is None:
            self._node_statuses = NodeStatuses(0)
        return self._node_statuses

    @node_statuses.setter
    def node_statuses(self, statuses: NodeStatuses) -> None:
        self._node_statuses = statuses

    def add_plugin_status(self, status: Status) -> None:
        """Note which plugin rejected, and when it wants a retry, by the status it gave."""
        self.note_retry(status)
        if not status.plugin:
            return
        if status.code == Code.PENDING:
            self.pending_plugins.add(status.plugin)
        elif status.is_rejected:
            self.unschedulable_plugins.add(status.plugin)

    def note_retry(self, status: Status) -> None:
        """Keep when the plugin of a rejection wants a retry, if no other wants one earlier."""
        after = status.retry_after_seconds
        if after is not None and (self.retry_after_seconds is None or after < self.retry_after_seconds):
            self.retry_after_seconds, self.retry_plugin = after, status.plugin


class FitError(Exception):
    """No node fits; `str()` is the message of the FailedScheduling event and of the PodScheduled condition.

    The wording is kube-scheduler's: the number of nodes, then each reason with its count, sorted as text.
    """

    def __init__(self, *, num_all_nodes: int, diagnosis: Diagnosis) -> None:
        self.num_all_nodes = num_all_nodes
        self.diagnosis = diagnosis
        super().__init__()

    def __str__(self) -> str:
        diagnosis = self.diagnosis
        text = f"0/{self.num_all_nodes} nodes are available:"
        if diagnosis.pre_filter_message:
            text += f" {diagnosis.pre_filter_message}."
        else:
            reasons: Counter[str] = Counter()
            for status, number in diagnosis.node_statuses.counts():
                for reason in status.reasons:
                    reasons[reason] += number
            absent = self.num_all_nodes - len(diagnosis.node_statuses)
            if absent > 0:
                for reason in diagnosis.node_statuses.absent.reasons:
                    reasons[reason] += absent
            if reasons:
                text += " " + ", ".join(sorted(f"{number} {reason}" for reason, number in reasons.items())) + "."
        if diagnosis.post_filter_message:
            text += f" {diagnosis.post_filter_message}"
        return text

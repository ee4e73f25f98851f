"""The hook that the entry point names."""

from __future__ import annotations

from pyscheduler.framework.hooks import PluginRegistry, hookimpl

__all__ = ["pyscheduler_register"]


@hookimpl
def pyscheduler_register(registry: PluginRegistry) -> None:
    """Offer the policy, the action and the system to batch profiles."""
    registry.require_api("1.1")
    registry.add_batch("deadline", "deadline_policy.policy:Deadline")
    registry.add_action("overdue", "deadline_policy.action:Overdue")
    registry.add_system("deadlines", "deadline_policy.system:Deadlines")

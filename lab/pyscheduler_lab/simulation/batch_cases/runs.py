"""Run scheduling cycles with the rules of Volcano or kube-batch, on clusters that are given as dicts."""

from __future__ import annotations

import asyncio
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from pyscheduler_batch.contract import Policy
from pyscheduler_batch.model.session import EnabledPolicy
from pyscheduler_batch.model.tasks import ACTIVE
from pyscheduler_lab.simulation.batch_cases.preset_import import system_of
from pyscheduler_lab.simulation.batch_cases.resource_placer import ResourcePlacer
from pyscheduler_lab.simulation.batch_cases.tables import RecordedEffects, Spec, Tables, build_tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler_batch.model.tasks import Task, TaskState

__all__ = ["Run", "Touched", "open_session"]


class Touched(Policy):
    """Remembers which resources each queue has held at any time; it takes no part in decisions."""

    name: ClassVar[str] = "touched"

    def __init__(self, tables: Tables) -> None:
        super().__init__()
        #: bool[Q, R].
        self.seen = tables.queues.allocated > 0
        self._paths = tables.queues.paths

    def moved(self, task: Task, old: TaskState, new: TaskState) -> None:  # noqa: ARG002 - as the contract has it
        """Take notice that a task holds something."""
        if new in ACTIVE and task.job.queue_row >= 0:
            self.seen[self._paths[task.job.queue_row]] |= task.request > 0


@attrs.frozen
class Run:
    """A session that was opened, with what it works on."""

    #: A session of the preset.
    session: Any
    tables: Tables
    effects: RecordedEffects
    #: By name.
    policies: Mapping[str, Any]
    actions: Sequence[Any]

    def act(self) -> None:
        """Run the actions in order."""

        async def act() -> None:
            for action in self.actions:
                await action.run(self.session)

        asyncio.run(act())


def open_session(preset: str, case: Spec) -> Run:
    """Open a session of a preset (`volcano` or `kube-batch`) over the cluster of a case, with its configuration."""
    names = system_of(preset)
    configuration = case["configuration"]
    tiers = [
        [
            EnabledPolicy(
                resolve_name(names.policies[plugin["name"]])(plugin.get("arguments")),
                {key: value for key, value in plugin.items() if key.startswith("enable")},
            )
            for plugin in tier
        ]
        for tier in configuration["tiers"]
    ]
    plugins = {plugin["name"]: plugin for tier in configuration["tiers"] for plugin in tier}
    is_tree = bool(plugins.get("capacity", {}).get("enableHierarchy"))
    tables = build_tables(case["nodes"], case["queues"], case["podGroups"], case["pods"], is_tree=is_tree)
    arguments = plugins.get("nodeorder", {}).get("arguments") or {}
    weights = resolve_name("pyscheduler_volcano.nodeorder:score_weights")(arguments)
    present = [task for job in tables.jobs.values() for task in job.tasks.values() if task.node >= 0]
    effects = RecordedEffects()
    session = resolve_name(names.session)(
        axis=tables.axis,
        nodes=tables.nodes,
        queues=tables.queues,
        jobs=tables.jobs,
        tiers=tiers,
        placer=ResourcePlacer(tables.axis, tables.nodes, present, weights),
        effects=effects,
        now=case.get("now", 0.0),
        has_enqueue="enqueue" in configuration["actions"],
    )
    asyncio.run(session.open())
    policies = {entry.policy.name: entry.policy for tier in tiers for entry in tier}
    actions = [resolve_name(names.actions[name])() for name in configuration["actions"]]
    return Run(session, tables, effects, policies, actions)

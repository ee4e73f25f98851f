"""The step about a pod that a scheduler evicts: for whom, and which disruption budget protects the pod.

The condition DisruptionTarget says that a pod is evicted, until it is gone. Only preemption ignores disruption budgets
if there are no other victims. A budget keeps no pod pending, so no other step would name it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.api import PodDisruptionBudget, kind_of
from pyscheduler.cli.explanation import INFO, Step
from pyscheduler.framework.pod_info import PodInfo
from pyscheduler.runtime.preemption.disruption_budgets import Budgets

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyscheduler.api import Pod
    from pyscheduler.cluster.object_sources import Read

__all__ = ["disruption_steps"]

_BUDGETS: Final = kind_of(PodDisruptionBudget, "poddisruptionbudgets")
_BY_SCHEDULER: Final = "PreemptionByScheduler"


async def disruption_steps(pod: Pod, read: Read, pods: Iterable[Pod]) -> list[Step]:
    """Return the step of a pod that is evicted; none for any other pod. `pods` are those of the cluster."""
    said = next(
        (each for each in pod.status.conditions if (each.type, each.status) == ("DisruptionTarget", "True")), None
    )
    if said is None:
        return []
    text = f"{said.reason}: {said.message}"
    if said.reason == _BY_SCHEDULER:
        heirs = [each.key for each in pods if pod.node_name and each.status.nominated_node_name == pod.node_name]
        if heirs:
            text += f"; {pod.node_name} is promised to {', '.join(sorted(heirs))}"
        budgets = [each for each in await read(_BUDGETS) if isinstance(each, PodDisruptionBudget)]
        violated = Budgets(budgets).violated_by([PodInfo.of(pod)])
        if violated:
            text += f"; violates the disruption budget {', '.join(violated)}"
    return [Step("eviction", INFO, "", text)]

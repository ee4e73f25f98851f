"""POST pods/<name>/eviction: delete a pod, unless a disruption budget forbids it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from kube_objects.errors import SelectorError
from kube_objects.meta import LabelSelector
from kube_objects.selectors import compile_label_selector
from kube_objects.times import format_time
from kube_testserver import errors
from kube_testserver.conditions import has_condition, set_condition
from kube_testserver.resources import builtin
from kube_testserver.rules import deletion
from kube_testserver.rules.deletion import DeleteOptions
from kube_testserver.rules.validation import check_body

if TYPE_CHECKING:
    from kube_objects.requirements import CompiledSelector
    from kube_testserver.registry import Registry
    from kube_testserver.store import Object, Record

__all__ = ["budget_selector", "evict"]

_VIOLATION: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_RETRY_SECONDS: Final = 10


def evict(registry: Registry, namespace: str, name: str, eviction: Object, *, dry_run: bool = False) -> None:
    """Evict the pod of that name, or refuse (400, 404, 409, 429, 500)."""
    check_body(eviction, "policy", "v1", "Eviction")
    if (eviction.get("metadata") or {}).get("name") != name:
        raise errors.bad_request("name in URL does not match name in Eviction object")
    options = deletion.options_of(eviction.get("deleteOptions") or {}, dry_run=dry_run)
    record = registry.get(builtin.PODS, namespace, name)
    pod = record.decode()
    if not _goes_freely(pod):
        _ask_budget(registry, record, pod, dry_run=options.dry_run)
    deletion.check_preconditions(builtin.PODS, record, options)
    if options.dry_run:
        return
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": format_time(registry.wall()),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    set_condition(pod.setdefault("status", {}), condition)
    registry.put(builtin.PODS, record, pod)
    registry.delete(builtin.PODS, namespace, name, DeleteOptions(grace_seconds=options.grace_seconds))


def _goes_freely(pod: Object) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]


def _ask_budget(registry: Registry, record: Record, pod: Object, *, dry_run: bool) -> None:
    budgets = _budgets_of(registry, record)
    if not budgets:
        return
    if len(budgets) > 1:
        raise errors.StatusError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            code=500,
            reason="",
        )
    budget_record, budget = budgets[0]
    spec, status = budget.get("spec") or {}, budget.get("status") or {}
    if not has_condition(pod.get("status") or {}, "Ready"):
        healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        if spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow" or healthy >= desired > 0:
            return
    _take_one(budget)
    if not dry_run:
        disrupted = budget["status"].get("disruptedPods") or {}
        budget["status"]["disruptedPods"] = {**disrupted, record.name: format_time(registry.wall())}
        registry.put(builtin.DISRUPTION_BUDGETS, budget_record, budget)


def _take_one(budget: Object) -> None:
    """Count one disruption less, or refuse (403, 429)."""
    name = budget["metadata"]["name"]
    status = budget.setdefault("status", {})
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        message = f"The disruption budget {name} is still being processed by the server."
        raise _refused(message, _RETRY_SECONDS)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise errors.forbidden("policy", "poddisruptionbudget", name, "pdb disruptions allowed is negative")
    if allowed == 0:
        desired, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        message = f"The disruption budget {name} does not allow evicting pods currently"
        if healthy <= desired:
            message = f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        raise _refused(message, 0)
    status["disruptionsAllowed"] = allowed - 1


def _refused(message: str, retry_after_seconds: int) -> errors.StatusError:
    causes = [{"reason": "DisruptionBudget", "message": message}]
    return errors.too_many_requests(_VIOLATION, retry_after_seconds, causes=causes)


def budget_selector(budget: Object) -> CompiledSelector | None:
    """Return the compiled selector of a budget; None, which selects nothing, if it has none or an invalid one."""
    selector = (budget.get("spec") or {}).get("selector")
    try:
        return None if selector is None else compile_label_selector(msgspec.convert(selector, LabelSelector))
    except (msgspec.ValidationError, SelectorError):
        return None


def _budgets_of(registry: Registry, record: Record) -> list[tuple[Record, Object]]:
    found = []
    collection = registry.collection(builtin.DISRUPTION_BUDGETS)
    for one in collection.page(prefix=f"{record.namespace}/").records:
        budget = one.decode()
        selector = budget_selector(budget)
        if selector is not None and selector.matches(record.labels):
            found.append((one, budget))
    return found

"""Run recorded scheduling cycles of Volcano in pyscheduler, and return the results in the format of the recording."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from pyscheduler_batch.model.axis import CPU, MEMORY
from pyscheduler_batch.model.decisions import DecisionKind
from pyscheduler_batch.model.tasks import Job, TaskState
from pyscheduler_lab.simulation.batch_cases.objects import run_pass
from pyscheduler_lab.simulation.batch_cases.runs import Touched
from pyscheduler_lab.simulation.batch_cases.tables import RecordedEffects, Tables
from pyscheduler_lab.simulation.batch_cases.volcano_objects import args_of, objects_of
from pyscheduler_lab.simulation.batch_cases.volcano_queues import run_queue_case

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from pyscheduler_batch.model.axis import Amounts
    from pyscheduler_lab.simulation.batch_cases.tables import Spec

__all__ = ["run_case", "run_queue_case"]

_UNLIMITED: Final = 1e300


def run_case(case: Spec) -> Spec:
    """Run one recorded session; return `{"id", "actual"}` in the form of the recording's `expected`."""
    now = case.get("now", 0.0)
    offered = {name for node in case["nodes"] for name in node["allocatable"]}
    actual: Spec = {}
    reports: list[_Report] = []

    def at_opening(session: Any) -> None:
        tables = Tables(session.axis, session.nodes, session.queues, session.jobs)
        touched = Touched(tables)
        session.ledger.listeners.append(touched)
        policies = {entry.policy.name: entry.policy for tier in session.tiers for entry in tier}
        report = _Report(session, RecordedEffects(), policies, tables, touched, offered)
        reports.append(report)
        actual.update(report.at_opening(case))

    def at_close(session: Any) -> None:
        (report,) = reports
        for each in session.effects.items:
            if each.kind is DecisionKind.BIND:
                report.effects.bind(each.task, each.node)
            elif each.kind is DecisionKind.EVICT:
                report.effects.evict(each.task, action=each.action, by=each.by)
        report.at_close(actual)

    run_pass(args_of(case), objects_of(case, now), now=now, at_opening=at_opening, at_close=at_close)
    return {"id": case["id"], "actual": actual}


@attrs.frozen
class _Report:
    """Writes what the recordings hold."""

    session: Any
    effects: RecordedEffects
    policies: Mapping[str, Any]
    tables: Tables
    touched: Touched
    #: Names of the resources that some node offers.
    offered: set[str]

    def at_opening(self, case: Spec) -> Spec:
        """Return the part of the report that is taken before any action."""
        actual: Spec = {"podGroups": {}, "pods": {}}
        for job in self.tables.jobs.values():
            actual["podGroups"][_name(job)] = self._group_at_opening(job)
        policy = self._queue_policy()
        if policy is not None:
            actual["queues"] = {
                name: self._queue_at_opening(policy, row)
                for row, name in enumerate(self.tables.queues.names)
                if getattr(policy, "is_tree", False) or policy.sums.has_jobs[row]
            }
        drf = self.policies.get("drf")
        if drf is not None and drf.tree is not None:
            actual["hierarchyTree"] = self._tree(drf)
        if case["family"] == "binpack":
            actual["nodeScores"] = self._scores()
        return actual

    def _queue_policy(self) -> Any:
        return self.policies.get("proportion") or self.policies.get("capacity")

    def _group_at_opening(self, job: Job) -> Spec:
        if job.queue_row < 0:
            return {}  # its queue does not exist, so it is not in the session
        refusal = self.session.gates.job_valid(job)
        found: Spec = {"valid": refusal is None, "starving": self.session.gates.job_starving(job)}
        if refusal is not None:
            found["reason"] = refusal.reason
        if "drf" in self.policies:
            found["drfShareBefore"] = self.policies["drf"].share(job)
        return found

    def _queue_at_opening(self, policy: Any, row: int) -> Spec:
        sums = policy.sums
        is_built = getattr(policy, "is_sound", True)
        nothing = np.zeros(len(self.tables.axis))
        found: Spec = {
            "deserved": self._amounts(policy.deserved[row], self._has_deserved(policy, row)),
            "realCapability": self._amounts(policy.real_capability[row], self._has_limit(policy, row)),
            "request": self._amounts(sums.request[row] if is_built else nothing),
            "allocatedBefore": self._amounts(policy.allocated[row] if is_built else nothing),
            "inqueueBefore": self._amounts(sums.inqueue[row] if is_built else nothing),
            "elasticBefore": self._amounts(sums.elastic[row] if is_built else nothing),
            "shareBefore": policy.share(row),
        }
        if policy.name == "proportion":
            found["overusedBefore"] = policy.overused(row)
        return found

    def _has_deserved(self, policy: Any, row: int) -> NDArray[np.bool_]:
        """Return bool[R]: the resources that the queue has a deserved amount of, 0 included."""
        if policy.name == "proportion":
            offered = np.array([name in self.offered for name in self.tables.axis.names])
            has: NDArray[np.bool_] = offered | ~np.isnan(self.tables.queues.guarantee[row])
            return has
        return np.asarray(policy.is_set[row], dtype=np.bool_)

    def _has_limit(self, policy: Any, row: int) -> NDArray[np.bool_]:
        """Return bool[R]: the resources that the queue has a limit of, 0 included."""
        queues = self.tables.queues
        if not getattr(policy, "is_sound", True):
            return np.zeros(len(self.tables.axis), dtype=np.bool_)
        is_tree = getattr(policy, "is_tree", False)
        above = int(queues.parent[row]) if is_tree else -1
        if is_tree and above < 0:
            # A root without any capability is unlimited in what the cluster offers.
            limit = policy.real_capability[row]
            return np.asarray(limit > 0 if np.isinf(limit).any() else ~np.isnan(queues.limit[row]), dtype=np.bool_)
        pool = policy.real_capability[above] if is_tree else self.session.total
        rest = pool - np.nan_to_num(queues.guarantee[queues.parent == above]).sum(axis=0)
        has: NDArray[np.bool_] = (rest > 0) | ~np.isnan(queues.guarantee[row])
        return has

    def _amounts(self, amounts: Amounts, known: NDArray[np.bool_] | None = None) -> Spec:
        """Return the amounts by name: cpu and memory always, others if they are not 0 or are known (bool[R])."""
        names = self.tables.axis.names
        shown = amounts != 0 if known is None else (amounts != 0) | known
        return {
            name: "unlimited" if amount > _UNLIMITED else amount
            for name, amount, is_shown in zip(names, amounts.tolist(), shown.tolist(), strict=True)
            if is_shown or name in {CPU, MEMORY}
        }

    def _tree(self, drf: Any) -> Spec:
        tree, state = drf.tree, drf.state()
        names = list(tree.paths)
        for row, job in enumerate(self.session.books.jobs):
            names.append(f"{tree.paths[tree.parent[tree.first_job + row]]}/{job.uid}")
        rows = zip(names, state.share[:, 0].tolist(), tree.weight.tolist(), state.saturated[:, 0].tolist(), strict=True)
        return {name: [share, weight, saturated] for name, share, weight, saturated in rows}

    def _scores(self) -> Spec:
        nodes = self.tables.nodes
        rows = np.arange(len(nodes))
        return {
            task.uid: dict(zip(nodes.names, self.session.places.scores(task, rows).tolist(), strict=True))
            for job in self.tables.jobs.values()
            for task in job.tasks.values()
            if task.state == TaskState.PENDING
        }

    def at_close(self, actual: Spec) -> None:
        """Add what came of the actions."""
        gang_condition = resolve_name("pyscheduler_volcano.status:gang_condition")
        group_phase = resolve_name("pyscheduler_volcano.status:group_phase")
        policy = self._queue_policy()
        for name, found in actual.get("queues", {}).items():
            row = self.tables.queues.index[name]
            is_built = getattr(policy, "is_sound", True)
            held = policy.allocated[row] if is_built else np.zeros(len(self.tables.axis))
            found["allocatedAfter"] = self._amounts(held, self.touched.seen[row] & is_built)
            found["shareAfter"] = policy.share(row)
        for job in self.tables.jobs.values():
            found = actual["podGroups"][_name(job)]
            results = self._results(job, actual["pods"])
            for result in ("bound", "pipelined", "evicted"):
                found[f"{result}Count"] = results.count(result)
            if job.queue_row < 0:
                found |= {"phase": job.phase, "conditions": {}}
                continue
            condition = gang_condition(job, self.session) if "gang" in self.policies else None
            is_unschedulable = condition is not None and condition.type == "Unschedulable"
            found["phase"] = group_phase(job, is_unschedulable=is_unschedulable)
            found["conditions"] = {}
            if condition is not None:
                found["conditions"][condition.type] = condition.reason if is_unschedulable else True
            if "drf" in self.policies:
                found["drfShareAfter"] = self.policies["drf"].share(job)

    def _results(self, job: Job, pods: Spec) -> list[str]:
        results: list[str] = []
        evicted = set(self.effects.evicted)
        for task in job.tasks.values():
            if task.uid in self.effects.bound:
                result = "bound"
            elif task.uid in evicted:
                result = "evicted"
            elif task.state == TaskState.PIPELINED:
                result = "pipelined"
            elif task.state == TaskState.ALLOCATED:
                result = "allocatedNotBound"
            else:
                continue
            results.append(result)
            pods[task.uid] = {"result": result}
            if result != "evicted":
                pods[task.uid]["node"] = self.tables.nodes.names[task.node]
        return results


def _name(job: Job) -> str:
    return job.uid.partition("/")[2]

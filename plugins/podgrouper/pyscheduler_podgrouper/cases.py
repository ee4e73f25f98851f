"""Compute the pod groups for test cases in files.

A case has a `workload` (the top owner of the pods) and its `pods`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs
import msgspec
import yaml

from kube_objects.codec import strip_nulls
from pyscheduler.api import ObjectMeta, Pod
from pyscheduler.framework import ConfigError
from pyscheduler_podgrouper.apply import with_kept_fields
from pyscheduler_podgrouper.contract import ObjectForbiddenError, ObjectNotFoundError, Owner, Settings, split_version
from pyscheduler_podgrouper.fields import GroupingError
from pyscheduler_podgrouper.generic import POD_GROUP_ANNOTATION
from pyscheduler_podgrouper.planning import plan_group
from pyscheduler_podgrouper.rules.simple import PODGROUP_API_VERSION
from pyscheduler_podgrouper.table import GrouperTable

if TYPE_CHECKING:
    from pyscheduler_podgrouper.contract import GroupPlan, TopologyPlan

__all__ = ["Case", "answer_cases"]

Json = dict[str, Any]

#: Settings of a case, and the attribute of `Settings`.
_SETTINGS: Final = {
    "queueLabelKey": "queue_label_key",
    "nodePoolLabelKey": "node_pool_label_key",
    "defaultQueue": "default_queue",
    "searchForLegacyPodGroups": "search_for_legacy_pod_groups",
    "gangScheduleKnative": "gang_schedule_knative",
    "defaultsConfigMap": "defaults_config_map",
    "defaultsConfigMapNamespace": "defaults_config_map_namespace",
}


_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SafeLoader):  # type: ignore[misc]  # which class it is depends on how PyYAML was built
    """Reads times as texts, as the API server does."""

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in _SafeLoader.yaml_implicit_resolvers.items()
    }


def answer_cases(path: str, table: GrouperTable | None = None) -> Iterator[Json]:
    """Return the answer to each case of a YAML file: `{"id", "actual"}`, or `{"id", "error"}` for a broken case.

    `actual` has an entry for each pod, with `podGroup` and `podSubGroup`, or `error`, or `skipped`. Raises
    `ConfigError` if the file cannot be read.
    """
    try:
        content = yaml.load(Path(path).read_bytes(), Loader=_Loader)  # noqa: S506 - it is a SafeLoader
    except OSError as error:
        raise ConfigError(f"the file with cases cannot be read: {error.strerror}", source=path) from error
    except yaml.YAMLError as error:
        raise ConfigError(f"the file with cases is not YAML: {' '.join(str(error).split())}", source=path) from error
    cases = content.get("cases") if isinstance(content, dict) else None
    if not isinstance(cases, list):
        raise ConfigError('the file with cases has no list "cases"', source=path)
    defaults = content.get("defaults") or {}
    for number, case in enumerate(cases, start=1):
        if not isinstance(case, dict):
            yield {"id": f"case {number}", "error": "a case is an object"}
            continue
        try:
            answer = Case(case, defaults).answer(table or GrouperTable())
        except (AttributeError, LookupError, TypeError, ValueError, msgspec.ValidationError) as error:
            yield {"id": case.get("id", f"case {number}"), "error": f"the case cannot be read: {error}"}
        else:
            yield {"id": case.get("id", f"case {number}"), "actual": answer}


class Case:
    """The cluster of a case, as rules read it."""

    def __init__(self, case: Json, defaults: Mapping[str, Any]) -> None:
        given = {**defaults, **(case.get("config") or {})}
        self.settings = Settings(**{name: given[key] for key, name in _SETTINGS.items() if key in given})
        self._scheduler = given.get("schedulerName", "kai-scheduler")
        self._forbidden = frozenset((case.get("faults") or {}).get("forbidden") or ())
        self._pods = [msgspec.convert(strip_nulls(pod), Pod) for pod in case.get("pods") or ()]
        others = [case.get("workload"), *(case.get("chain") or ()), *(case.get("cluster") or ())]
        self._objects: dict[tuple[str, str, str, str], Owner] = {}
        for item in others:
            if item is not None:
                self._add(_owner(item))
        for pod in self._pods:
            self._add(Owner.from_object(pod))
        self._all_pods = self._pods + [
            msgspec.convert(strip_nulls(item), Pod)
            for item in others
            if item is not None and item.get("kind") == "Pod" and item["metadata"].get("uid") not in self._uids
        ]
        for name in given.get("priorityClasses") or ():
            self._add(Owner(api_version="scheduling.k8s.io/v1", kind="PriorityClass", name=name))

    @property
    def _uids(self) -> frozenset[str]:
        return frozenset(pod.uid for pod in self._pods)

    def _add(self, owner: Owner) -> None:
        self._objects[owner.api_version, owner.kind, owner.namespace, owner.name] = owner

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> Owner:
        """Return an object; one without a namespace is found in any."""
        if f"{kind}/{name}" in self._forbidden:
            raise ObjectForbiddenError(f"{kind} {namespace}/{name} is forbidden")
        for where in (namespace, ""):
            found = self._objects.get((api_version, kind, where, name)) or self._converted(
                api_version, kind, where, name
            )
            if found is not None:
                return found
        raise ObjectNotFoundError(f'{kind} "{name}" not found')

    def _converted(self, api_version: str, kind: str, namespace: str, name: str) -> Owner | None:
        """Return an object that is stored in another version: an API server serves it in each of its versions."""
        group = split_version(api_version)[0]
        for (other, *rest), owner in self._objects.items():
            if rest == [kind, namespace, name] and group and split_version(other)[0] == group:
                return attrs.evolve(owner, api_version=api_version)
        return None

    def pods(self, namespace: str, *, labels: Mapping[str, str]) -> Sequence[Pod]:
        """Return the pods with these labels."""
        return [
            pod
            for pod in self._all_pods
            if pod.namespace == namespace and all(pod.labels.get(key) == value for key, value in labels.items())
        ]

    def members(self, namespace: str, group: str) -> Sequence[Pod]:
        """Return the pods that name a group."""
        found = self.pods(namespace, labels={})
        return [pod for pod in found if pod.annotations.get(POD_GROUP_ANNOTATION) == group]

    def answer(self, table: GrouperTable) -> list[Json]:
        """Return the answer for each pod."""
        return [{"pod": pod.name, **self._answer(pod, table)} for pod in self._pods]

    def _answer(self, pod: Pod, table: GrouperTable) -> Json:
        if pod.scheduler_name != self._scheduler:
            return {"skipped": True}
        try:
            plan = plan_group(pod, self, table)
        except GroupingError as error:
            return {"error": str(error)}
        if plan is None:
            return {"skipped": True}
        return {"podGroup": self._shown(plan), "podSubGroup": plan.sub_group_of(pod)}

    def _shown(self, plan: GroupPlan) -> Json:
        """Return the group as it is after the write; one that exists keeps some fields."""
        existing = self._objects.get((PODGROUP_API_VERSION, "PodGroup", plan.namespace, plan.name))
        labels: Mapping[str, str] = plan.labels
        annotations: Mapping[str, str] = plan.annotations
        if existing is not None:
            plan = with_kept_fields(plan, existing, self.settings)
            labels = {**existing.labels, **plan.labels}
            annotations = {**existing.annotations, **plan.annotations}
        return {
            "name": plan.name,
            "namespace": plan.namespace,
            "minMember": plan.min_member,
            "queue": plan.queue,
            "priorityClassName": plan.priority_class_name,
            "preemptibility": plan.preemptibility,
            "owner": {
                "apiVersion": plan.owner.api_version,
                "kind": plan.owner.kind,
                "name": plan.owner.name,
                "uid": plan.owner.uid,
            },
            "subGroups": [
                {
                    "name": each.name,
                    "minMember": each.min_member,
                    **({"parent": each.parent} if each.parent is not None else {}),
                    **({"topologyConstraint": _constraint(each.topology)} if each.topology is not None else {}),
                }
                for each in plan.sub_groups
            ],
            "topologyConstraint": _constraint(plan.topology) if plan.topology else {},
            "labels": labels,
            "annotations": annotations,
        }


def _constraint(topology: TopologyPlan) -> Json:
    return {
        "topology": topology.topology,
        "requiredTopologyLevel": topology.required,
        "preferredTopologyLevel": topology.preferred,
    }


def _owner(item: Json) -> Owner:
    metadata = msgspec.convert(strip_nulls(item["metadata"]), ObjectMeta)
    body = {name: value for name, value in item.items() if name not in {"apiVersion", "kind", "metadata"}}
    return Owner.from_metadata(item["apiVersion"], item["kind"], metadata, body)

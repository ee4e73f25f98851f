"""Small workloads for tests of rules: objects in wire form, and the answer for their pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyscheduler_podgrouper.cases import Case
from pyscheduler_podgrouper.table import GrouperTable

Json = dict[str, Any]

DEFAULTS: Json = {
    "schedulerName": "kai-scheduler",
    "priorityClasses": {"train": 50, "build": 100, "inference": 125, "urgent": 200},
}


def item(api_version: str, kind: str, name: str, *, owners: Sequence[Json] = (), **fields: Any) -> Json:
    """Return an object; `labels` and `annotations` become metadata, other fields are beside it."""
    metadata: Json = {"name": name, "namespace": "ml", "uid": f"uid-{name}"}
    metadata |= {key: fields.pop(key) for key in ("labels", "annotations") if key in fields}
    metadata |= fields.pop("metadata", {})
    if owners:
        metadata["ownerReferences"] = [reference(owner) for owner in owners]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def reference(owner: Json) -> Json:
    """Return the reference to an object."""
    named = {key: owner["metadata"][key] for key in ("name", "uid")}
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], **named}


def pod(name: str, *owners: Json, spec: Mapping[str, Any] | None = None, **fields: Any) -> Json:
    """Return a pod."""
    return item("v1", "Pod", name, owners=owners, spec={"schedulerName": "kai-scheduler", **(spec or {})}, **fields)


def answers(*pods: Json, objects: Sequence[Json] = (), table: GrouperTable | None = None, **case: Any) -> list[Json]:
    """Return the answers for pods in a cluster with `objects`; `case` has further fields of a case."""
    given = {"pods": list(pods), "cluster": list(objects), **case}
    return Case(given, DEFAULTS).answer(table or GrouperTable())


def group_of(*pods: Json, objects: Sequence[Json] = (), **case: Any) -> Json:
    """Return the group of the first pod, which must have one, with the name of its sub-group as `podSubGroup`."""
    (answer, *_) = answers(*pods, objects=objects, **case)
    assert "podGroup" in answer, answer
    return {**answer["podGroup"], "podSubGroup": answer["podSubGroup"]}


def error_of(*pods: Json, objects: Sequence[Json] = (), **case: Any) -> str:
    """Return why the first pod cannot be grouped."""
    (answer, *_) = answers(*pods, objects=objects, **case)
    assert "error" in answer, answer
    error: str = answer["error"]
    return error


def minima(group: Json) -> dict[str, int]:
    """Return the minimum of each sub-group by name, in order."""
    return {each["name"]: each["minMember"] for each in group["subGroups"]}

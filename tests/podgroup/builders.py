"""Builders of group objects and members."""

from __future__ import annotations

from typing import Any

import msgspec

from pyscheduler.api import KubeObject, Pod, ResourceKind, decode
from pyscheduler.podgroup import DIALECTS
from pyscheduler.testing import make_pod

ROWS = {dialect.name: dialect for dialect in DIALECTS}
SIGS = "scheduling.x-k8s.io/pod-group"
GANG = "gang.scheduling.koordinator.sh/"


def kind_in(dialect: str, number: int = 0) -> ResourceKind:
    """Return a kind that describes groups of a dialect."""
    return ROWS[dialect].kinds[number]


def make_group(
    name: str,
    *,
    dialect: str = "sigs",
    kind: int = 0,
    namespace: str = "default",
    created: str = "2026-01-01T00:00:00Z",
    annotations: dict[str, str] | None = None,
    uid: str = "",
    **spec: Any,
) -> KubeObject:
    """Return a group object as the scheduler reads it; `spec` in wire form."""
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"group-{namespace}-{name}",
        "creationTimestamp": created,
        "annotations": annotations or {},
    }
    return decode(kind_in(dialect, kind).type, msgspec.json.encode({"metadata": metadata, "spec": spec}))


def created(pod: Pod, moment: str) -> Pod:
    """Return the pod as one that was created at another time."""
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, creation_timestamp=moment))


def member(name: str, group: str = "", **keywords: Any) -> Pod:
    """Return a pod that belongs to a group of scheduler-plugins."""
    labels = {**keywords.pop("labels", {}), **({SIGS: group} if group else {})}
    return make_pod(name, labels=labels, **keywords)

"""Short ways to write terms of pod affinity, and namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyscheduler.api import Namespace, ObjectMeta, Pod
from pyscheduler.testing.builders import make_pod

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def namespace_of(name: str, labels: Mapping[str, str]) -> Namespace:
    """Make a namespace."""
    return Namespace(metadata=ObjectMeta(name=name, labels=dict(labels)))


def namespaces_of(labels: Mapping[str, Mapping[str, str]]) -> list[Namespace]:
    """Make namespaces, by name."""
    return [namespace_of(name, each) for name, each in labels.items()]


def term(topology_key: str = ZONE, **fields: Any) -> dict[str, Any]:
    """Write a term about pods of `app: a`, but for what `fields` say."""
    return {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": topology_key, **fields}


def wish(weight: int, topology_key: str = ZONE, **fields: Any) -> dict[str, Any]:
    """Write a preferred term."""
    return {"weight": weight, "podAffinityTerm": term(topology_key, **fields)}


def terms(
    *,
    near: Iterable[Any] = (),
    away: Iterable[Any] = (),
    rather_near: Iterable[Any] = (),
    rather_away: Iterable[Any] = (),
) -> dict[str, Any]:
    """Write an affinity of required and preferred terms."""
    return {
        "podAffinity": {REQUIRED: list(near), PREFERRED: list(rather_near)},
        "podAntiAffinity": {REQUIRED: list(away), PREFERRED: list(rather_away)},
    }


def pod_of(name: str = "p", node_name: str = "", *, app: str = "a", **keywords: Any) -> Pod:
    """Make a pod of `app: a`; keywords of `terms` become its affinity, the others go to `make_pod`."""
    wanted = {key: keywords.pop(key) for key in ("near", "away", "rather_near", "rather_away") if key in keywords}
    affinity = terms(**wanted) if wanted else None
    return make_pod(name, **{"labels": {"app": app}, **keywords}, node_name=node_name, affinity=affinity)

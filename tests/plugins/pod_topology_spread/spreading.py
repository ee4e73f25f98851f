"""Short ways to write spread pods."""

from __future__ import annotations

from typing import Any

import msgspec

from pyscheduler.api import Pod
from pyscheduler.testing.builders import make_pod

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def constraint_of(**fields: Any) -> dict[str, Any]:
    """Write a hard constraint over zones on pods of `app: a`, but for what `fields` say."""
    return {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
        **fields,
    }


def spread_pod(name: str = "p", *constraints: dict[str, Any], **keywords: Any) -> Pod:
    """Make a pod of `app: a` with constraints."""
    spec = {"topologySpreadConstraints": list(constraints), **keywords.pop("spec", {})}
    return make_pod(name, **{"labels": {"app": "a"}, **keywords}, spec=spec)


def terminating(pod: Pod) -> Pod:
    """Return the pod while it is being deleted."""
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(pod, metadata=metadata)

"""Make the equivalence key of a pod: pods with equal keys share cached answers of plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.api import Pod

__all__ = ["equivalence_key"]

_encode = msgspec.msgpack.Encoder().encode


def equivalence_key(pod: Pod, annotations: Sequence[str] = ()) -> bytes | None:
    """Return the key of a pod; None for a pod that has run already (a resized one), or has resource claims.

    `annotations`: the names of those that belong to the key, in an order that is always the same.

    The devices for a claim depend on what other claims have. Two pods that ask the same may have different keys: one
    CPU can be written as `1` and as `1000m`.
    """
    spec, status = pod.spec, pod.status
    if status.container_statuses or status.init_container_statuses or status.resources or status.allocated_resources:
        return None
    if spec.resource_claims:
        return None
    affinity, noted = spec.affinity, pod.annotations
    return _encode(
        (
            spec.containers,
            spec.init_containers,
            spec.overhead,
            spec.resources,
            spec.node_selector,
            affinity.node_affinity if affinity is not None else None,
            spec.tolerations,
            spec.node_name,
            spec.host_network,
            spec.host_users,
            [volume.image for volume in spec.volumes if volume.image is not None] if spec.volumes else None,
            [(name, noted[name]) for name in annotations if name in noted] if noted else (),
        )
    )

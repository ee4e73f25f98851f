"""What of a pod the answers that can be kept depend on, as one value to look them up by.

The fragments of `sign_pod` will not do. They are kube-scheduler's, which leave out what makes two pods differ in rare
cases (the protocol of a host port, how requests are split over containers), and they deny a signature to pods that are
to be spread, though only one plugin cares. A key is exact instead: it is made of all that the promise of `Reuse` lets a
plugin look at. Pods of one template differ in names, labels and the names of volumes, none of which is part of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pyscheduler.api import Pod

__all__ = ["equivalence_key"]

_encode = msgspec.msgpack.Encoder().encode


def equivalence_key(pod: Pod) -> bytes | None:
    """Return what stands for all that `pod` asks of a node; None where nothing can.

    So it is for a pod that has run already, as resized ones have, and for one with resource claims: what it may have
    depends on what other claims have. Pods with equal keys ask the same. Not the other way round: one CPU can be
    written as `1` and as `1000m`.
    """
    spec, status = pod.spec, pod.status
    if status.container_statuses or status.init_container_statuses or status.resources or status.allocated_resources:
        return None
    if spec.resource_claims:
        return None
    affinity = spec.affinity
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
        )
    )

"""ImageLocality: prefer nodes that already have the pod's images; larger images count more.

An image counts less if few nodes have it, so that one node with a rare image does not attract all pods.

Differs from kube-scheduler: the number of nodes that have an image is always current.
Source: kube-scheduler 1.36, `imagelocality`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler.framework import (
    MAX_SCORE,
    Reuse,
    ScorePlugin,
    SignFragment,
    SignPlugin,
)
from pyscheduler.framework.signatures import IMAGE_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.framework import CycleState, Nodes

__all__ = ["ImageLocality", "normalize_image"]

_MIB: Final = 1024 * 1024
_MIN_BYTES: Final = 23 * _MIB
_MAX_BYTES_PER_CONTAINER: Final = 1000 * _MIB


def normalize_image(name: str) -> str:
    """Return the image's name with the tag that is meant where none is given."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


class ImageLocality(ScorePlugin, SignPlugin):
    """Score nodes by the bytes of the pod's images that they need not pull."""

    reuse = Reuse.WHILE_NODES_STAY

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        total_nodes = len(self.handle.snapshot.nodes)
        present = np.zeros(len(nodes), dtype=np.int64)
        found = False
        for name in _images(pod):
            image = nodes.image(name)
            if image is not None:
                found = True
                present[image.rows] += int(float(image.size) * (float(image.num_nodes) / float(total_nodes)))
        if not found:
            return present
        spec = pod.spec
        # Volumes made from images add to the bytes, but not to the number of containers.
        most = _MAX_BYTES_PER_CONTAINER * (len(spec.containers) + len(spec.init_containers))
        np.clip(present, _MIN_BYTES, max(most, _MIN_BYTES), out=present)
        return MAX_SCORE * (present - _MIN_BYTES) // (most - _MIN_BYTES)

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        return (SignFragment(IMAGE_NAMES, tuple(sorted({normalize_image(each.image) for each in containers}))),)


def _images(pod: Pod) -> Iterator[str]:
    """Yield the pod's images, as often as they are used."""
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        yield normalize_image(container.image)
    for volume in pod.spec.volumes:
        if volume.image is not None:
            yield normalize_image(volume.image.reference)

"""The feature gates of kube-scheduler 1.36 that pyscheduler does not fully support.

Gates of other components are accepted without effect, so that one `--feature-gates` value serves all components. Most
gates of kube-scheduler are locked or implemented. This module lists the rest, so that nobody assumes a wrong state of a
feature.

Differs from kube-scheduler: gates in `NOT_IMPLEMENTED` stay off, with a warning, whatever the flag says.
"""

from __future__ import annotations

from typing import Final

__all__ = ["NOT_IMPLEMENTED", "NO_EFFECT"]

NOT_IMPLEMENTED: Final[dict[str, str]] = {
    "CoordinatedLeaderElection": "instances elect their leader among themselves only",
    "DRAListTypeAttributes": "attributes that are lists are not compared",
    "DRANodeAllocatableResources": "CPU and memory cannot be allocated through claims",
    "DRAWorkloadResourceClaims": "claims cannot be reserved for a PodGroup; name one claim in its pods",
}
"""Gates that stay off, each with what is missing and what to do instead."""

NO_EFFECT: Final[dict[str, tuple[bool, str]]] = {
    "InPlacePodLevelResourcesVerticalScaling": (False, "resizes of pod-level resources always count"),
    "NativeHistograms": (True, "histograms have fixed buckets"),
    "PodLevelResources": (False, "pod-level resources always count"),
}
"""Gates that may be set to a value that changes nothing, with that value and the reason."""

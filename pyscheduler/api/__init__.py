"""The types of Kubernetes objects for authors of plugins, imported from `kube_objects`."""

from __future__ import annotations

from kube_objects import *  # noqa: F403 - one list of names, and it is there

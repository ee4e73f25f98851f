"""Kubernetes objects as the scheduler reads them: the names of `kube_objects`, for authors of plugins."""

from __future__ import annotations

from kube_objects import *  # noqa: F403 - one list of names, and it is there

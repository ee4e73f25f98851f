"""The types of Kubernetes objects as the scheduler reads them, imported from `kube_objects` for authors of plugins."""

from __future__ import annotations

from kube_objects import *  # noqa: F403 - one list of names, and it is there

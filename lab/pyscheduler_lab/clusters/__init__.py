"""Clusters: the nodes on which a trace is replayed, their power consumption, and when they fail."""

from __future__ import annotations

from pyscheduler_lab.clusters.cluster import NODE_LISTS as NODE_LISTS, Cluster as Cluster
from pyscheduler_lab.clusters.node import Node as Node, Watts as Watts

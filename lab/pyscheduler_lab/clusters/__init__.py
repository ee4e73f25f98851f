"""Clusters: the nodes on which a trace is replayed, from the command line or from files, and the power that they draw.

Belongs here: nodes as data. Does not belong here: the API server that serves them (`simulation`).
"""

from __future__ import annotations

from pyscheduler_lab.clusters.cluster import NODE_LISTS as NODE_LISTS, Cluster as Cluster
from pyscheduler_lab.clusters.node import Node as Node, Watts as Watts

"""The nodes of simulated clusters, their power consumption, and the times at which nodes fail."""

from __future__ import annotations

from pyscheduler_lab.clusters.cluster import NODE_LISTS as NODE_LISTS, Cluster as Cluster
from pyscheduler_lab.clusters.node import Node as Node, Watts as Watts

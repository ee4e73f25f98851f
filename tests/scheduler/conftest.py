"""Fixtures: a cluster in which PodGroups are served."""

from __future__ import annotations

import pytest

from pyscheduler.testing import FakeCluster
from tests.scheduler.in_tree_groups import serve_groups


@pytest.fixture
def cluster(pyscheduler_cluster: FakeCluster) -> FakeCluster:
    """Return the test kit's cluster, in which PodGroups are served."""
    serve_groups(pyscheduler_cluster)
    return pyscheduler_cluster

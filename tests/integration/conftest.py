"""An embedded cluster in the test's own hands, served over HTTP to schedulers in other processes."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest

from kube_objects.clock import LoopClock
from kube_testserver.cluster import EmbeddedCluster
from tests.integration.programs import Api

#: The limit for one test, in seconds: a test waits for several things, each as long as a busy machine may need.
TIMEOUT_SECONDS = 1200


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder more time than others have; on an idle machine they take ten seconds at most.

    They are first in each run, so that one worker waits for processes while all others compute.
    """
    here = f"{Path(__file__).parent}/"
    items.sort(key=lambda item: not str(item.path).startswith(here))
    for item in itertools.takewhile(lambda item: str(item.path).startswith(here), items):
        item.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS))


@attrs.frozen
class Served:
    """A cluster that is served: to be filled, broken and looked into directly, and over HTTP through `api`."""

    cluster: EmbeddedCluster
    api: Api

    @property
    def url(self) -> str:
        """Return the server's URL."""
        return self.api.url


@pytest.fixture
async def served_cluster() -> AsyncIterator[Served]:
    """Yield an empty cluster, served."""
    cluster = EmbeddedCluster(clock=LoopClock(), rng=random.Random(1))
    server = cluster.server()
    await server.start()
    yield Served(cluster, Api(server.url))
    await server.stop()
    cluster.check_invariants()

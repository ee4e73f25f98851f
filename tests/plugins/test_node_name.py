"""NodeName: the text for `explain`. tests/plugins/test_columnar_forms.py compares its decisions."""

from __future__ import annotations

from collections.abc import Callable

from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import CycleState
from pyscheduler.plugins.node_name import NodeName
from pyscheduler.testing.builders import make_node, make_pod
from tests.plugins.storage import StorageHandle


def test_text_says_whether_the_named_node_exists(snapshot_of: Callable[..., Snapshot]) -> None:
    """A pod that names a node is filtered in trials only, so the plugin is asked directly."""
    snapshot = snapshot_of([make_node("n1")])
    plugin = NodeName(None, StorageHandle(snapshot))
    for name, text in (("n1", "asks for node n1"), ("gone", "asks for node gone, which does not exist")):
        assert plugin.why_nodes(CycleState(), make_pod("p", node_name=name), snapshot.nodes) == text

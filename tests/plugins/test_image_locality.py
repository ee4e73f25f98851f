"""ImageLocality: nodes that have the images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace

import pytest

from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import CycleState
from pyscheduler.plugins.image_locality import ImageLocality, normalize_image
from pyscheduler.testing.builders import make_node, make_pod

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("app", "app:latest", id="no tag"),
        pytest.param("app:v1", "app:v1", id="tag"),
        pytest.param("host:5000/app", "host:5000/app:latest", id="a port is no tag"),
        pytest.param("host:5000/app:v1", "host:5000/app:v1", id="port and tag"),
        pytest.param("app@sha256:0123", "app@sha256:0123", id="digest"),
    ],
)
def test_names_get_the_tag_they_mean(name: str, expected: str) -> None:
    """What has no tag is `latest`."""
    assert normalize_image(name) == expected


@pytest.mark.parametrize(
    ("images", "sizes", "expected"),
    [
        pytest.param(["app"], {}, 0, id="not there"),
        pytest.param(["app"], {"app:latest": 40 * MIB}, 0, id="too small to matter, on half of the nodes"),
        pytest.param(["app"], {"app:latest": 1000 * MIB}, 48, id="on half of the nodes it counts half"),
        pytest.param(["app"], {"app:latest": 9000 * MIB}, 100, id="never more than 100"),
        pytest.param(["app", "db"], {"app:latest": 1000 * MIB}, 24, id="two containers raise the bar"),
        pytest.param(["app", "app"], {"app:latest": 1000 * MIB}, 49, id="used twice, it counts twice"),
    ],
)
def test_bytes_that_need_not_be_pulled(
    images: list[str], sizes: Mapping[str, int], expected: int, snapshot_of: Callable[..., Snapshot]
) -> None:
    """A node's score grows with the bytes it has, less where other nodes have them too."""
    snapshot = snapshot_of([make_node("has", images=sizes), make_node("lacks")])
    plugin = ImageLocality(None, SimpleNamespace(snapshot=snapshot))
    scores = plugin.score_nodes(CycleState(), make_pod("p", images=images), snapshot.nodes)
    assert scores[snapshot.nodes.index("has")] == expected
    assert scores[snapshot.nodes.index("lacks")] == 0


def test_image_volumes_add_bytes_only(snapshot_of: Callable[..., Snapshot]) -> None:
    """A volume made from an image counts with its bytes and does not raise the bar."""
    snapshot = snapshot_of([make_node("has", images={"data:latest": 1000 * MIB})])
    pod = make_pod("p", spec={"volumes": [{"name": "v", "image": {"reference": "data"}}]})
    plugin = ImageLocality(None, SimpleNamespace(snapshot=snapshot))
    assert plugin.score_nodes(CycleState(), pod, snapshot.nodes).tolist() == [100]


def test_signature_is_the_images() -> None:
    """Names count as they are meant, each once, in any order."""
    plugin = ImageLocality()
    one = plugin.sign_pod(make_pod("p", images=["app", "db:v1"]))
    assert one == plugin.sign_pod(make_pod("p", images=["db:v1", "app:latest", "app"]))
    assert one != plugin.sign_pod(make_pod("p", images=["app"]))

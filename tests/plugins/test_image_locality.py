"""ImageLocality: nodes that have the images."""

from __future__ import annotations

import pytest

from pyscheduler.plugins.image_locality import normalize_image


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

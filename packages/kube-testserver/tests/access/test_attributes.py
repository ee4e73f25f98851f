"""What a request is about, read from its method, path and query."""

from __future__ import annotations

import pytest

from kube_testserver.access.attributes import attributes_of


@pytest.mark.parametrize(
    ("query", "verb", "name"),
    [
        pytest.param({"watch": "1"}, "watch", "", id="watch"),
        pytest.param({"watch": "false"}, "list", "", id="no watch"),
        pytest.param({"fieldSelector": "metadata.name=x"}, "list", "x", id="one name"),
        pytest.param(
            {"fieldSelector": "metadata.name=x,metadata.namespace=a", "watch": "true"}, "watch", "x", id="two"
        ),
        pytest.param({"fieldSelector": "metadata.name!=x"}, "list", "", id="any but one"),
        pytest.param({"fieldSelector": "metadata.name=a/b"}, "list", "", id="not a name"),
        pytest.param({"fieldSelector": "spec.nodeName=n"}, "list", "", id="another field"),
        pytest.param({"fieldSelector": "nonsense"}, "list", "", id="not a selector"),
    ],
)
def test_field_selector_gives_the_name_of_a_list(query: dict[str, str], verb: str, name: str) -> None:
    """A list or watch of one name is about that name, so that a rule with resource names can allow it."""
    found = attributes_of("GET", "/api/v1/configmaps", query)
    assert (found.verb, found.name) == (verb, name)

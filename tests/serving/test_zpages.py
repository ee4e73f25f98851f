"""/flagz and /statusz: which form a client gets, and which version it is warned of."""

from __future__ import annotations

import json

import pytest

from pyscheduler.serving.cbor import encode_object
from pyscheduler.serving.zpages import Page

ALPHA, BETA = (f"application/json;g=config.k8s.io;v={version};as=Statusz" for version in ("v1alpha1", "v1beta1"))


def page(kind: str = "Statusz", *, cbor: bool = False) -> Page:
    """Return a page with one field."""
    return Page(kind, lambda: "text", lambda: {"field": ["value"]}, cbor)


@pytest.mark.parametrize("kind", ["Statusz", "Flagz"])
def test_the_old_version_comes_with_a_warning(kind: str) -> None:
    """In the words of kube-scheduler, which clients look for."""
    answer = page(kind).answer(ALPHA.replace("Statusz", kind))
    assert answer.headers["Warning"] == (
        f'299 - "This version of the {kind.lower()} endpoint is deprecated. Please use a newer version."'
    )
    assert answer.headers["Content-Type"] == f"application/json;g=config.k8s.io;v=v1alpha1;as={kind}"


@pytest.mark.parametrize(
    ("accept", "version"),
    [
        pytest.param(f"{ALPHA},{BETA}", "v1alpha1", id="alpha first"),
        pytest.param(f"{BETA},{ALPHA}", "v1beta1", id="beta first"),
        pytest.param(f"{ALPHA};q=0.5,{BETA}", "v1beta1", id="beta rather"),
        pytest.param("text/plain", "", id="text"),
    ],
)
def test_warning_is_only_for_the_version_sent(accept: str, version: str) -> None:
    """The first that a client names is sent."""
    answer = page().answer(accept)
    if version:
        assert isinstance(answer.body, bytes)
        assert json.loads(answer.body)["apiVersion"] == f"config.k8s.io/{version}"
    assert ("Warning" in answer.headers) is (version == "v1alpha1")


def test_cbor_is_offered_with_its_gate() -> None:
    """Without the gate it is not acceptable; with it, it is the same object."""
    accept = BETA.replace("json", "cbor")
    refused = page().answer(accept)
    assert (refused.status, "cbor" in str(refused.text)) == (406, False)
    answer = page(cbor=True).answer(accept)
    assert (answer.status, answer.headers["Content-Type"]) == (
        200,
        "application/cbor;g=config.k8s.io;v=v1beta1;as=Statusz",
    )
    assert answer.body == encode_object(
        {
            "apiVersion": "config.k8s.io/v1beta1",
            "field": ["value"],
            "kind": "Statusz",
            "metadata": {"name": "kube-scheduler"},
        }
    )
    assert "application/yaml, text/plain, application/cbor" in str(page(cbor=True).answer("application/xml").text)

"""Syntax of label keys and values, and the classes of resource names."""

from __future__ import annotations

import pytest

from kube_objects.names import (
    is_extended_resource,
    is_scalar_resource,
    label_key_errors,
    label_value_errors,
)

NAME_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(key, id=key[:30])
        for key in ["a", "A1", "a-b_c.d", "kubernetes.io/hostname", "a.b-c.d/X", "1/2", "a" * 63, "b" * 253 + "/a"]
    ],
)
def test_good_label_keys(key: str) -> None:
    """A name of up to 63 characters, after a DNS subdomain and a slash if need be."""
    assert label_key_errors(key) == ()


@pytest.mark.parametrize(
    ("key", "errors"),
    [
        pytest.param("", ("name part must be non-empty", f"name part {NAME_TEXT}"), id="empty"),
        pytest.param("-a", (f"name part {NAME_TEXT}",), id="starts with a dash"),
        pytest.param("a b", (f"name part {NAME_TEXT}",), id="blank"),
        pytest.param("a\n", (f"name part {NAME_TEXT}",), id="newline"),
        pytest.param("ä", (f"name part {NAME_TEXT}",), id="not ASCII"),
        pytest.param("a" * 64, ("name part must be no more than 63 bytes",), id="long name"),
        pytest.param("/a", ("prefix part must be non-empty",), id="empty prefix"),
        pytest.param("b" * 254 + "/a", ("prefix part must be no more than 253 bytes",), id="long prefix"),
        pytest.param("a/", ("name part must be non-empty", f"name part {NAME_TEXT}"), id="empty name"),
    ],
)
def test_bad_label_keys_are_explained(key: str, errors: tuple[str, ...]) -> None:
    """Each thing wrong is told in the API server's words."""
    assert label_key_errors(key) == errors


def test_a_prefix_is_a_dns_subdomain() -> None:
    """Capital letters belong after the slash."""
    (error,) = label_key_errors("Example.com/a")
    assert error.startswith("prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric")


def test_one_slash_is_enough() -> None:
    """A key with two slashes gets one error that shows the whole format."""
    (error,) = label_key_errors("a/b/c")
    assert error.startswith("a valid label key must consist of")
    assert error.endswith("with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')")


@pytest.mark.parametrize(
    ("value", "count"),
    [
        pytest.param("", 0, id="empty"),
        pytest.param("a.b_c-1", 0, id="plain"),
        pytest.param("a" * 63, 0, id="longest"),
        pytest.param("a" * 64, 1, id="too long"),
        pytest.param("-a", 1, id="starts with a dash"),
        pytest.param("a/b", 1, id="slash"),
        pytest.param(" " * 64, 2, id="two mistakes"),
    ],
)
def test_label_values(value: str, count: int) -> None:
    """A value may be empty; otherwise it is like a name."""
    assert len(label_value_errors(value)) == count


@pytest.mark.parametrize(
    ("name", "extended", "scalar"),
    [
        pytest.param("example.com/gpu", True, True, id="extended"),
        pytest.param("openb.io/gpu-milli", True, True, id="extended with a dash"),
        pytest.param("hugepages-2Mi", False, True, id="huge pages"),
        pytest.param("attachable-volumes-aws-ebs", False, True, id="attachable volumes"),
        pytest.param("kubernetes.io/batch-cpu", False, True, id="native with prefix"),
        pytest.param("x.kubernetes.io/batch-cpu", False, True, id="native with a longer prefix"),
        pytest.param("cpu", False, False, id="cpu"),
        pytest.param("memory", False, False, id="memory"),
        pytest.param("pods", False, False, id="pods"),
        pytest.param("gpu", False, False, id="unknown without a domain"),
        pytest.param("requests.example.com/gpu", False, False, id="quota name"),
        pytest.param("example.com/", False, False, id="no name"),
        pytest.param("example.com/a/b", False, False, id="two slashes"),
        pytest.param("b" * 250 + "/gpu", False, False, id="too long with the quota prefix"),
    ],
)
def test_classes_of_resources(name: str, extended: bool, scalar: bool) -> None:
    """What the scheduler counts, besides the four it has fields for."""
    assert is_extended_resource(name) is extended
    assert is_scalar_resource(name) is scalar

"""Compile the label selector and the field selector of a list or watch into one function that tests an object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kube_objects.errors import SelectorError
from kube_objects.selector_text import FieldRequirement, FieldSelector, parse_field_selector, parse_label_selector
from kube_testserver import errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube_testserver.resources.table import Resource
    from kube_testserver.store import Record

__all__ = ["compile_selection"]

_METADATA_FIELDS = ("metadata.name", "metadata.namespace")


def compile_selection(resource: Resource, label_text: str, field_text: str) -> Callable[[Record], bool] | None:
    """Return the test of both selectors, or None when everything is selected; refuse (400) what cannot be read."""
    if not label_text and not field_text:
        return None
    try:
        labels = parse_label_selector(label_text)
        fields = _known_fields(resource, parse_field_selector(field_text))
    except SelectorError as error:
        raise errors.bad_request(str(error)) from error
    of_metadata = tuple(one for one in fields.requirements if one.field in _METADATA_FIELDS)
    of_object = FieldSelector(tuple(one for one in fields.requirements if one.field not in _METADATA_FIELDS))
    tests: list[Callable[[Record], bool]] = []
    if not labels.is_empty:
        tests.append(lambda record: labels.matches(record.labels))
    if of_object.requirements:
        tests.append(lambda record: of_object.matches(record.fields))
    if of_metadata:
        tests.append(lambda record: all(_has_name(record, one) for one in of_metadata))
    return tests[0] if len(tests) == 1 else lambda record: all(test(record) for test in tests)


def _has_name(record: Record, required: FieldRequirement) -> bool:
    own = record.name if required.field == "metadata.name" else record.namespace
    return (own == required.value) is not required.negated


def _known_fields(resource: Resource, selector: FieldSelector) -> FieldSelector:
    """Return the selector in stored field names, or refuse (400) a field that this resource does not offer."""
    requirements = []
    for one in selector.requirements:
        name = resource.field_aliases.get(one.field, one.field)
        if name not in resource.field_paths and name not in _METADATA_FIELDS:
            if resource.field_paths or resource.custom:
                raise errors.bad_request(f"field label not supported: {one.field}")
            raise errors.bad_request(
                f'"{one.field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
            )
        requirements.append(FieldRequirement(name, one.value, one.negated))
    return FieldSelector(tuple(requirements))

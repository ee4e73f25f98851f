"""Which objects a list or watch is about: a namespace, a label selector and a field selector, made into one test.

The text of a selector is compiled once; a request without selectors tests nothing at all.
"""

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
    match_labels = None if labels.is_empty else labels.matches
    match_fields = of_object.matches if of_object.requirements else None
    if not of_metadata:
        if match_labels is None and match_fields is None:
            return None
        if match_labels is None and match_fields is not None:
            return lambda record: match_fields(record.fields)
        if match_fields is None and match_labels is not None:
            return lambda record: match_labels(record.labels)

    def matches(record: Record) -> bool:
        for field, value, negated in of_metadata:
            have = record.name if field == "metadata.name" else record.namespace
            if (have == value) == negated:
                return False
        if match_labels is not None and not match_labels(record.labels):
            return False
        return match_fields is None or match_fields(record.fields)

    return matches


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

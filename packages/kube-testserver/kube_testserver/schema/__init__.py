"""The fields of built-in kinds: their names, their types, their merge keys and their owners.

The schemas come from Kubernetes' own OpenAPI documents (see NOTICE). Everything that depends on the fields of a kind is
derived from its schema:

- the types that an object must fit (`structs`, `shapes`)
- unknown fields (`unknown_fields`)
- the lists that a strategic patch merges (`merge_keys`)
- the owners of fields (`field_paths`, `managed_fields`)
- the output of `kubectl explain`

A CustomResourceDefinition has a schema of the same form, so the same code serves built-in and custom kinds.

Does not belong here: the values of fields. Whether a number is too large or a name too long is decided in `rules`.
"""

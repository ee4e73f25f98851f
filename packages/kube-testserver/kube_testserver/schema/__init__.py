"""The fields of built-in kinds: their names, their types and their merge keys.

The schemas come from Kubernetes' own OpenAPI documents (see NOTICE). The server derives from them:

- the types that an object must fit (`structs`, `shapes`)
- the unknown fields of an object (`unknown_fields`)
- the lists that a strategic patch merges (`merge_keys`)
- the paths of fields in `metadata.managedFields` (`field_paths`, `managed_fields`)
- the output of `kubectl explain`
"""

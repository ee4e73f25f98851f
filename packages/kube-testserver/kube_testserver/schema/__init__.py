"""The fields of built-in kinds: their names, their types and their merge keys.

The schemas come from Kubernetes' own OpenAPI documents (see NOTICE). The server uses them to:

- check the types in an object (`structs`, `shapes`)
- find unknown fields (`unknown_fields`)
- merge lists in a strategic patch (`merge_keys`)
- list the paths of fields in `metadata.managedFields` (`field_paths`, `managed_fields`)
- answer `kubectl explain`
"""

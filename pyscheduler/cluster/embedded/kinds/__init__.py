"""What the fields of built-in kinds are: their names, their types, and which lists are really maps.

The table comes from Kubernetes' own OpenAPI documents (see NOTICE), and everything that depends on knowing a field is
read off it: what an object may hold (`structs`), what is dropped and told (`fields`), which lists a strategic patch
merges, who may own which (`paths`), what `kubectl explain` shows. Custom resources bring a schema of the same form in
their definition, so the code that walks schemas serves both.

Does not belong here: values. Whether a number is too large or a name too long is for `validation` and `schema`.
"""

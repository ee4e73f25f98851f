"""The rules of a write: defaults, validation, admission, names, quotas, and the effect of a deletion."""

"""The rules that the server applies to a write: defaults, validation, admission, names, quotas, deletion."""

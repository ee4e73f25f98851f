"""The equivalence cache: answers of plugins that are reused for pods that ask the same.

It wraps PreFilter, Filter, PreScore and Score of one profile. The extension points themselves do not know it.
"""

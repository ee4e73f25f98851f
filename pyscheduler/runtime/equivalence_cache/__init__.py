"""The equivalence cache: answers of plugins are reused for pods with the same equivalence key.

The cache wraps PreFilter, Filter and Score of one profile.
"""

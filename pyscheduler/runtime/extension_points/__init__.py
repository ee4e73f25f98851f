"""The extension points: call the plugins of a profile and combine their answers.

Does not belong here: cached answers (`equivalence_cache`), and the order of the extension points (`placement`).
"""

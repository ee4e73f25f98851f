"""KubeSchedulerConfiguration v1: load, fill in defaults, validate, print; and the feature gates.

`load` is the entry point. It reads YAML (`yaml_text`), converts it to typed objects (`decode`), fills in missing values
(`defaults`) and finds bad values (`validation`).
"""

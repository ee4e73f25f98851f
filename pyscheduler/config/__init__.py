"""Load, complete, validate and print a KubeSchedulerConfiguration v1.

`load` is the entry point. It reads YAML (`yaml_text`), converts it to typed objects (`decode`), fills in missing values
(`defaults`) and finds bad values (`validation`).
"""

"""KubeSchedulerConfiguration v1: load, fill in defaults, validate, print; and the feature gates.

Belongs here: reading `kubescheduler.config.k8s.io/v1` as kube-scheduler 1.36 does, its defaults, its errors, and
profiles in the form that the runtime needs. Does not belong here: running anything, finding plugins, process settings
(those are flags).

`load` is the entry point. It reads YAML (`yaml_text`), converts it to typed objects (`decode`), fills in missing values
(`defaults`) and finds bad values (`validation`).
"""

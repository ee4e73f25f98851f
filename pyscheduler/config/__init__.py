"""KubeSchedulerConfiguration v1: load, fill in defaults, validate, print; and the feature gates.

Belongs here: reading `kubescheduler.config.k8s.io/v1` as kube-scheduler 1.36 does, its defaults, its errors, and
profiles in the form that the runtime needs. Does not belong here: running anything, finding plugins, process settings
(those are flags).

The steps for a file: `yaml_text` reads YAML into plain values, `decode` converts them to typed objects, `defaults`
fills in missing values, `validation` finds bad values. `load` calls these steps and reports all mistakes together.
`profiles` and `dump` read the result.
"""

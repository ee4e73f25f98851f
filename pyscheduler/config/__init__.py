"""KubeSchedulerConfiguration v1: load, default, validate, show; and the feature gates.

Belongs here: reading `kubescheduler.config.k8s.io/v1` exactly as kube-scheduler 1.36 takes it, the defaults it fills
in, everything it refuses, and profiles in the form the runtime consumes. Does not belong here: running anything,
finding plugins, process settings (those are flags).

The way of a file: `yaml_text` reads YAML into plain values, `decode` makes typed objects of them, `defaults` fills in
what was left out, `validation` looks for bad values, `load` strings these together and reports every mistake at once.
`profiles` and `dump` take it from there.
"""

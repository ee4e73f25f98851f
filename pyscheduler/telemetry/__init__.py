"""Metrics, recorded through OpenTelemetry and exported for Prometheus.

Belongs here: the one implementation of `framework.recorder.Recorder` that keeps anything, and the only imports of
OpenTelemetry. Does not belong here: what is measured and when; that is decided where it happens.
"""

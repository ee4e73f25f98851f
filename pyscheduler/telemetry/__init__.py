"""Metrics, recorded through OpenTelemetry and exported for Prometheus, and log lines.

Belongs here: the implementation of `framework.recorder.Recorder` that keeps measurements, and the form of log lines.
Does not belong here: the decision what to measure and log, and when.
"""

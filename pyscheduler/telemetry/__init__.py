"""Metrics, recorded through OpenTelemetry and exported for Prometheus, and log lines.

Other packages decide what is measured and logged; they call `framework.recorder.Recorder`.
"""

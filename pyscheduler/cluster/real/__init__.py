"""The scheduler's client of an API server: it lists, watches and writes objects.

In simulations and tests, the client calls an embedded API server without HTTP.

The client counts problems in the metric `pyscheduler_warnings_total`. The label `kind` names the problem:

====================== =============================================================================================
`malformed_<kind>`     an object, or an event about it, could not be decoded; its last readable version stays in use
`watch_broken`         a list or watch got no answer or was cut off; the informer tries again
`watch_refused`        the API server refused a list or watch; the informer tries again
`relisted`             a watch could not continue, for example after a 410; the informer lists all objects again
`informer_failed`      list and watch failed because of a bug in this client; the informer lists all objects again
`handler_failed`       an event handler raised an exception; the other handlers were called
`request_retried`      a request was sent again, because no answer came or the answer permits a retry
`event_dropped`        an event was not sent: the queue was full, or the program ended
`event_refused`        the API server rejected an event
`event_lost`           all attempts to write an event failed
`lease_request_failed` a request about the lease failed; the client tries again
====================== =============================================================================================
"""

"""The client side: one path for everything the scheduler reads from and writes to an API server.

The same client runs on two transports: HTTP (`http`) against a real server, and in process into the embedded server.
So tests and simulations run the code that ships. Only `auth` imports the official client, which reads credentials.

What goes wrong at run time and is passed over is counted with `recorder.warning`, under these names and no others:

====================== =============================================================================================
`malformed_<kind>`     an object (or an event about one) could not be decoded; its last readable version stays
`watch_broken`         a list or watch got no answer, was cut off or fell silent; it is taken up again
`watch_refused`        the API server refused a list or watch after the first one; it is tried again
`relisted`             a watch could not be continued (410, gaps, versions running backwards); everything is listed
`informer_failed`      a fault of our own in list and watch; everything is listed again
`handler_failed`       an event handler raised; the others were called
`request_retried`      a request was sent again after no answer, or one that said to try later
`event_dropped`        an event was not even tried: the queue was full, or the program ended
`event_refused`        the API server does not take an event
`event_lost`           an event could not be written in all its tries
`lease_request_failed` a request about the lease failed; it is tried again
====================== =============================================================================================
"""

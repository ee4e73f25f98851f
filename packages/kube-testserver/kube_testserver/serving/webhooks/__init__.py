"""Admission webhooks: the choice of webhooks for a write, the calls, and the effect of the answers.

The code that writes objects is synchronous and cannot wait for a webhook. So it raises `ReviewsNeededError` to stop the
request. The server calls the webhooks, and runs the request again with the answers.

Differs from Kubernetes: a webhook must be configured by URL and not by a Service.
Source: Kubernetes 1.36, `apiserver/pkg/admission/plugin/webhook`.
"""

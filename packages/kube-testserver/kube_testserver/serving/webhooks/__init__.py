"""Admission webhooks: the choice of webhooks for a write, the calls, and the effect of the answers.

The code that writes objects is synchronous and cannot wait for a webhook. So a request that needs answers of webhooks
is stopped with `ReviewsNeededError`, the webhooks are called, and the request is run again from its beginning, with
these answers. If the object in the store has changed meanwhile, the webhooks are called again.

Source: Kubernetes 1.36, `apiserver/pkg/admission/plugin/webhook`. Differs from Kubernetes: the rules of a webhook match
only the resource and version that the request names, as with `matchPolicy: Exact`. A webhook must be configured by URL
and not by a Service. `matchConditions` and `reinvocationPolicy` have no effect. Webhooks are not called for
TokenReviews, for SubjectAccessReviews and their variants, or for writes of the server itself.
"""

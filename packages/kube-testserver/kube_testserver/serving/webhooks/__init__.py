"""Admission webhooks: the choice of webhooks for a write, the calls, and the effect of the answers.

The registry decides at once, and a webhook takes time. So a request that needs an answer is stopped with
`ReviewsNeededError`, the webhooks are called, and the request is answered again from its beginning, with the answers at
hand. Nothing is stored before all have answered, and a request that finds another object in the store than before asks
again. Without a configuration, a request costs a look at two empty collections.

Source: Kubernetes 1.36, `apiserver/pkg/admission/plugin/webhook`. Differs from it: webhooks are asked about the
resource and version of the request (`matchPolicy: Exact`), a service cannot be reached, and no webhook is asked a
second time (`reinvocationPolicy`). Reviews of access and tokens, and what the server itself writes, pass no webhooks.
"""

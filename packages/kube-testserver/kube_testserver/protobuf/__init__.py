"""Request bodies in protobuf, which typed Go clients (`kubectl create`, `drain`, `auth can-i`) send unasked.

What belongs here: reading such a body into the JSON object it stands for, and the table of field numbers for that. What
does not: writing it. Those clients take JSON for an answer.
"""

from kube_testserver.protobuf.decode import PROTOBUF, BadProtobufError, UnknownKindError, decode_protobuf

__all__ = ["PROTOBUF", "BadProtobufError", "UnknownKindError", "decode_protobuf"]

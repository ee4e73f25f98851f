"""Request bodies in protobuf, which typed Go clients (`kubectl create`, `drain`, `auth can-i`) send by default.

Belongs here: converting a protobuf body to JSON, and the table of field numbers for that. Does not belong here: writing
protobuf, because these clients accept answers in JSON.
"""

from kube_testserver.protobuf.decode import PROTOBUF, BadProtobufError, UnknownKindError, decode_protobuf

__all__ = ["PROTOBUF", "BadProtobufError", "UnknownKindError", "decode_protobuf"]

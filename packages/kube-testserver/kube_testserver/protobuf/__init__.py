"""Request bodies in protobuf, which typed Go clients (`kubectl create`, `drain`, `auth can-i`) send by default.

Answers are not written in protobuf, because these clients accept JSON.
"""

from kube_testserver.protobuf.decode import PROTOBUF, BadProtobufError, UnknownKindError, decode_protobuf

__all__ = ["PROTOBUF", "BadProtobufError", "UnknownKindError", "decode_protobuf"]

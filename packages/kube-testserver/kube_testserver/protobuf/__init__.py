"""Request bodies in protobuf, which typed Go clients (`kubectl create`, `drain`, `auth can-i`) send by default."""

from kube_testserver.protobuf.decode import PROTOBUF, BadProtobufError, UnknownKindError, decode_protobuf

__all__ = ["PROTOBUF", "BadProtobufError", "UnknownKindError", "decode_protobuf"]

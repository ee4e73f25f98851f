"""Decode request bodies in protobuf, the format that `kubectl create` and other typed Go clients send by default."""

from kube_testserver.protobuf.decode import PROTOBUF, BadProtobufError, UnknownKindError, decode_protobuf

__all__ = ["PROTOBUF", "BadProtobufError", "UnknownKindError", "decode_protobuf"]

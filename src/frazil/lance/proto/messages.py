"""The messages of `messages.proto`, as classes of the protobuf library that is installed, whatever its version.

They are built from `messages.binpb`, which `generate.py` makes: code that protoc writes would be tied to a range of
protobuf releases. The pool is our own, so nothing else in the process can have a message of the same name.
"""

from __future__ import annotations

from importlib.resources import files

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError
except ImportError as error:  # pragma: no cover - in the tests it is there
    from frazil.errors import MissingDependency

    raise MissingDependency(
        "Lance tables need protobuf and pylance, which are not installed", hint="pip install 'frazil[lance]'"
    ) from error

__all__ = ["DecodeError"]

_pool = descriptor_pool.DescriptorPool()
for _file in descriptor_pb2.FileDescriptorSet.FromString(
    files(__package__).joinpath("messages.binpb").read_bytes()
).file:
    _pool.Add(_file)
    for _message in _file.message_type:
        _found = _pool.FindMessageTypeByName(f"{_file.package}.{_message.name}")
        globals()[_message.name] = message_factory.GetMessageClass(_found)

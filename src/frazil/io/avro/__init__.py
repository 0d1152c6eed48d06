"""Avro object container files to Arrow and back: columnar, fast, and safe against hostile input.

The inner loop is a small C interpreter compiled to WebAssembly (`avro.c`, `avro.wasm`) and run in a sandbox.
"""

from frazil.io.avro.container import Block, Container, Header, Limits, read_container, read_header
from frazil.io.avro.decode import decode, iter_batches
from frazil.io.avro.encode import ContainerWriter, encode
from frazil.io.avro.schema import AvroSchema, parse_schema

__all__ = [
    "AvroSchema",
    "Block",
    "Container",
    "ContainerWriter",
    "Header",
    "Limits",
    "decode",
    "encode",
    "iter_batches",
    "parse_schema",
    "read_container",
    "read_header",
]

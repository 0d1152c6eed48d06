"""Rows to columns: the blocks of one or many containers with one schema become Arrow batches."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.errors import InvalidArgument, MalformedMetadata
from frazil.io.avro.container import Container
from frazil.io.avro.program import DATA, HINT, NULLS, OFFSETS, VALID, WORDS, Column, N, Op, Program, compile_schema
from frazil.io.avro.runtime import Sandbox, sandbox

_AREA_BYTES = 1 << 20
_AREA_BLOCKS = 1 << 12
# A batch ends at the first of these: enough to make its fixed cost vanish, and far from the 4 GiB of a sandbox.
_BATCH_BYTES = 32 << 20
_BATCH_ROWS = 1 << 24
_BATCH_MEMORY = 256 << 20


def decode(
    containers: Container | Sequence[Container],
    columns: Collection[int | str] | None = None,
    *,
    utc_unless_told: bool = True,
    java_fixed: bool = False,
    keys: Collection[int] | None = None,
) -> pa.Table:
    """All rows of the containers, in order, as one table; `Container.num_rows` tells which are whose.

    `columns` selects field ids, or paths of column names joined by dots (`data_file.file_path`; inside lists and maps
    `element`, `key` and `value`). Whatever is below a selected field comes with it; everything else is stepped over.
    A timestamp that does not say `adjust-to-utc` is one with time zone if `utc_unless_told`.

    `java_fixed` is for manifests: there Iceberg's Java library puts the length before plain fixed values, against Avro.
    Others do not, so files that cannot be read so are read as Avro has it.

    `keys` is for manifests too: of maps from int to long or bytes (metrics by column id) only these entries are given.
    """
    containers = [containers] if isinstance(containers, Container) else containers
    if not containers:
        raise InvalidArgument("Avro: no container to decode", hint="give one at least, for the schema")
    program = compile_schema(containers[0].schema, columns, utc_unless_told=utc_unless_told)
    limit = max(c.limits.total_bytes for c in containers)
    if not (java_fixed and program.fixed_differs):
        batches = _within(limit, iter_batches(containers, columns, utc_unless_told=utc_unless_told, keys=keys))
        return pa.Table.from_batches(batches, program.schema)
    tables: list[pa.Table] = []
    read = functools.partial(iter_batches, columns=columns, utc_unless_told=utc_unless_told, keys=keys)
    for container in containers:
        try:
            batches = _within(limit, read(container, java_fixed=True))
        except MalformedMetadata:
            batches = _within(limit, read(container))
        tables.append(pa.Table.from_batches(batches, program.schema))
    return pa.concat_tables(tables)


def _within(limit: int, batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    # A null struct is one byte in the file and a null in each of its columns here, so this needs a limit of its own.
    kept: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        kept.append(batch)
        size += batch.nbytes
        if size > limit:
            raise MalformedMetadata(
                f"Avro: the columns take more than {limit} bytes",
                hint="read them with iter_batches, or raise Limits.total_bytes if you trust the file",
            )
    return kept


def iter_batches(
    containers: Container | Sequence[Container],
    columns: Collection[int | str] | None = None,
    *,
    utc_unless_told: bool = True,
    java_fixed: bool = False,
    keys: Collection[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """As `decode`, batch by batch, so that a large file is never in memory as columns all at once.

    Only `java_fixed` is meant strictly here, as batches that are out cannot be taken back.
    """
    containers = [containers] if isinstance(containers, Container) else containers
    if any(c.schema != containers[0].schema for c in containers):
        raise InvalidArgument("Avro: the containers have different schemas", hint="decode them in groups by schema")
    if not containers:
        return
    program = compile_schema(
        containers[0].schema,
        columns,
        utc_unless_told=utc_unless_told,
        java_fixed=java_fixed,
        some_keys=keys is not None,
    )
    with sandbox(max(c.limits.memory_bytes for c in containers)) as box:
        work = _Work(box, program, np.array(sorted(keys or ()), np.int32))
        empty = 0
        for container in containers:
            for count, payload in container.payloads():
                empty += count if program.min_width == 0 else 0
                if count * program.min_width > len(payload) or empty > container.limits.empty_rows:
                    raise MalformedMetadata(
                        f"Avro: a block of {len(payload)} bytes claims {count} rows", hint="the file is damaged"
                    )
                if work.full:
                    yield work.batch()
                work.add(count, payload)
        if work.rows or work.table:
            yield work.batch()


class _Work:
    """Blocks on their way through the sandbox: some wait in an area small enough for the cache, then are decoded."""

    def __init__(self, box: Sandbox, program: Program, keys: npt.NDArray[np.int32]) -> None:
        self.box, self.program, self.keys = box, program, keys
        self.hints = np.zeros(len(program.nodes), np.uint32)
        self.start()

    def start(self) -> None:
        self.rows = self.bytes = self.filled = self.used = 0
        self.table: list[int] = []
        nodes = self.program.nodes.copy()
        nodes[:, HINT] = self.hints
        self.at_nodes = self.box.begin(nodes.nbytes + self.keys.nbytes + 8 * _AREA_BLOCKS + _AREA_BYTES)
        self.at_table = self.at_nodes + nodes.nbytes
        at_keys = self.at_table + 8 * _AREA_BLOCKS
        self.at_area, self.room = at_keys + self.keys.nbytes, _AREA_BYTES
        memory = self.box.memory()
        memory[self.at_nodes : self.at_nodes + nodes.nbytes] = nodes.reshape(-1).view(np.uint8)
        memory[at_keys : at_keys + self.keys.nbytes] = self.keys.view(np.uint8)
        self.box.call("keep", at_keys, len(self.keys))

    @property
    def full(self) -> bool:
        return self.bytes >= _BATCH_BYTES or self.rows >= _BATCH_ROWS or self.used > _BATCH_MEMORY

    def add(self, count: int, payload: bytes | memoryview) -> None:
        size = len(payload)
        if self.filled + size > self.room or len(self.table) == 2 * _AREA_BLOCKS:
            self.run()
        if size > self.room:
            self.at_area, self.room = self.box.allocate(size), size
        at = self.at_area + self.filled
        self.box.memory()[at : at + size] = np.frombuffer(payload, np.uint8)
        self.table += (size, count)
        self.filled, self.bytes, self.rows = self.filled + size, self.bytes + size, self.rows + count

    def run(self) -> None:
        table = np.array(self.table, np.uint32).view(np.uint8)
        self.box.memory()[self.at_table : self.at_table + table.nbytes] = table
        if self.box.call("decode", self.at_area, self.at_table, len(self.table) // 2) < 0:
            raise self.box.failure(self.program.paths, writing=False)
        self.table, self.filled = [], 0
        self.used = self.box.call("out") & 0xFFFF_FFFF

    def batch(self) -> pa.RecordBatch:
        self.run()
        memory, program = self.box.memory(), self.program
        state = memory[self.at_nodes : self.at_nodes + program.nodes.nbytes].view(np.uint32).reshape(-1, WORDS)
        np.maximum(self.hints, state[:, N], out=self.hints)
        struct = _Assembler(memory, state.tolist()).array(program.root, self.rows)
        self.start()
        return pa.RecordBatch.from_struct_array(struct)


class _Assembler:
    """Copies what the nodes point to out of the sandbox, into Arrow arrays."""

    def __init__(self, memory: np.typing.NDArray[np.uint8], state: list[list[int]]) -> None:
        self.memory = memory
        self.state = state

    def buffer(self, address: int, size: int) -> pa.Buffer:
        buffer = pa.allocate_buffer(
            size
        )  # Arrow's own pool: fresh pages from the system would cost as much as decoding
        np.frombuffer(buffer, np.uint8)[:] = self.memory[address : address + size]
        return buffer

    def array(self, column: Column, rows: int) -> pa.Array:
        if column.op is None:
            return pa.nulls(rows)
        state = [0] * WORDS if column.node is None else self.state[column.node]
        validity = self.buffer(state[VALID], (rows + 7) // 8) if state[NULLS] else None
        if column.op is Op.RECORD:
            children = [self.array(child, rows) for child in column.children]
            return pa.Array.from_buffers(column.type, rows, [validity], state[NULLS], children=children)
        if column.op is Op.LIST:
            offsets, items = self.offsets(state, rows)
            child = self.array(column.children[0], items)
            return pa.Array.from_buffers(column.type, rows, [validity, offsets], state[NULLS], children=[child])
        if column.op is Op.BYTES:
            offsets, size = self.offsets(state, rows)
            buffers = [validity, offsets, self.buffer(state[DATA], size)]
        elif column.op is Op.BOOLEAN:
            buffers = [validity, self.buffer(state[DATA], (rows + 7) // 8)]
        else:
            buffers = [validity, self.buffer(state[DATA], rows * _width(column))]
        if column.op is Op.ENUM:
            indices = pa.Array.from_buffers(pa.int32(), rows, buffers, state[NULLS])
            return pa.DictionaryArray.from_arrays(indices, pa.array(column.names, pa.string()))
        return _checked(pa.Array.from_buffers(column.type, rows, buffers, state[NULLS]), column)

    def offsets(self, state: list[int], rows: int) -> tuple[pa.Buffer, int]:
        if rows == 0:
            return pa.py_buffer(bytes(4)), 0
        last = state[OFFSETS] + 4 * rows
        return self.buffer(state[OFFSETS], 4 * rows + 4), int(self.memory[last : last + 4].view(np.int32)[0])


def _width(column: Column) -> int:
    return (
        column.arg
        if column.op in (Op.FIXED, Op.FIXED_BYTES)
        else column.type.bit_width // 8
        if column.op is not Op.ENUM
        else 4
    )


def _checked(array: pa.Array, column: Column) -> pa.Array:
    # What is not about bytes but about meaning is left to Arrow: UTF-8, digits of decimals, times within a day.
    if pa.types.is_string(array.type) or pa.types.is_decimal(array.type) or pa.types.is_time(array.type):
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise MalformedMetadata(f"Avro: {column.path}: {error}", hint="the file is damaged") from error
    return array

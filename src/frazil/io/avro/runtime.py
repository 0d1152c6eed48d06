"""The sandbox that runs ``avro.wasm``: one compiled module per process, a small pool of instances for the threads.

Calls into WebAssembly release the GIL, so threads decode in parallel, each with an instance of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import wasmtime

from frazil.errors import FrazilError, InvalidArgument, InvalidValue, MalformedMetadata

# A pooled instance keeps its memory; one that had to grow beyond this is thrown away instead.
_KEEP_BYTES = 128 << 20
_POOL_SIZE = 8

NO_MEMORY, UNEXPECTED_NULL = 9, 10
REASONS = {
    1: "a value runs over the end of its block",
    2: "a variable-length integer is too long",
    3: "a length or block size is negative or wrong",
    4: "an array or map claims more items than there are bytes",
    5: "a union has no such branch",
    6: "a number is out of the range of its type",
    7: "a boolean is neither 0 nor 1",
    8: "a block has bytes behind its last row",
    NO_MEMORY: "the columns need more memory than the limit allows",
    UNEXPECTED_NULL: "a required value is null",
    11: "a UUID is not written as 36 characters",
}


@functools.cache
def _compiled() -> tuple[wasmtime.Engine, wasmtime.Module]:
    config = wasmtime.Config()
    # Without signal handlers we cannot disturb, or be disturbed by, a JVM or faulthandler in the same process.
    config.signals_based_traps = False
    # An instance would reserve 4 GiB of addresses, and YARN kills workers for addresses alone. Costs 3 %.
    config.memory_reservation = config.memory_reservation_for_growth = 64 << 20
    config.memory_guard_size = 0
    config.parallel_compilation = False  # no threads left behind in a process that may fork, as Spark's daemon does
    engine = wasmtime.Engine(config)
    return engine, wasmtime.Module(engine, (Path(__file__).parent / "avro.wasm").read_bytes())


class Sandbox:
    """One instance: linear memory that Python fills and reads, and the functions of ``avro.c``."""

    def __init__(self) -> None:
        engine, module = _compiled()
        self._store = wasmtime.Store(engine)
        instance = wasmtime.Instance(self._store, module, [])
        exports = instance.exports(self._store)
        self._functions: dict[str, Any] = {name: exports[name] for name in exports}
        self._memory: Any = exports["memory"]
        self._view: npt.NDArray[np.uint8] | None = None
        self._size = -1

    def call(self, name: str, *arguments: int) -> int:
        """Call an exported function; a trap (which would be a bug of ours) becomes an error like any other."""
        try:
            result = self._functions[name](self._store, *arguments)
        except (wasmtime.Trap, wasmtime.WasmtimeError) as trap:
            raise MalformedMetadata(
                f"the Avro {name} step was stopped by its sandbox", hint="the file is damaged; please report it"
            ) from trap
        return 0 if result is None else int(result)

    def limit(self, memory_bytes: int) -> None:
        """How far linear memory may grow."""
        self._store.set_limits(memory_size=memory_bytes)

    def memory(self) -> npt.NDArray[np.uint8]:
        """Linear memory as it is now. A call may move it: ask again after each."""
        size = self._memory.data_len(self._store)
        address = ctypes.addressof(self._memory.data_ptr(self._store).contents)
        if self._view is None or self._view.size != size or self._view.ctypes.data != address:
            self._view = np.frombuffer((ctypes.c_ubyte * size).from_address(address), np.uint8)
        return self._view

    def size(self) -> int:
        """Bytes of linear memory in use."""
        return int(self._memory.data_len(self._store))

    def begin(self, size: int) -> int:
        """Forget everything, and make room for `size` bytes that begin with the nodes; its address."""
        return self._room("begin", size)

    def allocate(self, size: int) -> int:
        """Room for `size` bytes more. Every earlier view of memory is stale afterwards."""
        return self._room("allocate", size)

    def _room(self, name: str, size: int) -> int:
        address = self.call(name, size) & 0xFFFF_FFFF if size < 1 << 32 else 0
        if address == 0:
            raise MalformedMetadata(REASONS[NO_MEMORY], hint="raise Limits.memory_bytes if you trust the file")
        return address

    def failure(self, names: tuple[str, ...], *, writing: bool) -> FrazilError:
        """The error that the last call left behind, naming the column at fault."""
        code, node = self.call("error_code"), self.call("error_node")
        where = names[node] if node < len(names) and names[node] else "the rows"
        reason = REASONS.get(code, f"error {code}")
        if not writing:
            hint = "raise Limits.memory_bytes if you trust the file" if code == NO_MEMORY else "the file is damaged"
            return MalformedMetadata(f"Avro: {reason} (in {where})", hint=hint, column=where)
        kind = InvalidArgument if code == NO_MEMORY else InvalidValue
        return kind(f"Avro: {reason} (in {where})", hint="make the rows fit the schema", column=where)


_pool: list[Sandbox] = []
_pool_lock = threading.Lock()


@contextlib.contextmanager
def sandbox(memory_bytes: int) -> Iterator[Sandbox]:
    """An instance for the length of the block, from the pool where there is one."""
    with _pool_lock:
        instance = _pool.pop() if _pool else None
    if instance is None:
        instance = Sandbox()
    instance.limit(memory_bytes)
    yield instance
    # Not in a `finally`: an instance that failed is dropped, whatever state it is in.
    if instance.size() <= _KEEP_BYTES:
        with _pool_lock:
            if len(_pool) < _POOL_SIZE:
                _pool.append(instance)

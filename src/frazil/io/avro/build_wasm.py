"""Rebuild ``avro.wasm`` from ``avro.c``: ``python -m frazil.io.avro.build_wasm`` (needs clang and lld, users do not).

The SHA-256 of the C source is kept in a custom section of the module, so that a test can tell when the two drift apart.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SOURCE, BINARY = HERE / "avro.c", HERE / "avro.wasm"
SECTION = b"source-sha256"
FLAGS = [
    *("--target=wasm32", "-nostdlib", "-O3", "-Wall", "-Wextra", "-Werror", "-mbulk-memory"),
    *("-Wl,--no-entry", "-Wl,--strip-all", "-Wl,--stack-first", "-Wl,-z,stack-size=65536"),
]


def source_digest() -> bytes:
    """The SHA-256 of the C source as it is now."""
    return hashlib.sha256(SOURCE.read_bytes()).hexdigest().encode()


def recorded_digest() -> bytes:
    """The SHA-256 of the C source that the binary was built from (the last bytes of the file)."""
    return BINARY.read_bytes()[-64:]


def main() -> None:
    """Compile, then append the custom section: id 0, size, and a name with its length before it."""
    subprocess.run(["clang", *FLAGS, "-o", str(BINARY), str(SOURCE)], check=True)
    body = bytes([len(SECTION)]) + SECTION + source_digest()
    BINARY.write_bytes(BINARY.read_bytes() + bytes([0, len(body)]) + body)
    BINARY.chmod(0o644)
    sys.stdout.write(f"{BINARY.name}: {BINARY.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()

"""Data files on the local disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from frazil.iceberg.data_file import DataFile


def path_of(location: str) -> Path:
    """A location of the local disk as a path."""
    return Path(location.removeprefix("file://").removeprefix("file:"))


def parquet(file: DataFile) -> Any:
    """A data file, opened by Arrow."""
    return pq.ParquetFile(path_of(file.file_path))

"""Metadata and files as they are sent to other processes: with what readers and writers of rows need, and no more."""

from __future__ import annotations

from dataclasses import replace

from frazil.iceberg.data_file import DataFile
from frazil.iceberg.metadata import TableMetadata


def without_history(metadata: TableMetadata) -> TableMetadata:
    """Metadata that is small to send: schemas, specs, orders and properties."""
    return replace(
        metadata,
        snapshots=(),
        snapshot_log=(),
        metadata_log=(),
        refs={},
        statistics=(),
        partition_statistics=(),
        current_snapshot_id=None,
    )


def bare(file: DataFile) -> DataFile:
    """A file without what is known of its columns."""
    return replace(
        file,
        column_sizes=None,
        value_counts=None,
        null_value_counts=None,
        nan_value_counts=None,
        lower_bounds=None,
        upper_bounds=None,
    )

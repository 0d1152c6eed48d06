"""A scan with a filter gives the rows of a full scan that match it: whatever was pruned held none of them."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.ambient import Ambient, replaced
from frazil.errors import InvalidArgument
from frazil.iceberg.data_file import DataFile
from frazil.iceberg.planning import FileScanTask
from frazil.iceberg.table import IcebergTable
from frazil.iceberg.write import RowWriter
from frazil.io.deletion_vector import DeletionVector
from frazil.model.partition import parse_partition_by
from frazil.model.schema import Schema
from frazil.model.types import BooleanType, DateType, DoubleType, FloatType, IntegerType, StringType, StructType
from tests.properties.memory_table import forget, new_table
from tests.properties.random_tables import (
    COMPARABLE,
    DAY,
    POOLS,
    PROMOTIONS,
    Row,
    batch_of,
    expression,
    filters,
    key,
    leaves,
    multiset,
    partition_terms,
    rows,
    rows_of,
    schemas,
    truth,
)
from tests.properties.row_deletes import deletion_vectors, equality_deletes, old_positions, position_deletes

METRICS = st.sampled_from(["none", "counts", "truncate(1)", "truncate(2)", "full"])


class Story:
    """A table being written at random, and the rows it should have."""

    def __init__(self, data: st.DataObject, file_format: str) -> None:
        self.draw = data.draw
        self.file_format = file_format
        version = self.draw(st.sampled_from([1, 2, 3]))
        schema = self.draw(schemas(version, file_format))
        properties = {"write.format.default": file_format, "write.metadata.metrics.default": self.draw(METRICS)}
        spec = parse_partition_by(schema, self.draw(partition_terms(schema)))
        self.table, _ = new_table(schema, spec, format_version=version, properties=properties)
        self.rows: dict[int, Row] = {}
        self._next = 0

    @property
    def schema(self) -> Schema:
        return self.table.schema

    def append(self) -> None:
        made = self.draw(rows(self.schema, self.file_format, min_size=1))
        self.table.append(batch_of(self.schema, self.numbered(made)))
        self.rows |= {row[1]: row for row in made}

    def numbered(self, made: list[Row]) -> list[Row]:
        for row in made:
            row[1] = self._next
            self._next += 1
        return made

    def write(self, made: list[Row]) -> list[DataFile]:
        """Files of rows that are not committed yet."""
        if not made:
            return []
        return RowWriter(self.table.metadata, self.table.store).write([batch_of(self.schema, self.numbered(made))])

    def evolve_spec(self) -> None:
        removed = [part.name for part in self.table.spec.fields if str(part.transform) != "void"]
        change = self.table.update_spec()
        for name in removed:
            change.remove_field(name)
        change.commit()
        terms = self.draw(partition_terms(self.schema))
        change = self.table.update_spec()
        for at, term in enumerate(terms):
            change.add_field(term, f"p{len(self.table.metadata.partition_specs)}_{at}")
        change.commit()

    def evolve_schema(self) -> None:
        """Widen, add, rename or drop a column; what a rule of the format forbids is left alone."""
        known = leaves(self.schema)
        change, done = self.table.update_schema(), f"e{len(self.table.metadata.schemas)}"
        kind = self.draw(st.sampled_from(["widen", "add", "add", "rename", "drop"]))
        wide = [leaf for leaf in known if leaf.type in PROMOTIONS] if kind == "widen" else []
        leaf = self.draw(st.sampled_from(wide or [leaf for leaf in known if leaf.name != "n"]))
        try:
            if kind == "widen":
                if not wide or (leaf.type == DateType() and self.table.format_version < 3):
                    return
                change.update_column(leaf.name, PROMOTIONS[leaf.type]).commit()
                for row in self.rows.values():
                    if leaf.type == DateType() and leaf.of(row) is not None:
                        leaf.put(row, leaf.of(row) * DAY)
            elif kind == "add":
                around = leaf.name + "." if isinstance(leaf.type, StructType) else ""
                type_ = self.draw(st.sampled_from([IntegerType(), StringType(), DoubleType(), BooleanType()]))
                default = None
                if self.table.format_version >= 3:
                    default = self.draw(st.none() | st.sampled_from(POOLS[type_]))
                    default = None if isinstance(default, float) and not math.isfinite(default) else default
                change.add_column(around + done, type_, default=default).commit()
                added = next(new for new in leaves(self.schema) if new.name == around + done)
                for row in self.rows.values():
                    added.put(row, default)
            elif kind == "rename":
                change.rename_column(leaf.name, done).commit()
            else:
                change.drop_column(leaf.name).commit()
                for row in self.rows.values():
                    leaf.drop(row)
        except InvalidArgument:
            return

    def places(self) -> list[tuple[FileScanTask, dict[int, int]]]:
        """Where live rows are: `n` to position, by data file."""
        tasks = sorted(self.table.scan().plan().tasks(), key=lambda task: task.file.file_path)
        found: dict[str, dict[int, int]] = {task.file.file_path: {} for task in tasks}
        for row in self.table.scan(columns=["n", "_file", "_pos"]).to_arrow().to_pylist():
            found[row["_file"]][row["n"]] = row["_pos"]
        return [(task, found[task.file.file_path]) for task in tasks]

    def delete_positions(self) -> None:
        if not self.rows or self.table.format_version < 2:
            return
        gone = self.draw(st.sets(st.sampled_from(sorted(self.rows)), min_size=1))
        hit = [
            (task, [at for n, at in places.items() if n in gone])
            for task, places in self.places()
            if gone & set(places)
        ]
        delta = self.table.new_row_delta()
        if self.table.format_version >= 3:
            vectors = []
            for task, positions in hit:
                old = old_positions(self.table, task.file, task.deletes)
                vectors.append((task.file, old.union(DeletionVector.from_positions(positions))))
                for delete in task.deletes:
                    if delete.is_deletion_vector:
                        delta.remove_deletes(delete)
            for made in deletion_vectors(self.table, vectors):
                delta.add_deletes(made)
        else:
            for group in self._grouped([(task.file, positions) for task, positions in hit]):
                names, full = self.draw(st.booleans()), self.draw(st.booleans())
                delta.add_deletes(
                    position_deletes(
                        self.table, group, file_format=self.file_format, names_file=names, full_bounds=full
                    )
                )
            for added in self.write([copy.deepcopy(self.rows[n]) for n in sorted(gone)[:1]]):
                # a row that comes and goes in one commit
                group, full = [(added, [0])], self.draw(st.booleans())
                file = position_deletes(self.table, group, file_format=self.file_format, full_bounds=full)
                delta.add_rows(added).add_deletes(file)
        delta.commit()
        for n in gone:
            del self.rows[n]

    def _grouped(self, listed: list[tuple[DataFile, list[int]]]) -> list[list[tuple[DataFile, list[int]]]]:
        if self.draw(st.booleans()):
            return [[pair] for pair in listed]
        grouped: dict[Any, list[tuple[DataFile, list[int]]]] = {}
        for file, positions in listed:
            grouped.setdefault((file.spec_id, key(file.partition)), []).append((file, positions))
        return list(grouped.values())

    def delete_equal(self) -> None:
        if not self.rows or self.table.format_version < 2:
            return
        fields = [column for column in self.schema.fields if column.type in COMPARABLE]
        fields = [column for column in fields if not isinstance(column.type, FloatType | DoubleType)]
        fields = [column for column in fields if column.name != "n"] or fields
        picked = self.draw(st.lists(st.sampled_from(fields), min_size=1, max_size=2, unique_by=lambda one: one.id))
        schema = Schema(tuple(picked))
        victims = [self.rows[n] for n in self.draw(st.sets(st.sampled_from(sorted(self.rows)), min_size=1, max_size=3))]
        keys = [[row.get(column.id) for column in picked] for row in victims]
        places = self.places()
        task, _ = places[self.draw(st.integers(0, len(places) - 1))]
        spec_id, partition = task.file.spec_id, task.file.partition
        everywhere = self.table.metadata.spec(spec_id).is_unpartitioned
        mode = {"write.metadata.metrics.default": self.draw(METRICS)}
        file = equality_deletes(
            self.table, schema, keys, spec_id, partition, file_format=self.file_format, properties=mode
        )
        delta = self.table.new_row_delta().add_deletes(file)
        again = [copy.deepcopy(row) for row in victims] if self.draw(st.booleans()) else []
        for added in self.write(again):  # an upsert: what comes with the delete is not deleted by it
            delta.add_rows(added)
        delta.commit()
        wanted = {key(values) for values in keys}
        for other, inside in places:
            here = (other.file.spec_id, key(other.file.partition)) == (spec_id, key(partition))
            for n in inside if everywhere or here else ():
                if key([self.rows[n].get(column.id) for column in picked]) in wanted:
                    del self.rows[n]
        self.rows |= {row[1]: row for row in again}


@contextmanager
def story(data: st.DataObject, file_format: str) -> Iterator[Story]:
    with replaced(Ambient(seed=1, start_ms=1_700_000_000_000)):
        told = Story(data, file_format)
        try:
            told.append()
            steps = [told.append, told.append, told.evolve_spec, told.evolve_schema]
            steps += [told.delete_positions, told.delete_equal]
            for step in data.draw(st.lists(st.sampled_from(steps), max_size=5)):
                step()
            yield told
        finally:
            forget(told.table)


def check_scans(told: Story, table: IcebergTable) -> None:
    schema = told.schema
    full = list(told.rows.values())
    assert multiset(rows_of(schema, table.scan().to_arrow())) == multiset(full)
    assert table.scan().count() == len(full)
    for _ in range(4):
        where = told.draw(filters(schema))
        expected = [row for row in full if truth(where, row)]
        scan = table.scan(expression(where))
        assert multiset(rows_of(schema, scan.to_arrow())) == multiset(expected)
        assert scan.count() == len(expected)
        numbers = [n for batch in scan.select("n").to_batches() for n in batch.column(0).to_pylist()]
        assert sorted(numbers) == sorted(row[1] for row in expected)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@given(data=st.data())
def test_a_scan_with_a_filter_gives_the_matching_rows_of_a_full_scan(file_format: str, data: st.DataObject) -> None:
    with story(data, file_format) as told:
        check_scans(told, told.table)


@given(data=st.data())
@settings(max_examples=settings().max_examples // 2)
def test_deleting_by_a_filter_deletes_the_matching_rows_and_only_those(data: st.DataObject) -> None:
    with story(data, "parquet") as told:
        table, where = told.table, told.draw(filters(told.schema))
        ids = row_ids(table)
        left = [row for row in told.rows.values() if not truth(where, row)]
        table.delete(expression(where))
        assert multiset(rows_of(told.schema, table.scan().to_arrow())) == multiset(left)
        if table.format_version >= 3 and left:
            assert row_ids(table) == {row[1]: ids[row[1]] for row in left}


def row_ids(table: IcebergTable) -> dict[int, tuple[int, int]]:
    if table.format_version < 3:
        return {}
    found = table.scan(columns=["n", "_row_id", "_last_updated_sequence_number"]).to_arrow().to_pylist()
    return {row["n"]: (row["_row_id"], row["_last_updated_sequence_number"]) for row in found}

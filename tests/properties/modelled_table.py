"""A table beside a plain model of it: changes with their effect on the rows, and the checks that both agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from frazil.ambient import Ambient, replaced
from frazil.iceberg import manifest_schema as ids
from frazil.iceberg.actions.action import Context
from frazil.iceberg.data_file import Content, DataFile
from frazil.iceberg.delete_conversion import convert_equality_deletes
from frazil.iceberg.delete_index import is_vector, target_paths
from frazil.iceberg.delete_reader import DeleteReader
from frazil.iceberg.delete_rewrite import rewrite_position_delete_files
from frazil.iceberg.delete_writer import DeleteWriter, WrittenDeletes
from frazil.iceberg.manifest import ALL_COLUMNS
from frazil.iceberg.merge_on_read import MergeOnRead, fill
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.planning import FileScanTask
from frazil.iceberg.read import TaskReader
from frazil.iceberg.rewrite import CopyOnWrite
from frazil.iceberg.snapshot import Snapshot
from frazil.iceberg.table import IcebergTable, TableTransaction
from frazil.iceberg.write import RowWriter
from frazil.io.deletion_vector import DeletionVector
from frazil.model.conform import conform
from frazil.model.expression_parser import as_expression
from frazil.model.expressions import AlwaysTrue, col
from frazil.model.partition import parse_partition_by
from frazil.model.schema import LAST_UPDATED_SEQUENCE_NUMBER, ROW_ID, Schema
from frazil.model.types import LongType, NestedField, StringType
from tests.properties.memory_table import forget, new_table
from tests.properties.row_deletes import equality_deletes, position_deletes

SCHEMA = Schema(
    (
        NestedField(1, "n", LongType(), required=True),
        NestedField(2, "cat", StringType()),
        NestedField(3, "v", LongType()),
    )
)
CATS = ["a", "b", None]
SPECS: dict[str, list[str]] = {"none": [], "cat": ["cat"], "bucket": ["bucket(2, n)"]}
PROPERTIES = {"commit.manifest.min-count-to-merge": "3", "commit.retry.num-retries": "10"}


@dataclass(frozen=True)
class Row:
    """A row of the model: its values by field id, and the partition it was written to."""

    values: dict[int, Any]
    place: tuple[int, tuple[Any, ...]]


Rows = dict[int, Row]
"""By `n`, which is never used twice."""


@dataclass(frozen=True)
class Change:
    """A change that is ready to be committed, and what it does to the rows it finds then."""

    commit: Callable[[], Any]
    effect: Callable[[Rows], Rows]


class Inside(IcebergTable):
    """A table as one of its transactions sees it: changes go into the transaction."""

    def __init__(self, table: IcebergTable, transaction: TableTransaction) -> None:
        super().__init__(table.identifier, table.store, table._committer, table._state)
        self._inside = transaction

    @property
    def metadata(self) -> TableMetadata:
        return self._inside.metadata

    def _transaction(self) -> TableTransaction:
        return self._inside


class ModelledTable:
    """One table of one format version, and all its snapshots as they must be."""

    version = 2

    def __init__(self) -> None:
        super().__init__()
        self._ambient = replaced(Ambient(seed=5, start_ms=1_700_000_000_000))
        self._ambient.__enter__()
        spec = parse_partition_by(SCHEMA, SPECS["cat"])
        self.table, self.pointer = new_table(SCHEMA, spec, format_version=self.version, properties=PROPERTIES)
        self.snapshots: dict[int, Rows] = {}
        self.lineage: dict[int, dict[int, tuple[int | None, int | None]]] = {}
        self.refs: dict[str, int] = {}
        self.staged: dict[int, Rows] = {}
        self.next_n = 0
        self.names = 0
        self.checked_states = 1
        self.may_be_left: set[str] = set()

    def teardown(self) -> None:
        try:
            for snapshot in self.table.metadata.snapshots:
                self.check_rows(snapshot)
        finally:
            forget(self.table)
            self._ambient.__exit__(None, None, None)

    # What the table has

    def head(self, branch: str) -> int | None:
        return self.refs.get(branch, self.refs.get("main"))

    def rows(self, branch: str) -> Rows:
        head = self.head(branch)
        return {} if head is None else self.snapshots[head]

    def tasks(self, table: IcebergTable, branch: str) -> list[FileScanTask]:
        head = self.head(branch)
        if head is None:
            return []
        return sorted(table.scan(version=head).plan().tasks(), key=lambda task: task.file.file_path)

    def places(self, table: IcebergTable, branch: str) -> dict[str, dict[int, int]]:
        found: dict[str, dict[int, int]] = {}
        head = self.head(branch)
        if head is not None:
            name = name_of(table.metadata.schema_of(table.metadata.snapshot(head)), 1)
            for row in table.scan(version=head, columns=[name, "_file", "_pos"]).to_arrow().to_pylist():
                found.setdefault(row["_file"], {})[row[name]] = row["_pos"]
        return found

    def new_rows(self, data: st.DataObject, least: int = 1) -> list[Row]:
        spec = self.table.spec
        made = []
        for cat, v in data.draw(
            st.lists(st.tuples(st.sampled_from(CATS), st.integers(0, 3)), min_size=least, max_size=4)
        ):
            values = {1: self.next_n, 2: cat, 3: v}
            values = {column.id: values.get(column.id, v) for column in self.table.schema.fields}
            types = {column.id: column.type for column in self.table.schema.fields}
            partition = tuple(
                part.transform.apply(types[part.source_id], values[part.source_id]) if part.source_id in types else None
                for part in spec.fields
            )
            made.append(Row(values, (spec.spec_id, partition)))
            self.next_n += 1
        return made

    def arrow(self, made: list[Row]) -> list[dict[str, Any]]:
        return [{column.name: row.values[column.id] for column in self.table.schema.fields} for row in made]

    def write(self, table: IcebergTable, made: list[Row]) -> list[DataFile]:
        return RowWriter(table.metadata, table.store).write(conform(self.arrow(made), table.schema))

    # Changes of rows

    def change(self, data: st.DataObject, table: IcebergTable, branch: str) -> Change | None:
        kinds = [self.append, self.append, self.overwrite, self.delete, self.replace_partitions, self.compact]
        kinds += [self.rewrite_manifests]
        if table.format_version > 1:
            kinds += [self.delete_positions, self.delete_positions, self.delete_equal]
            kinds += [self.rewrite_deletes, self.convert_deletes]
        return data.draw(st.sampled_from(kinds))(data, table, branch)

    def change_of_rows(self, data: st.DataObject, table: IcebergTable, branch: str) -> Change | None:
        """A change of rows that are there: two of them often meet."""
        kinds = [self.delete, self.compact]
        if table.format_version > 1:
            kinds += [self.delete_positions, self.delete_positions, self.delete_equal]
            kinds += [self.rewrite_deletes, self.convert_deletes]
        return data.draw(st.sampled_from(kinds))(data, table, branch)

    def append(self, data: st.DataObject, table: IcebergTable, branch: str) -> Change:
        made = self.new_rows(data)
        files = self.write(table, made)
        fast = data.draw(st.booleans())

        def commit() -> None:
            action = table.new_fast_append() if fast else table.new_append()
            action.append_files(files).to_branch(branch).commit()

        return Change(commit, lambda rows: rows | {row.values[1]: row for row in made})

    def delete(self, data: st.DataObject, table: IcebergTable, branch: str) -> Change:
        where, matches = self.filter(data)
        marks = table.format_version > 1 and data.draw(st.booleans())
        work = MergeOnRead if marks else CopyOnWrite
        return Change(
            lambda: work(table, branch).delete(where),
            lambda rows: {n: row for n, row in rows.items() if not matches(row)},
        )

    def overwrite(self, data: st.DataObject, table: IcebergTable, branch: str) -> Change:
        where, matches = self.filter(data)
        made = self.new_rows(data)
        return Change(
            lambda: CopyOnWrite(table, branch).overwrite(self.arrow(made), as_expression(where)),
            lambda rows: {n: row for n, row in rows.items() if not matches(row)} | {row.values[1]: row for row in made},
        )

    def filter(self, data: st.DataObject) -> tuple[Any, Callable[[Row], bool]]:
        kind = data.draw(st.sampled_from(["cat", "v", "n"]))
        if kind == "cat":
            cat = data.draw(st.sampled_from(["a", "b"]))
            return col(name_of(self.table.schema, 2)) == cat, lambda row: row.values[2] == cat
        if kind == "v" and self.table.schema.field_by_id(3) is not None:
            least = data.draw(st.integers(0, 3))
            return col(name_of(self.table.schema, 3)) >= least, lambda row: row.values.get(3, -1) >= least
        below = data.draw(st.integers(0, self.next_n))
        return col("n") < below, lambda row: row.values[1] < below

    def replace_partitions(self, data: st.DataObject, table: IcebergTable, branch: str) -> Change:
        made = self.new_rows(data)
        files, gone, base = self.write(table, made), {row.place for row in made}, self.head(branch)
        validates = data.draw(st.booleans())

        def commit() -> None:
            action = table.new_replace_partitions().add_files(files).to_branch(branch)
            if validates:
                action.validate_from(base).validate_no_conflicting_data().validate_no_conflicting_deletes()
            action.commit()

        return Change(
            commit,
            lambda rows: (
                {n: row for n, row in rows.items() if row.place not in gone} | {row.values[1]: row for row in made}
            ),
        )

    def delete_positions(self, data: st.DataObject, table: IcebergTable, branch: str) -> Change | None:
        rows, base = self.rows(branch), self.head(branch)
        if not rows:
            return None
        gone = data.draw(st.sets(st.sampled_from(sorted(rows)), min_size=1, max_size=4))
        places = self.places(table, branch)
        hit = [
            (task, [at for n, at in places.get(task.file.file_path, {}).items() if n in gone])
            for task in self.tasks(table, branch)
        ]
        hit = [(task, positions) for task, positions in hit if positions]
        written = WrittenDeletes()
        if table.format_version >= 3 or data.draw(st.booleans()):
            told = {"write.delete.granularity": data.draw(st.sampled_from(["file", "partition"]))}
            work = ((task, DeletionVector.from_positions(positions)) for task, positions in hit)
            written = DeleteWriter(table.metadata, table.store, properties=told).write(work)
            assert written.deleted_rows == len(gone)
        else:
            written.added.extend(position_deletes(table, [(task.file, at)], full_bounds=False) for task, at in hit)
        checks = data.draw(st.booleans())

        def commit() -> None:
            delta = table.new_row_delta().to_branch(branch).validate_from(base)
            delta.validate_data_files_exist(task.file.file_path for task, _ in hit)
            if checks:
                delta.validate_deleted_files().validate_no_conflicting_deletes()
            fill(delta, written, written.emptied).commit()

        return Change(commit, lambda found: {n: row for n, row in found.items() if n not in gone})

    def delete_equal(self, data: st.DataObject, table: IcebergTable, branch: str) -> Change | None:
        rows = self.rows(branch)
        if not rows:
            return None
        victim = rows[data.draw(st.sampled_from(sorted(rows)))]
        number = data.draw(st.sampled_from([1, 2]))
        wanted, place = victim.values[number], victim.place
        spec = table.metadata.spec(place[0])
        unpartitioned = [one for one in table.metadata.partition_specs if one.is_unpartitioned]
        if unpartitioned and data.draw(st.booleans()):
            place = (unpartitioned[0].spec_id, (None,) * len(unpartitioned[0].fields))  # all void, in version 1
            spec = table.metadata.spec(place[0])
        schema = Schema((replace(table.schema.field_by_id(number), required=False),))  # type: ignore[type-var]
        file = equality_deletes(table, schema, [[wanted]], *place)

        def commit() -> None:
            table.new_row_delta().to_branch(branch).add_deletes(file).commit()

        def effect(found: Rows) -> Rows:
            return {
                n: row
                for n, row in found.items()
                if row.values[number] != wanted or not (spec.is_unpartitioned or row.place == place)
            }

        return Change(commit, effect)

    def compact(self, data: st.DataObject, table: IcebergTable, branch: str) -> Change | None:
        """Some files of one partition become one file, of which rows keep their ids, and their age for deletes."""
        tasks = self.tasks(table, branch)
        if not tasks:
            return None
        first = data.draw(st.sampled_from(range(len(tasks))))
        place = (tasks[first].file.spec_id, tasks[first].file.partition)
        chosen = [task for task in tasks if (task.file.spec_id, task.file.partition) == place]
        head = table.metadata.snapshot(self.head(branch))  # type: ignore[arg-type]
        schema = table.schema
        lineage = (ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER) if table.format_version >= 3 else ()
        output = Schema((*schema.fields, *lineage), schema.schema_id)
        reader = TaskReader(
            table.store, table.metadata, output, schema, DeleteReader(table.store, table.metadata), 1000
        )
        batches = [batch for task in chosen for batch in reader.read(replace(task, residual=AlwaysTrue()))]
        writer = RowWriter(table.metadata, table.store, schema=output, spec=table.metadata.spec(place[0]))
        new = writer.write(batches)
        keeps_age = data.draw(st.booleans())

        def commit() -> None:
            action = table.new_rewrite().to_branch(branch).validate_from(head.snapshot_id)
            action.rewrite([task.file for task in chosen], new)
            if keeps_age:
                action.data_sequence_number(head.sequence_number)
            action.commit()

        return Change(commit, lambda rows: rows)

    def rewrite_deletes(self, data: st.DataObject, table: IcebergTable, branch: str) -> Change:
        """Delete files become vectors, or are joined."""
        options = {"rewrite-all": "true"} if data.draw(st.booleans()) else {"min-input-files": "1"}
        where = as_expression(self.filter(data)[0] if data.draw(st.booleans()) else None)
        return Change(lambda: rewrite_position_delete_files(table, where, options, branch), lambda rows: rows)

    def convert_deletes(self, data: st.DataObject, table: IcebergTable, branch: str) -> Change:
        """Equality deletes become deletes by position."""
        where = self.filter(data)[0] if data.draw(st.booleans()) else None
        return Change(lambda: convert_equality_deletes(table, as_expression(where), {}, branch), lambda rows: rows)

    def rewrite_manifests(self, data: st.DataObject, table: IcebergTable, branch: str) -> Change | None:
        if self.head(branch) is None:
            return None
        return Change(lambda: table.rewrite_manifests().to_branch(branch).commit(), lambda rows: rows)

    # What must hold

    def took_place(self, branch: str, rows: Rows, table: IcebergTable | None = None) -> None:
        """The branch is now at a snapshot with these rows; at the same one if nothing changed."""
        table = table or self.table
        ref = table.metadata.refs.get(branch)
        if ref is None:
            assert self.rows(branch) == rows
            return
        if ref.snapshot_id in self.snapshots:
            assert self.snapshots[ref.snapshot_id] == rows
        self.refs[branch] = ref.snapshot_id
        self.snapshots[ref.snapshot_id] = self.placed(table, ref.snapshot_id, rows)
        self.learn(table)

    def placed(self, table: IcebergTable, snapshot_id: int, rows: Rows) -> Rows:
        """The rows with the partitions they are in: rewriting a file moves what stays of it to today's spec."""
        name = name_of(table.metadata.schema_of(table.metadata.snapshot(snapshot_id)), 1)
        scan = table.scan(version=snapshot_id, columns=[name, "_file"])
        places = {task.file.file_path: (task.file.spec_id, task.file.partition) for task in scan.plan().tasks()}
        found = {row[name]: places[row["_file"]] for row in scan.to_arrow().to_pylist()}
        return {n: replace(row, place=found.get(n, row.place)) for n, row in rows.items()}

    def learn(self, table: IcebergTable) -> None:
        for snapshot in table.metadata.snapshots:
            if snapshot.snapshot_id not in self.lineage and snapshot.snapshot_id in self.snapshots:
                self.check_rows(snapshot, table)

    def stored(self) -> set[str]:
        return {file.location for file in self.table.store.list(self.table.location)}

    def check_rows(self, snapshot: Snapshot, table: IcebergTable | None = None) -> None:
        """A snapshot reads as it did when it was made: its rows, and in v3 their ids."""
        table = table or self.table
        schema = table.metadata.schema_of(snapshot)
        expected = self.snapshots[snapshot.snapshot_id]
        scan = table.scan(version=snapshot.snapshot_id)
        columns = {column.id: scan.to_arrow().column(column.name).to_pylist() for column in schema.fields}
        found = dict(zip(columns[1], zip(*columns.values(), strict=True), strict=True))
        assert len(found) == len(columns[1]), "a row is there twice"
        assert found == {n: tuple(row.values.get(number) for number in columns) for n, row in expected.items()}
        assert scan.count() == len(expected)
        lineage: dict[int, tuple[int | None, int | None]] = {}
        if snapshot.first_row_id is not None:
            names = ["n", "_row_id", "_last_updated_sequence_number"]
            listed = table.scan(version=snapshot.snapshot_id, columns=names).to_arrow().to_pydict()
            lineage = dict(zip(listed["n"], zip(listed["_row_id"], listed[names[2]], strict=True), strict=True))
            numbers = [row_id for row_id, _ in lineage.values()]
            assert None not in numbers
            assert len(set(numbers)) == len(numbers)
            assert all(number < table.metadata.next_row_id for number in numbers)
        known = self.lineage.setdefault(snapshot.snapshot_id, lineage)
        assert lineage == known
        earlier = self.lineage.get(snapshot.parent_snapshot_id or -1, {})
        for n in lineage.keys() & earlier.keys():
            assert lineage[n] == earlier[n], "a row that nobody changed has another id or age"

    def check_files(self, metadata: TableMetadata, snapshot: Snapshot) -> set[str]:
        context = Context(metadata, self.table.store)
        manifests = context.manifests(snapshot)
        used = {manifest.manifest_path for manifest in manifests} | {snapshot.manifest_list or ""}
        live: dict[str, int] = {}
        targets: list[str] = []
        vectors: list[str] = []
        for entries in _entries(context, manifests):
            assert (entries.numpy(ids.SEQUENCE_NUMBER) <= snapshot.sequence_number).all()
            paths = entries.column(ids.FILE_PATH).to_pylist()
            used.update(paths)
            data = entries.numpy(ids.CONTENT) == Content.DATA
            for path, is_data, rows in zip(paths, data, entries.numpy(ids.RECORD_COUNT), strict=True):
                if is_data:
                    assert path not in live, "a data file is listed twice"
                    live[path] = int(rows)
            vectors += entries.filter(is_vector(entries)).column(ids.REFERENCED_DATA_FILE).to_pylist()
            targets += [path for path in target_paths(entries).to_pylist() if path is not None]
        assert len(set(vectors)) == len(vectors), "two vectors for one data file"
        assert set(vectors) <= set(live), "a vector outlived its data file"
        if snapshot.summary.get("total-data-files") is not None:
            assert snapshot.summary["total-data-files"] == str(len(live))
            assert snapshot.summary["total-records"] == str(sum(live.values()))
        return used


def _entries(context: Context, manifests: list[Any]) -> Iterator[Any]:
    for entries in context.reader.read(manifests, ALL_COLUMNS):
        yield entries.filter(entries.live)


def name_of(schema: Schema, number: int) -> str:
    name = schema.name_of(number)
    assert name is not None
    return name

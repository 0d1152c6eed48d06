"""Files into the table: the action that each mode of writing stands for, in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from frazil.errors import MAY_BE_COMMITTED, FrazilError
from frazil.iceberg import properties as props
from frazil.iceberg.actions.overwrite import OverwriteFiles
from frazil.iceberg.actions.replace_partitions import ReplacePartitions
from frazil.iceberg.rewrite import CopyOnWrite
from frazil.iceberg.write import remove_files
from frazil.model.expressions import AlwaysTrue, Expression
from frazil.spark.write.settings import WriteSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.iceberg.actions.snapshot_action import SnapshotAction
    from frazil.iceberg.data_file import DataFile
    from frazil.iceberg.table import IcebergTable, TableTransaction


class Commit:
    """What one write changes. `prepare` finds out, `run` does it; in between nothing has happened."""

    def __init__(
        self, table: IcebergTable, changes: TableTransaction, settings: WriteSettings, spark: SparkSession
    ) -> None:
        self._table = table
        self._changes = changes
        self._settings = settings
        self._spark = spark
        self._kept: Sequence[DataFile] = ()
        self._action: Any = None

    def prepare(self, mode: str, files: Sequence[DataFile], where: Expression) -> None:
        """Work out which files go and which come. Rows that stay, of files that go, are written anew."""
        if mode == "append":
            self._action = self._changes.new_append().append_files(files)
        elif mode == "dynamic":
            self._action = self._validated(self._changes.new_replace_partitions().add_files(files)) if files else None
        elif isinstance(where, AlwaysTrue):
            self._action = self._validated(self._changes.new_overwrite().add_files(files).overwrite_where(where))
        else:
            self._action = self._overwriting(files, where)
        if self._action is not None:  # else there is no partition to replace
            as_told(self._action, self._settings, self._spark)

    def run(self) -> None:
        """Commit. Where nothing changes there is no snapshot."""
        with self._changes:
            if self._action is not None:
                self._action.commit()

    def abandon(self) -> None:
        """Remove what `prepare` wrote: it was definitely not committed."""
        remove_files(self._table.store, self._kept)

    def _overwriting(self, files: Sequence[DataFile], where: Expression) -> Any:
        work = CopyOnWrite(self._table, self._settings.branch)
        removal = work.without(where)
        self._kept = removal.kept
        action = self._changes.new_overwrite()
        if removal.is_whole:
            return self._validated(action.add_files(files).overwrite_where(where))
        if not (files or removal.removed):
            return self._changes.new_append()
        return work.fill(action, removal, [*files, *removal.kept], where, self._level)

    @property
    def _level(self) -> str:
        return self._settings.isolation or self._table.metadata.property_reader.get(props.DELETE_ISOLATION_LEVEL)

    def _validated(self, action: OverwriteFiles | ReplacePartitions) -> Any:
        """Others' changes since the table was loaded are overwritten too, unless a level of isolation is asked for."""
        level, since = self._settings.isolation, self._settings.validate_from
        if level is None:
            return action
        found = self._table.metadata.refs.get(self._settings.branch)
        current = None if found is None else found.snapshot_id
        action.validate_from(current if since is None else since).validate_no_conflicting_deletes()
        return action.validate_no_conflicting_data() if level == "serializable" else action


def as_told(action: SnapshotAction, settings: WriteSettings, spark: SparkSession) -> None:
    """Let an action go where the settings say, and its summary tell what they tell."""
    action.to_branch(settings.branch)
    for key, text in {**engine_summary(spark), **settings.summary}.items():
        action.set(key, text)
    if settings.wap_id is not None:
        action.set("wap.id", settings.wap_id).stage_only()


def was_refused(error: FrazilError) -> bool:
    """Whether a commit that failed so is surely not in the table: what it wrote can go."""
    return not isinstance(error, MAY_BE_COMMITTED)


def engine_summary(spark: SparkSession) -> dict[str, str]:
    """What a snapshot tells of who made it."""
    return {
        "engine-name": "spark",
        "engine-version": str(spark.version),
        "spark.app.id": str(spark.sparkContext.applicationId),
    }

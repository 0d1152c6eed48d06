"""The actions by which a table is changed, each made with the table's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.iceberg.transaction import Transaction

if TYPE_CHECKING:
    from frazil.iceberg.actions.append import FastAppend, MergeAppend
    from frazil.iceberg.actions.cherry_pick import CherryPick
    from frazil.iceberg.actions.convert_deletes import ConvertDeletes
    from frazil.iceberg.actions.delete_files import DeleteFiles
    from frazil.iceberg.actions.expire_snapshots import ExpireSnapshots
    from frazil.iceberg.actions.manage_refs import ManageRefs
    from frazil.iceberg.actions.overwrite import OverwriteFiles
    from frazil.iceberg.actions.replace_partitions import ReplacePartitions
    from frazil.iceberg.actions.rewrite_files import RewriteFiles
    from frazil.iceberg.actions.rewrite_manifests import RewriteManifests
    from frazil.iceberg.actions.rollback import Rollback
    from frazil.iceberg.actions.row_delta import RowDelta
    from frazil.iceberg.actions.update_location import UpdateLocation
    from frazil.iceberg.actions.update_properties import UpdateProperties
    from frazil.iceberg.actions.update_schema import UpdateSchema
    from frazil.iceberg.actions.update_sort_order import UpdateSortOrder
    from frazil.iceberg.actions.update_spec import UpdateSpec
    from frazil.iceberg.actions.update_statistics import UpdateStatistics
    from frazil.iceberg.actions.upgrade_format_version import UpgradeFormat


class Changes:
    """The actions of a table. On a table each is committed by itself, in a transaction all together."""

    def _transaction(self) -> Transaction:
        raise AssertionError("given by the table or the transaction")  # pragma: no cover

    def new_append(self) -> MergeAppend:
        """Add data files, merging small manifests."""
        from frazil.iceberg.actions.append import MergeAppend

        return MergeAppend(self._transaction())

    def new_fast_append(self) -> FastAppend:
        """Add data files with the least work."""
        from frazil.iceberg.actions.append import FastAppend

        return FastAppend(self._transaction())

    def new_overwrite(self) -> OverwriteFiles:
        """Replace files, named or found by a filter."""
        from frazil.iceberg.actions.overwrite import OverwriteFiles

        return OverwriteFiles(self._transaction())

    def new_replace_partitions(self) -> ReplacePartitions:
        """Replace the partitions that new files belong to."""
        from frazil.iceberg.actions.replace_partitions import ReplacePartitions

        return ReplacePartitions(self._transaction())

    def new_delete(self) -> DeleteFiles:
        """Remove whole files."""
        from frazil.iceberg.actions.delete_files import DeleteFiles

        return DeleteFiles(self._transaction())

    def new_rewrite(self) -> RewriteFiles:
        """Replace files by others with the same rows."""
        from frazil.iceberg.actions.rewrite_files import RewriteFiles

        return RewriteFiles(self._transaction())

    def new_row_delta(self) -> RowDelta:
        """Add rows and deletes."""
        from frazil.iceberg.actions.row_delta import RowDelta

        return RowDelta(self._transaction())

    def convert_deletes(self) -> ConvertDeletes:
        """Replace equality deletes by deletes of positions."""
        from frazil.iceberg.actions.convert_deletes import ConvertDeletes

        return ConvertDeletes(self._transaction())

    def rewrite_manifests(self) -> RewriteManifests:
        """Regroup manifests by partition."""
        from frazil.iceberg.actions.rewrite_manifests import RewriteManifests

        return RewriteManifests(self._transaction())

    def update_schema(self) -> UpdateSchema:
        """Add, drop, rename, reorder or widen columns."""
        from frazil.iceberg.actions.update_schema import UpdateSchema

        return UpdateSchema(self._transaction())

    def update_spec(self) -> UpdateSpec:
        """Change how new rows are partitioned."""
        from frazil.iceberg.actions.update_spec import UpdateSpec

        return UpdateSpec(self._transaction())

    def update_sort_order(self) -> UpdateSortOrder:
        """Change how new rows are sorted."""
        from frazil.iceberg.actions.update_sort_order import UpdateSortOrder

        return UpdateSortOrder(self._transaction())

    def update_properties(self) -> UpdateProperties:
        """Set and remove properties."""
        from frazil.iceberg.actions.update_properties import UpdateProperties

        return UpdateProperties(self._transaction())

    def update_location(self) -> UpdateLocation:
        """Change where new files go."""
        from frazil.iceberg.actions.update_location import UpdateLocation

        return UpdateLocation(self._transaction())

    def update_statistics(self) -> UpdateStatistics:
        """Set and remove statistics files."""
        from frazil.iceberg.actions.update_statistics import UpdateStatistics

        return UpdateStatistics(self._transaction())

    def upgrade_format_version(self) -> UpgradeFormat:
        """Move the table to a newer format version."""
        from frazil.iceberg.actions.upgrade_format_version import UpgradeFormat

        return UpgradeFormat(self._transaction())

    def manage_refs(self) -> ManageRefs:
        """Create, move and drop branches and tags."""
        from frazil.iceberg.actions.manage_refs import ManageRefs

        return ManageRefs(self._transaction())

    def rollback(self) -> Rollback:
        """Go back to an earlier snapshot."""
        from frazil.iceberg.actions.rollback import Rollback

        return Rollback(self._transaction())

    def cherry_pick(self, snapshot_id: int) -> CherryPick:
        """Apply a staged snapshot's changes to the current one."""
        from frazil.iceberg.actions.cherry_pick import CherryPick

        return CherryPick(self._transaction(), snapshot_id)

    def expire_snapshots(self) -> ExpireSnapshots:
        """Drop old snapshots and the files only they need."""
        from frazil.iceberg.actions.expire_snapshots import ExpireSnapshots

        return ExpireSnapshots(self._transaction())

"""Partition spec updates: fields added, removed and renamed. Files already written keep the spec they have."""

from __future__ import annotations

from typing import Self

from frazil.errors import InvalidArgument
from frazil.iceberg.actions.action import Action, Context, Staged
from frazil.iceberg.requirements import AssertDefaultSpecId, AssertLastAssignedPartitionId, Requirement
from frazil.iceberg.transaction import Transaction
from frazil.iceberg.updates import LAST_ADDED, AddSpec, SetDefaultSpec, Update
from frazil.model.spec_evolution import evolve_spec
from frazil.model.terms import parse_term


class UpdateSpec(Action):
    """Changes to the default partition spec. After a conflict they are made to the spec of the other writer."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._adds: list[str] = []
        self._removes: list[str] = []
        self._renames: dict[str, str] = {}
        self._default = True

    def add_field(self, term: str, name: str | None = None) -> Self:
        """Add a field by a term such as `days(ts)` or `bucket(16, id)`, under a name of its own if one is given."""
        if name is not None:
            if parse_term(term).alias is not None:
                raise InvalidArgument(f"{term!r} names its field already", hint="give only one name")
            quoted = name.replace("`", "``")
            term = f"{term} AS `{quoted}`"
        parse_term(term)
        self._adds.append(term)
        return self

    def remove_field(self, name_or_term: str) -> Self:
        """Remove a field, by its name or by its term."""
        self._removes.append(name_or_term)
        return self

    def rename_field(self, name: str, new_name: str) -> Self:
        """Give a field another name."""
        if self._renames.get(name, new_name) != new_name:
            raise InvalidArgument(f"partition field {name!r} is renamed twice", hint="rename it once")
        self._renames[name] = new_name
        return self

    def add_non_default_spec(self) -> Self:
        """Only add the spec: writers go on using the one they use."""
        self._default = False
        return self

    def stage(self, context: Context) -> Staged:
        metadata = context.metadata
        spec, _ = evolve_spec(
            metadata.current_schema,
            metadata.partition_specs,
            metadata.default_spec,
            metadata.last_partition_id,
            metadata.format_version,
            adds=self._adds,
            removes=self._removes,
            renames=self._renames,
        )
        known = any(old.spec_id == spec.spec_id for old in metadata.partition_specs)
        updates: list[Update] = []
        requirements: list[Requirement] = []
        if not known:
            updates.append(AddSpec(spec))
            requirements.append(AssertLastAssignedPartitionId(metadata.last_partition_id))
        if self._default and spec.spec_id != metadata.default_spec_id:
            updates.append(SetDefaultSpec(spec.spec_id if known else LAST_ADDED))
            requirements.append(AssertDefaultSpecId(metadata.default_spec_id))
        return Staged(tuple(updates), tuple(requirements))

"""Numbers of fields, which are never used twice: earlier versions may be read with the columns of later ones.

A manifest shows the numbers of the fields that there are, and of those that its data files had. When a version shows
less than the one before it, it says in its metadata how far they had come. Other writers keep that, and do not heed it:
so a number may mean another column where they dropped one.
"""

from __future__ import annotations

from frazil.lance.proto.messages import DataFile, Manifest
from frazil.lance.schema import Node, tree
from frazil.lance.version import LanceVersion

LAST_FIELD_ID = "frazil.last-field-id"


def next_field_id(version: LanceVersion) -> int:
    """A number that no field of the table has, or had, and none in any file of it."""
    return last_field_id(version.manifest) + 1


def last_field_id(manifest: Manifest) -> int:
    """The highest number that was used so far; -1 if none was."""
    told = manifest.table_metadata.get(LAST_FIELD_ID, "")
    return max(_shown(manifest), int(told) if told.isdecimal() else -1)


def remember(manifest: Manifest, last: int) -> None:
    """Let a manifest say how far numbers had come, if it does not show it."""
    if last > _shown(manifest):
        manifest.table_metadata[LAST_FIELD_ID] = str(last)


def _shown(manifest: Manifest) -> int:
    listed = [field.id for field in manifest.fields]
    in_files = [number for one in manifest.fragments for file in one.files for number in file.fields]
    return int(max([-1, *listed, *in_files]))


def fields_to_read(version: LanceVersion, shape: LanceVersion) -> Manifest:
    """The columns of another version, to read a version with: those that it has not are null.

    A number is the same column if its type is the same, and its name, or a file that both versions have.
    """
    taken = {one.id: one for top in version.nodes for one in top.walk()}
    free = max(last_field_id(version.manifest), last_field_id(shape.manifest)) + 1
    made = Manifest(fields=shape.manifest.fields)
    for key, value in shape.manifest.schema_metadata.items():
        made.schema_metadata[key] = value
    others = {
        inner.id
        for top in tree(shape.manifest.fields)
        if top.id in taken and not _is_same(taken[top.id], top, version, shape)
        for inner in top.walk()
    }
    for field in made.fields:
        if field.id in others:
            field.id += free
        if field.parent_id in others:
            field.parent_id += free
    return made


def _is_same(old: Node, new: Node, version: LanceVersion, shape: LanceVersion) -> bool:
    if old.field.logical_type != new.field.logical_type:
        return False
    if old.name == new.name or version.location == shape.location:
        return True
    numbers = {one.id for one in new.walk()}
    return not _files(version, numbers).isdisjoint(_files(shape, numbers))


def _files(version: LanceVersion, numbers: set[int]) -> set[str]:
    def has(file: DataFile) -> bool:
        return not numbers.isdisjoint(file.fields)

    return {file.path for fragment in version.manifest.fragments for file in fragment.files if has(file)}

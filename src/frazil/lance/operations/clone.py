"""Branches and shallow clones: a first version elsewhere whose files stay where they are."""

from __future__ import annotations

from frazil import ambient
from frazil.errors import AlreadyExists, CommitStateUnknown, FrazilError, InvalidArgument
from frazil.io import location as locations
from frazil.io.store import Store, may_have_applied
from frazil.lance import layout
from frazil.lance.apply import stamp
from frazil.lance.commit import new_transaction
from frazil.lance.feature_flags import check_writable, set_flags
from frazil.lance.history import History
from frazil.lance.manifest_file import parse_manifest_file, render_manifest_file
from frazil.lance.proto.messages import BasePath, Clone, IndexSection, Manifest
from frazil.lance.refs import Branch, Refs, check_branch_name
from frazil.lance.version import LanceVersion


def create_branch(store: Store, root: str, name: str, version: LanceVersion) -> LanceVersion:
    """Begin a branch at a version of main or of another branch."""
    check_branch_name(name)
    refs = Refs(store, root)
    branches = refs.branches()
    history = History(store, root, name)
    if name in branches or history.files():
        raise AlreadyExists(f"there is a branch {name!r} already", hint="drop it first, or choose another name")
    if name in refs.tags():
        raise AlreadyExists(f"there is a tag {name!r} already", hint="choose another name for the branch")
    made = _cloned(history, version, branch=name)
    inherited = branches[version.branch].identifier if version.branch else ()
    refs.put_branch(
        Branch(
            name,
            version.version,
            version.branch,
            (*inherited, (version.version, ambient.new_uuid().hex)),
            ambient.now_ms() // 1000,
            made.size,
        )
    )
    return made


def shallow_clone(store: Store, root: str, version: LanceVersion) -> LanceVersion:
    """Another table at `root` that begins as a version is, and shares its files."""
    history = History(store, root)
    if locations.same(root, version.root) or history.files():
        raise AlreadyExists(f"there is a Lance table at {root}", hint="choose another place")
    return _cloned(history, version, branch=None)


def _cloned(history: History, version: LanceVersion, branch: str | None) -> LanceVersion:
    check_writable(version.manifest)
    manifest, section = Manifest(), IndexSection()
    manifest.CopyFrom(version.manifest)
    section.CopyFrom(version.file.indices)
    base = _base(manifest, version.folder)
    for holder in _files(manifest, section):
        if not holder.HasField("base_id"):
            holder.base_id = base
    manifest.ClearField("branch")
    if branch is not None:
        manifest.branch = branch
    stamp(manifest)
    set_flags(manifest)
    body = Clone(is_shallow=True, ref_version=version.version, ref_path=version.root)
    if version.branch is not None:
        body.ref_name = version.branch
    if branch is not None:
        body.branch_name = branch
    transaction = new_transaction(version.version, clone=body)
    manifest.transaction_file = layout.transaction_name(version.version, transaction.uuid)
    store = history.store
    place = locations.join(history.folder, layout.TRANSACTIONS, manifest.transaction_file)
    store.write(place, transaction.SerializeToString(deterministic=True))
    data = render_manifest_file(manifest, section, transaction)
    place = locations.join(history.folder, layout.VERSIONS, version.naming.manifest(version.version))
    try:
        store.put_if_absent(place, data)
    except FrazilError as error:
        if may_have_applied(error):
            raise CommitStateUnknown(f"it is not known whether {place} was written", hint="look there first") from error
        raise
    return LanceVersion(history.root, place, len(data), parse_manifest_file(data, place), branch)


def _base(manifest: Manifest, folder: str) -> int:
    """The number of the base path for a folder; a new one if there is none."""
    for base in manifest.base_paths:
        if base.is_dataset_root and base.path == folder:
            return int(base.id)
    number = max((base.id for base in manifest.base_paths), default=-1) + 1
    if number >= 1 << 32:
        raise InvalidArgument("the table has no number for a base path left", hint="copy the table")
    manifest.base_paths.append(BasePath(id=number, is_dataset_root=True, path=folder))
    return number


def _files(manifest: Manifest, section: IndexSection) -> list:  # type: ignore[type-arg]  # of messages with a base_id
    found = [file for fragment in manifest.fragments for file in fragment.files]
    found += [one.deletion_file for one in manifest.fragments if one.HasField("deletion_file")]
    return [*found, *section.indices]

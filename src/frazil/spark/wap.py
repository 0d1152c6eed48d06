"""Write, audit, publish: what a session writes is kept apart until somebody has looked at it.

A table takes part by its property `write.wap.enabled`. A session sets either `spark.wap.id`, under which its snapshots
are staged, or `spark.wap.branch`, which it then writes to, and reads as soon as it is there.
"""

from __future__ import annotations

from collections.abc import Callable

from frazil.errors import InvalidArgument
from frazil.iceberg import properties as props
from frazil.iceberg.metadata import TableMetadata

Conf = Callable[[str], str | None]
"""Settings of a session by name."""


def wap_id(metadata: TableMetadata, conf: Conf) -> str | None:
    """The id to stage snapshots of the table under."""
    return conf("spark.wap.id") if _takes_part(metadata) else None


def wap_branch(metadata: TableMetadata, conf: Conf) -> str | None:
    """The branch that stands in for the main one."""
    branch = conf("spark.wap.branch") if _takes_part(metadata) else None
    if branch is not None and conf("spark.wap.id") is not None:
        raise InvalidArgument("spark.wap.id and spark.wap.branch are both set", hint="unset one of them")
    return branch


def _takes_part(metadata: TableMetadata) -> bool:
    return metadata.property_reader.get(props.WRITE_AUDIT_PUBLISH_ENABLED)

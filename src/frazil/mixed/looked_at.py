"""What a transaction looked at, as the summary of its commit tells it: a filter in Iceberg's JSON.

It holds for all rows that were read, or would have been if they had been there. Only columns count that every change of
a row tells (see `ReadPoint`), so that files of changes can be compared with it.
"""

from __future__ import annotations

import json

from frazil.errors import FrazilError
from frazil.iceberg.metadata import TableMetadata
from frazil.iceberg.scan import ALL_ROWS
from frazil.iceberg.snapshot import Snapshot
from frazil.mixed.transactions import READS
from frazil.model.binding import bind, bound_predicates
from frazil.model.expression_json import expression_from_json, expression_to_json
from frazil.model.expressions import Expression
from frazil.model.types import DoubleType, FloatType

_MOST_TEXT = 2000
_ALL = json.dumps(expression_to_json(ALL_ROWS))


def told(where: Expression) -> str:
    """A bound filter as text; that of all rows, if it is long or engines would not agree on it."""
    if any(isinstance(one.term.type, FloatType | DoubleType) for one in bound_predicates(where)):
        return _ALL  # of NaN and the order of numbers
    text = json.dumps(expression_to_json(where))
    return text if len(text) <= _MOST_TEXT else _ALL


def looked_at(metadata: TableMetadata, snapshot: Snapshot) -> Expression | None:
    """The bound filter that the commit of a snapshot tells; None if it read nothing."""
    text = snapshot.summary.get(READS)
    if text is None:
        return None
    if snapshot.schema_id != metadata.current_schema_id:
        return ALL_ROWS  # names may mean other columns now
    try:
        return bind(metadata.current_schema, expression_from_json(json.loads(text)))
    except (FrazilError, ValueError, RecursionError):
        return ALL_ROWS

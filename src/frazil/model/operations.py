"""The operations of predicates, named as Iceberg's JSON names them.

>>> Operation.LT.negated, Operation.LT.flipped
(<Operation.GT_EQ: 'gt-eq'>, <Operation.GT: 'gt'>)
"""

from __future__ import annotations

import enum


class Operation(enum.Enum):
    """What a predicate tests; the value is the name in Iceberg's JSON."""

    IS_NULL = "is-null"
    NOT_NULL = "not-null"
    IS_NAN = "is-nan"
    NOT_NAN = "not-nan"
    LT = "lt"
    LT_EQ = "lt-eq"
    GT = "gt"
    GT_EQ = "gt-eq"
    EQ = "eq"
    NOT_EQ = "not-eq"
    IN = "in"
    NOT_IN = "not-in"
    STARTS_WITH = "starts-with"
    NOT_STARTS_WITH = "not-starts-with"

    @property
    def negated(self) -> Operation:
        """The opposite; for orderings the opposite as far as there is no NaN."""
        return _NEGATED[self]

    @property
    def flipped(self) -> Operation:
        """The operation with left and right exchanged: `5 < x` is `x > 5`."""
        return _FLIPPED.get(self, self)

    @property
    def is_unary(self) -> bool:
        return self in {Operation.IS_NULL, Operation.NOT_NULL, Operation.IS_NAN, Operation.NOT_NAN}

    @property
    def is_set(self) -> bool:
        return self in {Operation.IN, Operation.NOT_IN}

    @property
    def is_ordering(self) -> bool:
        return self in _FLIPPED


_FLIPPED = {
    Operation.LT: Operation.GT,
    Operation.LT_EQ: Operation.GT_EQ,
    Operation.GT: Operation.LT,
    Operation.GT_EQ: Operation.LT_EQ,
}
_OPPOSITES = [
    (Operation.IS_NULL, Operation.NOT_NULL),
    (Operation.IS_NAN, Operation.NOT_NAN),
    (Operation.LT, Operation.GT_EQ),
    (Operation.GT, Operation.LT_EQ),
    (Operation.EQ, Operation.NOT_EQ),
    (Operation.IN, Operation.NOT_IN),
    (Operation.STARTS_WITH, Operation.NOT_STARTS_WITH),
]
_NEGATED = {**dict(_OPPOSITES), **{right: left for left, right in _OPPOSITES}}

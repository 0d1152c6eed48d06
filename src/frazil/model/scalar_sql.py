"""Values computed from columns, written as SQL: `price * 2`, `upper(name)`, `CASE WHEN a > 1 THEN 'x' ELSE b END`.

A small part of SQL, for work without an engine; anything else is refused by name. Integers stay integers except under
`/`, which divides as Spark does; overflow is an error; what divides by zero is null.

>>> rows = pa.record_batch({"a": [1, 2, None], "s": ["x", "y", "z"]})
>>> compile_scalar("a * 2 + 1", rows.schema)(rows).to_pylist()
[3, 5, None]
>>> compile_scalar("CASE WHEN a >= 2 THEN upper(s) ELSE s || '!' END", rows.schema)(rows).to_pylist()
['x!', 'Y', 'z!']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import ColumnNotFound, InvalidExpression
from frazil.model.arrow import type_to_arrow
from frazil.model.ddl import parse_ddl

Scalar = Callable[[pa.RecordBatch], Any]

MAX_DEPTH = 100
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<text>'(?:[^']|'')*')
    | (?P<quoted>`(?:[^`]|``)+`|"(?:[^"]|"")+")
    | (?P<float>(?:\d+\.?\d*|\.\d+)[eE][+-]?\d+(?!\w))
    | (?P<decimal>(?:\d+\.\d*|\.\d+)(?![\w.]))
    | (?P<integer>\d+(?!\w))
    | (?P<word>[^\W\d]\w*)
    | (?P<symbol>\|\||<=|>=|<>|!=|==|[=<>(),.+*/%-])
    )""",
    re.VERBOSE,
)
_COMPARISONS = {
    "=": pc.equal,
    "==": pc.equal,
    "<>": pc.not_equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def _length(value: Any) -> Any:
    return pc.cast(pc.utf8_length(value), pa.int32())


_FUNCTIONS: dict[str, tuple[int | None, Callable[..., Any]]] = {
    "upper": (1, pc.utf8_upper),
    "lower": (1, pc.utf8_lower),
    "trim": (1, pc.utf8_trim_whitespace),
    "length": (1, _length),
    "abs": (1, pc.abs_checked),
    "sqrt": (1, lambda value: pc.sqrt(pc.cast(value, pa.float64()))),
    "floor": (1, pc.floor),
    "ceil": (1, pc.ceil),
    "round": (1, pc.round),
    "coalesce": (None, pc.coalesce),
    "greatest": (None, pc.max_element_wise),
    "least": (None, pc.min_element_wise),
    "concat": (None, lambda *values: pc.binary_join_element_wise(*values, "")),
    "year": (1, pc.year),
    "month": (1, pc.month),
    "day": (1, pc.day),
}


def compile_scalar(text: str, schema: pa.Schema) -> Callable[[pa.RecordBatch], pa.Array]:
    """A function from batches of the schema to arrays; InvalidExpression for what is not understood."""
    parser = _Parser(text, schema)
    found = parser.value(0)
    parser.end()

    def run(batch: pa.RecordBatch) -> pa.Array:
        try:
            result = found(batch)
        except pa.ArrowException as error:
            raise InvalidExpression(f"{text!r} cannot be computed: {error}", hint="cast its parts") from error
        if isinstance(result, pa.Scalar):
            return pa.repeat(result, batch.num_rows) if result.is_valid else pa.nulls(batch.num_rows, result.type)
        return result

    run(pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema))  # its types fit
    return run


def columns_in(text: str, schema: pa.Schema) -> list[str]:
    """The columns that an expression looks at, in the order of the schema."""
    parser = _Parser(text, schema)
    parser.value(0)
    parser.end()
    return [name for name in schema.names if name in parser.columns]


class _Parser:
    """Recursive descent, from OR down to single values."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text, self._schema = text, schema
        self._tokens = self._split(text)
        self._at = 0
        self.columns: set[str] = set()

    def _split(self, text: str) -> list[tuple[str, str]]:
        found, position = [], 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise self._refused(f"it has {text[position:].strip()[:20]!r} in it")
            found.append((str(match.lastgroup), match[match.lastgroup or 0]))
            position = match.end()
        return found

    def _refused(self, why: str) -> InvalidExpression:
        return InvalidExpression(
            f"{self._text!r} is not understood without Spark: {why}", hint="give a session with spark=, or plain values"
        )

    # Tokens.

    def _next_is(self, *words: str) -> bool:
        if self._at >= len(self._tokens):
            return False
        kind, token = self._tokens[self._at]
        return kind in ("word", "symbol") and token.upper() in words

    def _take(self, *words: str) -> str | None:
        if self._next_is(*words):
            self._at += 1
            return self._tokens[self._at - 1][1].upper()
        return None

    def _expect(self, word: str) -> None:
        if self._take(word) is None:
            raise self._refused(f"{word} is missing")

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise self._refused(f"{self._tokens[self._at][1]!r} is left over")

    # Levels.

    def value(self, depth: int) -> Scalar:
        if depth > MAX_DEPTH:
            raise self._refused("it nests too deep")
        left = self._and(depth + 1)
        while self._take("OR"):
            left = _both(pc.or_kleene, left, self._and(depth + 1))
        return left

    def _and(self, depth: int) -> Scalar:
        left = self._not(depth)
        while self._take("AND"):
            left = _both(pc.and_kleene, left, self._not(depth))
        return left

    def _not(self, depth: int) -> Scalar:
        if self._take("NOT"):
            inner = self._not(depth)
            return lambda batch: pc.invert(inner(batch))
        return self._comparison(depth)

    def _comparison(self, depth: int) -> Scalar:
        left = self._sum(depth)
        if symbol := self._take(*_COMPARISONS):
            return _both(_COMPARISONS[symbol], left, self._sum(depth))
        if self._take("IS"):
            negated = self._take("NOT") is not None
            self._expect("NULL")
            test = pc.is_valid if negated else pc.is_null
            return lambda batch: test(left(batch))
        return left

    def _sum(self, depth: int) -> Scalar:
        left = self._product(depth)
        while symbol := self._take("+", "-", "||"):
            kernel = {"+": pc.add_checked, "-": pc.subtract_checked, "||": _joined}[symbol]
            left = _both(kernel, left, self._product(depth))
        return left

    def _product(self, depth: int) -> Scalar:
        left = self._unary(depth)
        while symbol := self._take("*", "/", "%"):
            kernel = {"*": pc.multiply_checked, "/": _divided, "%": _remainder}[symbol]
            left = _both(kernel, left, self._unary(depth))
        return left

    def _unary(self, depth: int) -> Scalar:
        if self._take("-"):
            inner = self._unary(depth)
            return lambda batch: pc.negate_checked(inner(batch))
        self._take("+")
        return self._single(depth)

    def _single(self, depth: int) -> Scalar:
        if self._take("("):
            inner = self.value(depth + 1)
            self._expect(")")
            return inner
        if self._at >= len(self._tokens):
            raise self._refused("it ends too early")
        kind, token = self._tokens[self._at]
        self._at += 1
        match kind:
            case "integer":
                number = int(token)
                return _literal(pa.scalar(number, pa.int32() if number < 2**31 else pa.int64()))
            case "decimal":
                return _literal(pa.scalar(Decimal(token)))
            case "float":
                return _literal(pa.scalar(float(token)))
            case "text":
                return _literal(pa.scalar(token[1:-1].replace("''", "'")))
            case "quoted":
                return self._column(token[1:-1].replace(token[0] * 2, token[0]))
            case "word":
                return self._word(token, depth)
        raise self._refused(f"{token!r} is no value")

    def _word(self, token: str, depth: int) -> Scalar:
        upper = token.upper()
        if upper == "CASE":
            return self._case(depth)
        if upper == "CAST" and self._next_is("("):
            return self._cast(depth)
        if upper in ("TRUE", "FALSE", "NULL") and token not in self._schema.names:
            return _literal(pa.scalar({"TRUE": True, "FALSE": False, "NULL": None}[upper]))
        if self._take("("):
            return self._call(token, depth)
        return self._column(token)

    def _column(self, name: str) -> Scalar:
        if name not in self._schema.names:
            raise ColumnNotFound(
                f"no column {name!r} in {self._text!r}", hint=f"the columns are {', '.join(self._schema.names)}"
            )
        self.columns.add(name)
        kind = self._schema.field(name).type
        path = []
        while self._take("."):
            part = self._tokens[self._at][1] if self._at < len(self._tokens) else ""
            self._at += 1
            if not pa.types.is_struct(kind) or kind.get_field_index(part) < 0:
                raise ColumnNotFound(f"no field {part!r} in {name!r}", hint="look at the table's schema")
            path.append(part)
            kind = kind.field(kind.get_field_index(part)).type
        if path:
            return lambda batch: pc.struct_field(batch.column(name), path)
        return lambda batch: _plain(batch.column(name))

    def _case(self, depth: int) -> Scalar:
        conditions, values = [], []
        while self._take("WHEN"):
            conditions.append(self.value(depth + 1))
            self._expect("THEN")
            values.append(self.value(depth + 1))
        if self._take("ELSE"):
            values.append(self.value(depth + 1))
        self._expect("END")
        if not conditions:
            raise self._refused("CASE without WHEN")

        def run(batch: pa.RecordBatch) -> Any:
            tests = [_as_array(test(batch), batch.num_rows) for test in conditions]
            chosen = pa.StructArray.from_arrays(
                [test.fill_null(False) for test in tests], names=[str(number) for number in range(len(tests))]
            )
            return pc.case_when(chosen, *_typed([value(batch) for value in values]))

        return run

    def _cast(self, depth: int) -> Scalar:
        self._expect("(")
        inner = self.value(depth + 1)
        self._expect("AS")
        words, level = [], 0
        while self._at < len(self._tokens) and not (level == 0 and self._next_is(")")):
            token = self._tokens[self._at][1]
            level += {"(": 1, ")": -1}.get(token, 0)
            words.append(token)
            self._at += 1
        self._expect(")")
        [column] = parse_ddl(f"x {' '.join(words)}")
        kind = type_to_arrow(column.type)
        return lambda batch: pc.cast(inner(batch), kind)

    def _call(self, name: str, depth: int) -> Scalar:
        known = _FUNCTIONS.get(name.lower())
        if known is None:
            raise self._refused(f"there is no function {name}")
        arguments: list[Scalar] = []
        while not self._take(")"):
            if arguments:
                self._expect(",")
            arguments.append(self.value(depth + 1))
        count, kernel = known
        if not arguments or (count is not None and len(arguments) != count):
            raise self._refused(f"{name} takes {count or 'at least one'} arguments")
        return lambda batch: kernel(*(argument(batch) for argument in arguments))


def _literal(scalar: pa.Scalar) -> Scalar:
    return lambda _: scalar


def _both(kernel: Callable[[Any, Any], Any], left: Scalar, right: Scalar) -> Scalar:
    return lambda batch: kernel(left(batch), right(batch))


def _typed(values: list[Any]) -> list[Any]:
    """Values with a type: a plain NULL gets that of the first other one."""
    kind = next((value.type for value in values if not pa.types.is_null(value.type)), pa.null())
    return [pc.cast(value, kind) if pa.types.is_null(value.type) else value for value in values]


def _plain(array: pa.Array) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _as_array(value: Any, rows: int) -> pa.Array:
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value


def _joined(left: Any, right: Any) -> Any:
    return pc.binary_join_element_wise(pc.cast(left, pa.string()), pc.cast(right, pa.string()), "")


def _divided(left: Any, right: Any) -> Any:
    if not any(pa.types.is_decimal(side.type) for side in (left, right)):
        left, right = (pc.cast(side, pa.float64()) for side in (left, right))
    return pc.divide(left, _nonzero(right))


def _remainder(left: Any, right: Any) -> Any:
    divisor = _nonzero(right)
    quotient = pc.divide(left, divisor)
    if pa.types.is_floating(quotient.type):
        quotient = pc.trunc(quotient)
    return pc.subtract(left, pc.multiply(quotient, divisor))


def _nonzero(value: Any) -> Any:
    zero: Sequence[Any] = pc.equal(value, pa.scalar(0, pa.int32()))
    return pc.if_else(zero, pa.scalar(None, value.type), value)

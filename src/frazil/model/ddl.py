"""Schemas written as DDL text, as Spark SQL writes them.

`TIMESTAMP` is a point in time (timestamptz) and `TIMESTAMP_NTZ` the one without time zone, as in Spark; names of the
Iceberg specification that Spark does not use (`long`, `timestamptz`, `uuid`, `fixed[16]`, `time`, ...) are understood.

>>> [str(column) for column in parse_ddl("id BIGINT NOT NULL COMMENT 'key', s STRUCT<a: INT, b: DECIMAL(9,2)>")]
['0: id: required long', '0: s: optional struct<0: a: optional int, 0: b: optional decimal(9, 2)>']
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from frazil.errors import InvalidSchema
from frazil.model.types import (
    MAX_TYPE_DEPTH,
    SIMPLE_TYPES,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNsType,
    TimestampType,
    TimestamptzNsType,
    TimestamptzType,
    TimeType,
    Type,
    UnknownType,
)

_TOKEN = re.compile(
    r"""\s*(?:(?P<word>[^\W\d]\w*|\d+\w*)|(?P<quoted>`(?:[^`]|``)+`)|(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*")"""
    r"""|(?P<mark>[<>(),:\[\]-]))"""
)

_SPARK_NAMES: Mapping[str, Type] = {
    "bool": BooleanType(),
    "byte": IntegerType(),
    "tinyint": IntegerType(),
    "short": IntegerType(),
    "smallint": IntegerType(),
    "integer": IntegerType(),
    "bigint": LongType(),
    "real": FloatType(),
    "numeric": DecimalType(10, 0),
    "dec": DecimalType(10, 0),
    "decimal": DecimalType(10, 0),
    "timestamp": TimestamptzType(),
    "timestamp_ltz": TimestamptzType(),
    "timestamp_ntz": TimestampType(),
    "bytes": BinaryType(),
    "void": UnknownType(),
    "null": UnknownType(),
    "text": StringType(),
    "varchar": StringType(),
    "char": StringType(),
}
_NAMES: Mapping[str, Type] = {
    **SIMPLE_TYPES,
    **_SPARK_NAMES,
    "float": FloatType(),
    "double": DoubleType(),
    "date": DateType(),
}
_BY_DIGITS: Mapping[type[Type], tuple[tuple[int, Type], ...]] = {
    TimeType: ((6, TimeType()),),
    TimestampType: ((6, TimestampType()), (9, TimestampNsType())),
    TimestamptzType: ((6, TimestamptzType()), (9, TimestamptzNsType())),
}
"""Types that may be said with digits of a second: the most that each of the types for it holds."""


def parse_ddl(text: str) -> list[NestedField]:
    """The columns of a DDL text. Their ids are 0: `frazil.model.arrow.schema_from_anything` numbers them."""
    parser = _Parser(text)
    columns = parser.fields(None, 1)
    if not parser.at_end:
        raise parser.wrong("a comma or the end")
    return columns


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        self._next = 0
        position = 0
        while text[position:].strip():
            found = _TOKEN.match(text, position)
            if found is None or found.lastgroup is None:
                raise InvalidSchema(
                    f"cannot read the schema at {text[position : position + 20].strip()!r}",
                    hint="quote unusual column names with backticks",
                )
            self._tokens.append((found.lastgroup, found[found.lastgroup]))
            position = found.end()

    @property
    def at_end(self) -> bool:
        return self._next >= len(self._tokens)

    def wrong(self, expected: str) -> InvalidSchema:
        seen = "the end" if self.at_end else repr(self._tokens[self._next][1])
        return InvalidSchema(
            f"expected {expected} but found {seen} in the schema {self._text[:200]!r}",
            hint="write columns as 'name TYPE [NOT NULL] [COMMENT 'text']', separated by commas",
        )

    def fields(self, closing: str | None, depth: int) -> list[NestedField]:
        result: list[NestedField] = []
        while not result or self._accept(","):
            if closing is not None and not result and self._peek(closing):
                break
            result.append(self._field(depth))
        if closing is not None:
            self._expect(closing)
        return result

    def _field(self, depth: int) -> NestedField:
        name = self._name()
        self._accept(":")
        type_ = self._type(depth)
        required, comment = False, None
        while True:
            if self._accept("not"):
                self._expect("null")
                required = True
            elif self._accept("comment"):
                comment = self._string()
            elif not self._accept("null"):
                break
        return NestedField(0, name, type_, required, comment)

    def _type(self, depth: int) -> Type:
        if depth > MAX_TYPE_DEPTH:
            raise InvalidSchema(f"types nest deeper than {MAX_TYPE_DEPTH}", hint="flatten the schema")
        name = self._name().lower()
        if name in ("array", "list"):
            self._expect("<")
            element = NestedField(0, "element", self._type(depth + 1), self._not_null())
            self._expect(">")
            return ListType(element)
        if name == "map":
            self._expect("<")
            key = NestedField(0, "key", self._type(depth + 1), required=True)
            self._not_null()
            self._expect(",")
            value = NestedField(0, "value", self._type(depth + 1), self._not_null())
            self._expect(">")
            return MapType(key, value)
        if name == "struct":
            self._expect("<")
            return StructType(tuple(self.fields(">", depth + 1)))
        if name == "timestamp" and self._accept("without"):
            self._words("time", "zone")
            return TimestampType()
        if name == "timestamp" and self._accept("with"):
            self._accept("local")
            self._words("time", "zone")
            return TimestamptzType()
        return self._plain(name)

    def _plain(self, name: str) -> Type:
        if name == "fixed":
            closing = "]" if self._accept("[") else ")"
            if closing == ")":
                self._expect("(")
            return FixedType(self._numbers(closing)[0])
        if name not in _NAMES:
            self._next -= 1
            raise self.wrong("a type")
        if not self._accept("("):
            return _NAMES[name]
        if isinstance(_NAMES[name], DecimalType):
            precision, *scale = self._numbers(")")
            return DecimalType(precision, *(scale or [0]))
        if name in ("varchar", "char"):
            self._numbers(")")
            return _NAMES[name]
        if type(_NAMES[name]) in _BY_DIGITS:
            return self._with_digits(_NAMES[name])
        if name == "geometry":
            return GeometryType(self._arguments(")")[0])
        if name == "geography":
            crs, *algorithm = self._arguments(")")[:2]
            return GeographyType(crs, *(word.lower() for word in algorithm))
        raise self.wrong(f"no arguments of {name}")

    def _with_digits(self, type_: Type) -> Type:
        held = _BY_DIGITS[type(type_)]
        digits, *more = self._numbers(")")
        found = next((wide for most, wide in held if 0 <= digits <= most), None)
        if found is None or more:
            raise InvalidSchema(
                f"{type_} cannot have {', '.join(map(str, [digits, *more]))} digits of a second",
                hint=f"give one number from 0 to {held[-1][0]}",
            )
        return found

    def _arguments(self, closing: str) -> list[str]:
        """Texts between commas: numbers, or a coordinate system such as `srid:3857`."""
        arguments = [""]
        while not self._accept(closing):
            if self.at_end:
                raise self.wrong(repr(closing))
            _, token = self._tokens[self._next]
            self._next += 1
            if token == ",":
                arguments.append("")
            else:
                arguments[-1] += token.strip("'\"")
        if not all(arguments):
            raise self.wrong("arguments of the type")
        return arguments

    def _numbers(self, closing: str) -> list[int]:
        arguments = self._arguments(closing)
        if len(arguments) > 2 or not all(re.fullmatch(r"-?\d{1,9}", argument) for argument in arguments):
            raise self.wrong("numbers in the parentheses before")
        return [int(argument) for argument in arguments]

    def _not_null(self) -> bool:
        if self._accept("not"):
            self._expect("null")
            return True
        return False

    def _peek(self, token: str) -> bool:
        if self.at_end:
            return False
        kind, text = self._tokens[self._next]
        return kind in ("word", "mark") and text.lower() == token

    def _accept(self, token: str) -> bool:
        if self._peek(token):
            self._next += 1
            return True
        return False

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise self.wrong(repr(token.upper()))

    def _words(self, *words: str) -> None:
        for word in words:
            self._expect(word)

    def _name(self) -> str:
        if self.at_end or self._tokens[self._next][0] not in ("word", "quoted"):
            raise self.wrong("a name")
        kind, text = self._tokens[self._next]
        self._next += 1
        return text[1:-1].replace("``", "`") if kind == "quoted" else text

    def _string(self) -> str:
        if self.at_end or self._tokens[self._next][0] != "text":
            raise self.wrong("a quoted text")
        text = self._tokens[self._next][1]
        self._next += 1
        quote = text[0]
        return re.sub(r"\\(.)", r"\1", text[1:-1].replace(quote * 2, quote))

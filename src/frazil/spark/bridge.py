"""The bridge: the one Python object that our JVM classes ask, and how errors cross it unharmed.

A question is an operation and three arguments; identifiers, schemas and options are JSON text, so that most questions
cost one trip. A Python exception travels as a token and is raised again, as itself, where the user called Spark; an
exception of the JVM is handed back as a value and thrown there as itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from frazil import ambient, errors
from frazil.errors import FrazilError, InvalidArgument, NotFound, Unsupported
from frazil.recent import Recent
from frazil.spark.handles import TableHandle, Tables
from frazil.spark.interrupt import Interrupted, handle_interrupts
from frazil.spark.jvm import PACKAGE, define_classes
from frazil.spark.paths import is_path
from frazil.spark.scan.relations import quoted_name
from frazil.spark.types import Dialect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake import Lake
    from frazil.spark.scan.scans import Scans

_KEPT_ERRORS = 256
_DETACHED = "detached"
"""The token of the one error that the JVM makes itself."""
_LAST_OURS = re.compile(
    r"^(?:\[[^\n]*Python worker: )?frazil\.errors\.(\w+): \[\w+\] (.*?)\s*(?:^ SQLSTATE: \w+)?\s*\Z",
    re.MULTILINE | re.DOTALL,
)
Handler = Callable[[Any, Any, Any], Any]


class Thrown(Exception):
    """Throw a JVM exception that Spark knows; `throwable` is the Java object."""

    def __init__(self, throwable: Any) -> None:
        super().__init__(str(throwable))
        self.throwable = throwable


def prepare(spark: SparkSession) -> None:
    """Make Spark ready for bridges: our classes, calls back, errors and Ctrl-C. Done again, it costs nothing."""
    from py4j.java_gateway import JavaObject
    from pyspark.java_gateway import ensure_callback_server_started

    gateway: Any = spark.sparkContext._gateway
    jvm: Any = spark.sparkContext._jvm
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    define_classes(jvm)
    server = JavaObject("GATEWAY_SERVER", gateway._gateway_client)
    jvm.org.apache.spark.sql.connector.catalog.Frazil.callbacks(server.getCallbackClient())
    install_error_hook()
    handle_interrupts()


class Bridge:
    """One lake attached to one session under one name. `on` says who answers an operation."""

    def __init__(self, lake: Lake, spark: SparkSession, name: str) -> None:
        self.lake = lake
        self.spark = spark
        self.name = name
        self._session_id: str = spark._jsparkSession.sessionUUID()
        # the same if the lake is attached again: sessions made meanwhile, and their queries, find it
        self.key = str(uuid5(UUID(self._session_id), f"{name} {lake.catalog!r}"))
        self.tables = Tables(lake)
        self.dialect = dialect_of(spark)
        self.scans: Scans
        self._handlers: dict[str, Handler] = {}

    @property
    def jvm(self) -> Any:
        """The JVM of the session."""
        return self.spark.sparkContext._jvm

    @property
    def classes(self) -> Any:
        """The package our Java classes are in, among Spark's catalog classes."""
        return self.jvm.org.apache.spark.sql.connector.catalog

    def on(self, op: str, handler: Handler) -> None:
        """Let `handler(a, b, c)` answer an operation; a later one takes the place of an earlier one."""
        self._handlers[op] = handler

    def handle(self, key: str) -> TableHandle:
        """The table that a FrazilTable of the JVM stands for."""
        return self.tables.get(key)

    def session(self, jsession: Any) -> SparkSession:
        """The Python side of a session of the JVM: ours, or one made from it."""
        from pyspark.sql import SparkSession

        if jsession is None or jsession.sessionUUID() == self._session_id:
            return self.spark
        return SparkSession(self.spark.sparkContext, jsession)

    def is_of(self, spark: SparkSession) -> bool:
        """Whether the lake was attached to this session, and not to one that it was made from."""
        return bool(spark._jsparkSession.sessionUUID() == self._session_id)

    def refresh(self, name: str) -> None:
        """Tell Spark that the rows of a table changed: what it cached of them is not true any more."""
        with suppress(Unsupported):  # of a table with types that this Spark lacks nothing is cached
            self.spark.catalog.refreshTable(self.sql_name([name] if is_path(name) else name.split(".")))

    def sql_name(self, parts: Sequence[str]) -> str:
        """A name in the lake as SQL text, with the catalog's."""
        return ".".join(map(quoted_name, (self.name, *parts)))

    def call(self, op: str, a: Any, b: Any, c: Any) -> Any:
        """Asked by the JVM. Raises nothing but Ctrl-C, after which nobody waits: an error is a value too."""
        try:
            handler = self._handlers.get(op)
            if handler is None:
                raise InvalidArgument(f"nothing answers {op!r}", hint="this is an error of Frazil: report it")
            return handler(a, b, c)
        except Interrupted:
            raise
        except BaseException as error:  # noqa: BLE001 - it must reach the user, not break the connection
            return _as_throwable(self.jvm, error)

    class Java:
        """What py4j reads to make the JVM's proxy."""

        implements = (f"{PACKAGE}.FrazilBridge",)


def dialect_of(spark: SparkSession) -> Dialect:
    """The types that a session has."""
    newest = Dialect.of_version(spark.version)
    conf = spark.conf
    return Dialect(
        time=newest.time and conf.get("spark.sql.timeType.enabled") == "true",
        geo=newest.geo,
        nanoseconds=newest.nanoseconds and conf.get("spark.sql.timestampNanosTypes.enabled") == "true",
        v3_types_in_files=newest.v3_types_in_files,
        schema_evolution=newest.schema_evolution,
    )


# Errors.


class _Errors:
    """Exceptions on their way through the JVM. Kept for a while: Spark throws the error of a failed plan again."""

    def __init__(self) -> None:
        self._kept: Recent[str, tuple[BaseException, Any]] = Recent(_KEPT_ERRORS)

    def put(self, error: BaseException) -> str:
        token = str(ambient.new_uuid())
        self._kept.put(token, (error, error.__traceback__))
        return token

    def get(self, token: str) -> BaseException | None:
        found = self._kept.get(token)
        return None if found is None else found[0].with_traceback(found[1])


_ERRORS = _Errors()


def _as_throwable(jvm: Any, error: BaseException) -> Any:
    from py4j.protocol import Py4JJavaError

    if isinstance(error, Thrown):
        return error.throwable
    if isinstance(error, Py4JJavaError):
        return error.java_exception
    origin = getattr(error, "_origin", None)  # pyspark's own exceptions remember the JVM's
    if origin is not None:
        return origin
    return jvm.org.apache.spark.sql.connector.catalog.FrazilError(
        f"{type(error).__name__}: {error}", _ERRORS.put(error)
    )


def install_error_hook() -> None:
    """Let Python exceptions that crossed the JVM arrive at the caller as themselves. Once per process is enough."""
    from pyspark.errors.exceptions import captured

    convert = captured.convert_exception
    if getattr(convert, "_frazil", False):
        return

    def convert_exception(java_error: Any) -> Any:
        found = original_error(java_error)
        return convert(java_error) if found is None else found

    convert_exception._frazil = True  # type: ignore[attr-defined]
    captured.convert_exception = convert_exception  # type: ignore[assignment]  # any exception may come back


def original_error(java_error: Any) -> BaseException | None:
    """The Python exception behind one of the JVM, or None."""
    from pyspark import SparkContext

    jvm = SparkContext._jvm
    if jvm is None:
        return None
    classes = jvm.org.apache.spark.sql.connector.catalog
    token = classes.Frazil.token(java_error)
    if token == _DETACHED:
        return NotFound("the lake is not attached to this session any more", hint="call lake.attach(spark) again")
    if token is not None:
        return _ERRORS.get(token)
    told = classes.Frazil.worker(java_error)
    return None if told is None else error_of_worker(told)


def error_of_worker(told: str) -> FrazilError | None:
    """Our error at the end of a worker's traceback, or None: Spark brings nothing but that text.

    >>> error_of_worker("Traceback (most recent call last): ...\\nfrazil.errors.InvalidValue: [INVALID_VALUE] no\\n")
    InvalidValue('no')
    """
    found = _LAST_OURS.search(told.rpartition("Traceback (most recent call last):")[2])
    kind = None if found is None else getattr(errors, found[1], None)
    if found is None or not (isinstance(kind, type) and issubclass(kind, FrazilError)):
        return None
    message, *hint = found[2].rsplit(" Hint: ", 1)
    return kind(message, hint=hint[0] if hint else None)

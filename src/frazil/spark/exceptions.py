"""Our errors as the exceptions Spark knows: a missing table becomes its TABLE_OR_VIEW_NOT_FOUND."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from frazil.errors import (
    NamespaceAlreadyExists,
    NamespaceNotEmpty,
    NamespaceNotFound,
    TableAlreadyExists,
    TableNotFound,
)
from frazil.spark.bridge import Thrown
from frazil.spark.jvm import java_array

if TYPE_CHECKING:
    from frazil.spark.bridge import Bridge

_TABLE_ERRORS = {TableNotFound: "NoSuchTableException", TableAlreadyExists: "TableAlreadyExistsException"}
_NAMESPACE_ERRORS = {
    NamespaceNotFound: "NoSuchNamespaceException",
    NamespaceAlreadyExists: "NamespaceAlreadyExistsException",
    NamespaceNotEmpty: "NonEmptyNamespaceException",
}


@contextmanager
def table_errors(bridge: Bridge, parts: Sequence[str]) -> Iterator[None]:
    """Errors about the table `parts`, or its namespace, are thrown as Spark's."""
    try:
        with namespace_errors(bridge, parts[:-1]):
            yield
    except tuple(_TABLE_ERRORS) as error:
        raise Thrown(_analysis(bridge, _TABLE_ERRORS[type(error)], identifier(bridge, parts))) from error


@contextmanager
def namespace_errors(bridge: Bridge, namespace: Sequence[str]) -> Iterator[None]:
    """Errors about a namespace are thrown as Spark's."""
    try:
        yield
    except tuple(_NAMESPACE_ERRORS) as error:
        names = strings(bridge, namespace)
        raise Thrown(_analysis(bridge, _NAMESPACE_ERRORS[type(error)], names)) from error


def identifier(bridge: Bridge, parts: Sequence[str]) -> Any:
    """A Java Identifier."""
    return bridge.classes.Identifier.of(strings(bridge, parts[:-1]), parts[-1])


def strings(bridge: Bridge, texts: Sequence[str]) -> Any:
    """A Java String[]."""
    return java_array(bridge.jvm, bridge.jvm.java.lang.String, texts)


def _analysis(bridge: Bridge, name: str, argument: Any) -> Any:
    return getattr(bridge.jvm.org.apache.spark.sql.catalyst.analysis, name)(argument)

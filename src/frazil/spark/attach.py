"""A lake as a catalog of a running classic session, and taken away again.

Sessions made from it later (`newSession`, the clones of streaming) have the catalog as well. What Spark has no setting
for on a running session is set by two private fields; sessions made later get the same through its extensions.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any

from frazil.errors import AlreadyExists, InvalidArgument, InvalidName, MissingDependency, Unsupported
from frazil.spark.bridge import Bridge, prepare
from frazil.spark.jvm import PACKAGE, get_private, set_private
from frazil.spark.session import check_version, is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake import Lake

OWN_CATALOG = "_frazil"
"""The catalog that a session gets which has none of ours, for tables that are brought along."""

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_LOCK = threading.Lock()


def attach(lake: Lake, spark: SparkSession, name: str = "lake") -> Bridge:
    """Make the lake a catalog of the session; attaching a lake again under its name changes nothing."""
    check_session(spark)
    if _NAME.fullmatch(name) is None:
        raise InvalidName(f"{name!r} cannot be the name of a catalog", hint="use letters, digits and underscores")
    with _LOCK:
        present = _present(spark, name)
        if present is not None:
            if present.lake is lake:
                return present
            raise AlreadyExists(
                f"the session has another catalog {name!r}", hint="detach it first, or choose another name"
            )
        return _attach(lake, spark, name)


def detach_lake(lake: Lake, spark: SparkSession, name: str | None) -> None:
    """Take a lake away from the session; a catalog that is another lake's is refused."""
    if name is None:
        for bridge in bridges_of(spark):
            if _is_same(bridge.lake, lake):
                detach(spark, bridge.name)
        return
    found = _present(spark, name)
    if found is not None and not _is_same(found.lake, lake):
        raise InvalidArgument(
            f"catalog {name!r} of the session is another lake", hint="detach that lake, or leave name out"
        )
    detach(spark, name)


def _is_same(one: Lake, other: Lake) -> bool:
    """Whether two lakes are one, or connections to the same place."""
    return one is other or repr(one.catalog) == repr(other.catalog)


def detach(spark: SparkSession, name: str = "lake") -> None:
    """Take a catalog of ours away from the session.

    If it was attached to this one, those made from it lose it too, and their queries fail until it is attached again.
    """
    with _LOCK:
        bridge = _present(spark, name)
        if bridge is None:
            return
        if spark.catalog.currentCatalog() == name:
            spark.catalog.setCurrentCatalog("spark_catalog")
        keys = (f"spark.sql.catalog.{name}", f"spark.sql.catalog.{name}.bridge")
        for key in keys:
            spark.conf.unset(key)
        _forget_catalog(spark, name)
        if bridge.is_of(spark):
            bridge.classes.Frazil.catalogs.remove(bridge.key)
            bridge.classes.Frazil.bridges.remove(bridge.key)
            _BRIDGES.pop(bridge.key, None)
            settings = spark.sparkContext._jsc.sc().conf()
            for key in keys:
                settings.remove(key)


_BRIDGES: dict[str, Bridge] = {}
"""The bridges of this process by key: py4j holds them too, but only weakly says which is whose."""


def bridge_of(spark: SparkSession, name: str = "lake") -> Bridge | None:
    """The bridge of a catalog of ours in a session, or None."""
    return _present(spark, name)


def bridges_of(spark: SparkSession) -> list[Bridge]:
    """The bridges of the catalogs of ours in a session, oldest first."""
    return [bridge for bridge in list(_BRIDGES.values()) if _present(spark, bridge.name) is bridge]


def _present(spark: SparkSession, name: str) -> Bridge | None:
    key = spark.conf.get(f"spark.sql.catalog.{name}.bridge", None)
    kind = spark.conf.get(f"spark.sql.catalog.{name}", None)
    if kind is not None and kind != f"{PACKAGE}.FrazilCatalog":
        raise AlreadyExists(f"the session has another catalog {name!r}: {kind}", hint="choose another name")
    bridge = None if key is None else _BRIDGES.get(key)
    # a context that was stopped takes its bridges with it
    return bridge if bridge is not None and bridge.spark.sparkContext is spark.sparkContext else None


def _attach(lake: Lake, spark: SparkSession, name: str) -> Bridge:
    context = spark.sparkContext
    prepare(spark)
    bridge = Bridge(lake, spark, name)
    _answer(bridge)
    bridge.classes.Frazil.bridges.put(bridge.key, bridge)
    bridge.classes.Frazil.catalogs.add(bridge.key)
    _BRIDGES[bridge.key] = bridge
    settings = context._jsc.sc().conf()
    for key, text in (
        (f"spark.sql.catalog.{name}", f"{PACKAGE}.FrazilCatalog"),
        (f"spark.sql.catalog.{name}.bridge", bridge.key),
    ):
        spark.conf.set(key, text)  # this session, and its clones
        settings.set(key, text)  # newSession()
    _forget_catalog(spark, name)
    _add_rules(bridge, spark._jsparkSession)
    return bridge


def _answer(bridge: Bridge) -> None:
    from frazil.spark.alter import AlterTable
    from frazil.spark.catalog import Tables
    from frazil.spark.functions import Functions
    from frazil.spark.namespaces import Namespaces
    from frazil.spark.procedures import Procedures
    from frazil.spark.rows import Rows
    from frazil.spark.source import Sources
    from frazil.spark.staged import Staging
    from frazil.spark.statements import Statements
    from frazil.spark.streaming.read import StreamReads
    from frazil.spark.streaming.write import StreamWrites

    own = (Namespaces, Tables, AlterTable, Staging, Statements, Procedures, Functions, Rows)
    for answers in (*own, Sources, StreamReads, StreamWrites):
        answers(bridge)


def _add_rules(bridge: Bridge, jsession: Any) -> None:
    """One set of rules serves every lake: a table knows its bridge."""
    classes, state = bridge.classes, jsession.sessionState()
    if classes.FrazilParser.wraps(state.sqlParser()):
        return
    analyzer, parser = state.analyzer(), state.sqlParser()  # made when first asked for: before the extensions know us
    extensions = jsession.extensions()
    if classes.Frazil.extend(extensions):
        extensions.injectOptimizerRule(classes.FrazilRuleBuilder(False))  # built for every query: effective at once
        extensions.injectPreCBORule(classes.FrazilSizesBuilder())
        extensions.injectPostHocResolutionRule(classes.FrazilRuleBuilder(True))
        extensions.injectParser(classes.FrazilParserBuilder())
    rules = analyzer.postHocResolutionRules()
    set_private(analyzer, "postHocResolutionRules", rules.prepended(classes.FrazilRule(True)))
    set_private(state, "sqlParser", classes.FrazilParser.over(parser))


def _forget_catalog(spark: SparkSession, name: str) -> None:
    """Let a session load the catalog anew when it is asked for: Spark has no way to unload one."""
    get_private(spark._jsparkSession.sessionState().catalogManager(), "catalogs").remove(name)


def check_session(spark: Any) -> None:
    """Refuse sessions that have no JVM of ours, and versions of Spark that we do not know."""
    import pyspark

    if is_connect(spark):
        raise Unsupported(
            "this session speaks to a Spark Connect server, which takes no catalog from here",
            hint="read tables by table.to_spark(session), or attach to a classic session: builder.master(...)",
        )
    check_version(spark)
    if spark.version.split(".")[:2] != pyspark.__version__.split(".")[:2]:
        raise MissingDependency(
            f"Python has pyspark {pyspark.__version__}, the JVM Spark {spark.version}", hint="install the same version"
        )

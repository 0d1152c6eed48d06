"""Our Java classes in Spark's JVM: source text, compiled in memory and defined beside Spark's own classes.

Spark carries Janino, the compiler, for its own code generation. So there is no jar to build, to ship or to match with a
version of Spark; each file of `jvm/` is one compilation unit, and all are compiled in one go. That takes a second or
two the first time; the class files are kept in the user's cache folder for the next session.
"""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from graphlib import TopologicalSorter
from importlib.resources import files
from pathlib import Path
from typing import Any

from frazil.errors import Unsupported

PACKAGE = "org.apache.spark.sql.connector.catalog"
ANCHOR = f"{PACKAGE}.CatalogV2Util"
"""A class of Spark in whose package and loader ours are defined."""

FORMATS = ("frazil", "iceberg")
"""What `spark.read.format` takes for our tables: Spark looks for a class DefaultSource in a package of that name."""

_TARGET = 8  # the newest class files that Janino makes well; every JVM runs them
_HEAD = re.compile(r"\b(?:class|interface)\s+(Frazil\w*)([^{]*)\{")
_OURS = re.compile(r"\bFrazil\w*")
_known: dict[str, bytes] = {}


def sources() -> dict[str, str]:
    """The Java files of the driver, by name."""
    folder = files("frazil.spark") / "jvm"
    found = sorted((file for file in folder.iterdir() if file.name.endswith(".java")), key=lambda file: file.name)
    texts = {file.name: file.read_text(encoding="utf-8") for file in found}
    source = "package {0}; public class DefaultSource extends {1}.FrazilSource {{}}"
    return texts | {f"{name}/DefaultSource.java": source.format(name, PACKAGE) for name in FORMATS}


def define_classes(jvm: Any) -> None:
    """Compile and define our classes, unless this JVM has them."""
    anchor = jvm.java.lang.Class.forName(ANCHOR)
    if _is_defined(jvm, anchor):
        return
    texts, classes = sources(), class_files(jvm)
    handles = jvm.java.lang.invoke.MethodHandles
    lookup = handles.privateLookupIn(anchor, handles.lookup())
    for name in definition_order(texts.values()):
        lookup.defineClass(classes[f"{PACKAGE.replace('.', '/')}/{name}.class"])
    for name in FORMATS:
        jvm.org.apache.spark.sql.connector.catalog.Frazil.define(classes[f"{name}/DefaultSource.class"])


def class_files(jvm: Any) -> dict[str, bytes]:
    """The class files of all our classes by path: those of this process, from the cache, or compiled and put there.

    They are compiled together and once. A file that is compiled again where our classes are defined already would be
    told of them twice, as text and as classes, and one is not taken for the other.
    """
    if not _known:
        _known.update(_found(jvm, sources()))
    return _known


def class_files_of(jvm: Any, names: Iterable[str]) -> dict[str, bytes]:
    """The class files of what is in some of our Java files."""
    texts = sources()
    classes = {f"{PACKAGE.replace('.', '/')}/{name}" for name in definition_order(texts[name] for name in names)}
    return {path: code for path, code in class_files(jvm).items() if re.split(r"[$.]", path)[0] in classes}


def _found(jvm: Any, texts: Mapping[str, str]) -> dict[str, bytes]:
    place = _cache_file(texts)
    if place is not None:
        with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(place) as kept:
            return {name: kept.read(name) for name in kept.namelist()}
    classes = {str(name): bytes(code) for name, code in compile_java(jvm, texts).items()}
    if place is None:
        return classes
    with suppress(OSError):  # a read-only home costs time, nothing else
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = place.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as kept:
            for name, code in classes.items():
                kept.writestr(name, code)
        partial.replace(place)
    return classes


def cache_folder() -> Path | None:
    """A folder of the user's own for what can be made again; None where the user has no home."""
    home = os.environ.get("XDG_CACHE_HOME")
    with suppress(RuntimeError):
        return (Path(home) if home else Path.home() / ".cache") / "frazil"
    return None


def _cache_file(texts: Mapping[str, str]) -> Path | None:
    import pyspark

    digest = hashlib.sha256(pyspark.__version__.encode())
    for name, text in sorted(texts.items()):
        digest.update(f"\0{name}\0{text}".encode())
    folder = cache_folder()
    return None if folder is None else folder / f"classes-{digest.hexdigest()[:32]}.zip"


def _is_defined(jvm: Any, anchor: Any) -> bool:
    from py4j.protocol import Py4JJavaError

    try:
        jvm.java.lang.Class.forName(f"{PACKAGE}.Frazil", True, anchor.getClassLoader())
    except Py4JJavaError:
        return False
    return True


def compile_java(jvm: Any, texts: Mapping[str, str]) -> Any:
    """The class files (a Java map from path to bytes) of Java files that may refer to each other."""
    resources = jvm.org.codehaus.commons.compiler.util.resource
    loader = jvm.java.lang.Class.forName(ANCHOR).getClassLoader()
    compiler = jvm.org.codehaus.janino.Compiler()
    compiler.setIClassLoader(jvm.org.codehaus.janino.ClassLoaderIClassLoader(loader))
    compiled = jvm.java.util.HashMap()
    compiler.setTargetVersion(_TARGET)
    compiler.setClassFileCreator(resources.MapResourceCreator(compiled))
    units = [resources.StringResource(name, text) for name, text in texts.items()]
    compiler.compile(java_array(jvm, resources.Resource, units))
    return compiled


def definition_order(texts: Iterable[str]) -> list[str]:
    """The classes of some Java files, each after those it extends or implements.

    >>> definition_order(["class FrazilB extends FrazilA {} class FrazilA {}"])
    ['FrazilA', 'FrazilB']
    """
    parents = {
        name: set(_OURS.findall(rest)) for text in texts for name, rest in _HEAD.findall(re.sub(r"/\*.*?\*/", "", text))
    }
    return list(TopologicalSorter(parents).static_order())


def java_array(jvm: Any, kind: Any, items: Iterable[Any]) -> Any:
    """A Java array of a class."""
    listed = list(items)
    array = _gateway().new_array(kind, len(listed))
    for index, item in enumerate(listed):
        array[index] = item
    return array


def _gateway() -> Any:
    from pyspark import SparkContext

    return SparkContext._gateway


def set_private(target: Any, name: str, value: Any) -> None:
    """Set a private field of a Java object."""
    _private_field(target, name).set(target, value)


def get_private(target: Any, name: str) -> Any:
    """What a private field of a Java object holds."""
    return _private_field(target, name).get(target)


def _private_field(target: Any, name: str) -> Any:
    """A field of a Java object, wherever in its class hierarchy it is declared."""
    declaring = target.getClass()
    while declaring is not None:
        for field in declaring.getDeclaredFields():
            if field.getName() == name:
                field.setAccessible(True)
                return field
        declaring = declaring.getSuperclass()
    raise Unsupported(
        f"this version of Spark has no {name} in {target.getClass().getName()}", hint="use pyspark 4.0 to 4.3"
    )

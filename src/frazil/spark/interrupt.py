"""Ctrl-C during a query: its jobs end, and the session can be used again.

PySpark's own handler asks the JVM to cancel by the connection that waits for the query's answer. That fails, the jobs
run on, and the next query waits for them. This one asks from another thread, and lets go of the connection: the answer
that is still to come would be taken for that of the next question.
"""

from __future__ import annotations

import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

_PATIENCE_SECONDS = 5.0
_seen = 0


def interruptions() -> int:
    """How often Ctrl-C was pressed so far: work of several jobs ends if it was meanwhile, and not only its job."""
    return _seen


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with the connection to the JVM closed: there is nothing to answer any more."""


def handle_interrupts() -> None:
    """Take the place of PySpark's handler of SIGINT. One that the user made stays."""
    if threading.current_thread() is threading.main_thread() and is_from_pyspark(signal.getsignal(signal.SIGINT)):
        signal.signal(signal.SIGINT, interrupt)


def is_from_pyspark(handler: Any) -> bool:
    """Whether a handler of signals is the one that a SparkContext sets."""
    return str(getattr(handler, "__module__", "")).startswith("pyspark.")


def interrupt(_number: int, _frame: FrameType | None) -> None:
    """End what Spark does for this process, and raise KeyboardInterrupt where the main thread is."""
    from pyspark import SparkContext

    global _seen
    _seen += 1
    context = SparkContext._active_spark_context
    if context is not None:
        worker = threading.Thread(target=_cancel, args=(context,), name="frazil-interrupt", daemon=True)
        worker.start()
        worker.join(_PATIENCE_SECONDS)
        connection = _connection_of_this_thread(context)
        if connection is not None:
            connection.close()
    raise Interrupted


def _cancel(context: Any) -> None:
    from py4j.protocol import Py4JError

    with suppress(Py4JError, OSError):  # the JVM may be gone, by the same Ctrl-C
        context.cancelAllJobs()


def _connection_of_this_thread(context: Any) -> Any:
    find = getattr(context._gateway._gateway_client, "get_thread_connection", None)
    return None if find is None else find()

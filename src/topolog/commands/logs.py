"""What a process says of itself: lines for a person at a terminal, JSON lines for anything else.

Everybody logs with the standard library, and knows nothing of this file. Here each record, a library's as well as ours,
gets what people look for it by: cluster, role, and, where they are known at that moment, term, position, request and
trace_id; and secrets are masked, whoever has said them.

The level can be changed while the process runs: SIGUSR1 says all from debug on, SIGUSR2 goes back to the settings'
level. At debug librdkafka speaks too, which otherwise repeats itself once a second while a broker is away.
"""

import functools
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any, Final, TextIO

import structlog

from topolog.events.masking import CHARS_MIN, masked
from topolog.events.telemetry import trace_id
from topolog.settings.model import Log, Settings
from topolog.settings.secret_files import SECRET

Facts = Callable[[], Mapping[str, object]]
EventDict = MutableMapping[str, Any]

_GIVEN: Final = ("request", "position", "term", "node")
"""What a caller may say of a record by `extra=`."""

_LIBRARY: Final = "topolog.kafka.librdkafka"


def set_up(
    log: Log,
    *,
    role: str,
    cluster: str,
    secrets: Iterable[str] = (),
    facts: Facts = dict,
    stream: TextIO | None = None,
) -> None:
    """Log to stderr, or `stream`, from now on. `facts` says what this process is at the moment, such as its term; it
    is asked in any thread. `secrets` are texts that must not be shown."""
    stream = stream or sys.stderr
    is_text = log.format == "text" or (log.format == "auto" and stream.isatty())
    known: list[structlog.types.Processor] = [
        structlog.stdlib.ExtraAdder(allow=_GIVEN),
        functools.partial(_with_facts, {"cluster": cluster, "role": role}, facts),
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
        functools.partial(_masked, tuple(each for each in secrets if len(each) >= CHARS_MIN)),
    ]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=known,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _text if is_text else _json],
        )
    )
    root = logging.getLogger()
    for former in tuple(root.handlers):
        root.removeHandler(former)
    root.addHandler(handler)
    logging.captureWarnings(True)
    threading.excepthook = _of_thread
    level = logging.getLevelNamesMapping()[log.level.upper()]
    change_level(level)
    _change_by_signals(level)


class Known:
    """What a process is at the moment, such as its term: `look` is asked for each record, in any thread."""

    def __init__(self) -> None:
        self.look: Facts = dict

    def now(self) -> Mapping[str, object]:
        return self.look()


def log_as(role: str, settings: Settings, *, cluster: str | None = None) -> Known:
    """`set_up` as the settings say; what they hold that nobody may see is masked wherever it turns up.

    Who knows more of the process by and by tells what is given back.
    """
    known = Known()
    secrets = [value for key, value in settings.kafka.items() if SECRET.search(key)]
    name = cluster or settings.cluster.name
    set_up(settings.log, role=role, cluster=name, secrets=secrets, facts=known.now)
    return known


def change_level(level: int) -> None:
    """Say all from this level on."""
    logging.getLogger().setLevel(level)
    logging.getLogger(_LIBRARY).setLevel(logging.DEBUG if level <= logging.DEBUG else logging.CRITICAL)


def _change_by_signals(level: int) -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    for number, wanted in ((signal.SIGUSR1, logging.DEBUG), (signal.SIGUSR2, level)):
        signal.signal(number, functools.partial(_on_signal, wanted))


def _on_signal(level: int, _: int, __: object) -> None:
    change_level(level)


def _of_thread(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_type is SystemExit:
        return
    name = failed.thread.name if failed.thread else "?"
    raised = failed.exc_value or failed.exc_type()
    logging.getLogger("topolog").error(
        "The thread %s has failed.", name, exc_info=(failed.exc_type, raised, failed.exc_traceback)
    )


def _with_facts(fixed: Mapping[str, object], facts: Facts, _: Any, __: str, event: EventDict) -> EventDict:
    """What the caller has said goes before what the process is at the moment."""
    traced = {"trace_id": found} if (found := trace_id()) else {}
    known = {**fixed, **facts(), **traced, **event}
    return {key: value for key, value in known.items() if value is not None}


def _masked(secrets: tuple[str, ...], _: Any, __: str, event: EventDict) -> EventDict:
    return {key: masked(value, secrets) if isinstance(value, str) else value for key, value in event.items()}


def _json(_: Any, __: str, event: EventDict) -> str:
    first = {"time": event.pop("time"), "level": event.pop("level"), "logger": event.pop("logger")}
    rendered = structlog.processors.JSONRenderer(ensure_ascii=False)(
        None, "", {**first, "message": event.pop("event"), **event}
    )
    assert isinstance(rendered, str)
    return rendered


def _text(_: Any, __: str, event: EventDict) -> str:
    """For a person, who knows which process this is; what was said of this one record stands at its end."""
    said = "".join(f" {key}={event[key]}" for key in ("request", "node", "trace_id") if key in event)
    trace = f"\n{event['exception']}" if "exception" in event else ""
    return f"{event['time']} {event['level'].upper()} {event['logger']} {event['event']}{said}{trace}"

"""Which decisions belong to which trace: the header `traceparent` of a request stands on the decisions about it, too.

The core knows nothing of it, and the log's rules do not either; a decision that is made later, when others have
answered, has none.
"""

import contextlib
import logging
from collections.abc import Iterator

from topolog.events import telemetry
from topolog.events.log import Entry, Headers
from topolog.events.stamp import HEADER_NAME, decode_stamp
from topolog.events.topics import RECORD_BYTES_MAX
from topolog.streams.coordinator.core import Core, Outgoing

_LOGGER = logging.getLogger("topolog.coordinator")


class Traces:
    """Of one leader. What it decides of a request that is `asked` gets that request's header."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._of: dict[bytes, bytes] = {}

    @contextlib.contextmanager
    def asked(self, core: Core, request: Entry) -> Iterator[None]:
        traceparent, before = telemetry.carried(request.headers), len(core.outbox)
        about = telemetry.messaging(
            "process",
            request.topic,
            self._cluster,
            parent=traceparent,
            partition=request.partition,
            offset=request.offset,
            key=request.key,
        )
        with about:
            yield
            self._say(core, before)
        if traceparent is not None:
            self._of.update((each.stamp, traceparent) for each in core.outbox[before:])

    def _say(self, core: Core, before: int) -> None:
        """One line for each request at the level debug, with what it is found by."""
        if _LOGGER.isEnabledFor(logging.DEBUG) and len(core.outbox) > before:
            cause, _, request = decode_stamp(core.outbox[before].stamp).cause.partition(" ")
            said = {"request": request, "position": core.ahead.position}
            _LOGGER.debug("%s: %s.", cause, type(core.decided[-1]).__name__, extra=said)

    def headers(self, outgoing: Outgoing) -> Headers:
        """Those of a decision's record; its trace is left out where it would make the record too big."""
        stamped = ((HEADER_NAME, outgoing.stamp),)
        traceparent = self._of.pop(outgoing.stamp, None) if self._of else None
        if traceparent is None:
            return stamped
        size = len(outgoing.value) + sum(map(len, (HEADER_NAME, outgoing.stamp, telemetry.HEADER, traceparent)))
        return stamped if size > RECORD_BYTES_MAX else (*stamped, (telemetry.HEADER, traceparent))

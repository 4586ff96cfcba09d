"""An admin client that its own thread never destroys.

Threat. librdkafka answers the futures of an admin client on a thread of its own, and what Python runs there may be the
collection of garbage. If that finds the very client whose answer has just come, as after a look that failed and left
its reader in the frames of an exception, it destroys it from within, and librdkafka aborts the process: a node is gone
because a broker was.

So a client that becomes unreachable on a thread that Python has not made is kept, until another one is made by a thread
that it has.
"""

import threading

from confluent_kafka import admin

_unreachable: list["AdminClient"] = []


class AdminClient(admin.AdminClient):
    """As that of confluent_kafka, and destroyed by threads of Python alone."""

    def __del__(self) -> None:
        if isinstance(threading.current_thread(), threading._DummyThread):
            _unreachable.append(self)


def destroy_unreachable() -> None:
    """Destroy on this thread, which is none of librdkafka's, the clients that were kept."""
    _unreachable.clear()

"""How a command waits for something to happen: it lets the API tell it, and looks again when something has changed.

Without that (something that is not of the log) it looks again after a while.
"""

import time

from topolog.events.errors import BadInput, NotFound, Unreachable
from topolog.projections.cli.client import Answer, Api, Params, Segments

_POLL_S = 30.0
"""How long one question waits at most; proxies end longer ones."""

_BETWEEN_S = 0.05
"""Between two looks at the least, however much happens."""

_BLIND_S = (0.1, 1.0)
"""Between two looks where nobody tells: at first, and at most."""


class Pause:
    """Waits between two looks at something of the list at `path`; `is_told`: whether the API can say what changes."""

    def __init__(self, api: Api, path: Segments, params: Params | None = None, *, is_told: bool = True) -> None:
        self._api = api
        self._path = path
        self._params = params
        self._is_told = is_told
        self._blind_s = _BLIND_S[0]

    def until_change(self, seen: Answer | None, at_most_s: float) -> None:
        """Return when something has happened behind what was `seen`, or after so long."""
        token = seen.token if seen is not None else None
        started_s = time.monotonic()
        if self._is_told and token:
            try:
                self._api.changes(self._path, token, min(at_most_s, _POLL_S), self._params)
            except (BadInput, NotFound):
                self._is_told = False
            except Unreachable:
                time.sleep(min(self._blind(), at_most_s))
            else:
                time.sleep(min(max(0.0, _BETWEEN_S - (time.monotonic() - started_s)), at_most_s))
                return
        time.sleep(max(0.0, min(self._blind(), at_most_s - (time.monotonic() - started_s))))

    def _blind(self) -> float:
        this_s, self._blind_s = self._blind_s, min(self._blind_s * 1.5, _BLIND_S[1])
        return this_s

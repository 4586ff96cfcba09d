"""Forks one armed process after the other, so that each begins within milliseconds, with everything imported.

    python -m tests.integration.zygote CLUSTER BOOTSTRAP

Obeys lines of JSON: {"entry": ENTRY, "role": ROLE, "arguments": [...]} as `armed.py` has them. Says {"said": "began",
"pid": …}, and {"said": "ended", "code": …} once that process has ended, -9 if signal 9 ended it. What it forked ends
with it.
"""

import json
import os
import sys
import traceback

from tests.integration import armed
from tests.integration.member import say

from topolog.streams.local.stopping import PIPE_VARIABLE


def main(cluster: str, bootstrap: str) -> None:
    read_end, write_end = os.pipe()
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os.close(write_end)
            os.environ[PIPE_VARIABLE] = str(read_end)
            _live(order["entry"], cluster, bootstrap, order["role"], *order["arguments"])
        say("began", pid=pid)
        say("ended", code=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _live(*arguments: str) -> None:
    """The child: what runs, ends here and not in the parent's code."""
    code = 1
    try:
        armed.main(*arguments)
        code = 0
    except BaseException:  # noqa: BLE001 (it is shown, and the process ends)
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])

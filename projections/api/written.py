"""`python -m topolog.projections.api.written`: writes /openapi.json to standard output, as docs/openapi.json has it."""

import sys

import msgspec

from topolog.projections.api.app import make_app


def document() -> str:
    """The API's own description, one member a line, so that a change of it can be read as one."""
    return msgspec.json.format(msgspec.json.encode(make_app([]).openapi(), order="sorted"), indent=1).decode() + "\n"


if __name__ == "__main__":
    sys.stdout.write(document())

"""The file in which a node keeps its past, read by whoever wants to know what would become of its joining."""

import json
from pathlib import Path

from topolog.events import past_file
from topolog.events.errors import BadInput
from topolog.projections.cli.problems import Json

_BYTES_MAX = 1_000_000


def read_past(file: str) -> Json:
    """The content of a `topolog-past.json`, or of that in a data folder; raises BadInput for anything else."""
    path = Path(file)
    if path.is_dir():
        path = path / past_file.FILE_NAME
    try:
        with path.open("rb") as opened:
            data = opened.read(_BYTES_MAX + 1)
    except OSError as error:
        raise BadInput(
            f"Cannot read {path}: {error.strerror}.", hint="It stands in the data folder of a node that has joined."
        ) from error
    if len(data) > _BYTES_MAX:
        raise BadInput(f"{path} is no past of a node: it has more than {_BYTES_MAX} bytes.")
    try:
        past_file.decode(data)
    except (ValueError, RecursionError) as error:
        raise BadInput(
            f"{path} is no past of a node: {error}.",
            hint=f"Take the file {past_file.FILE_NAME} of its data folder as it is.",
        ) from error
    content: Json = json.loads(data)
    return content

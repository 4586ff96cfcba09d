"""A made-up feature level 2: the product's schemas and one more version of an enum that joins and joinings embed.

Today's build knows one level. What rises, is refused and is written during an upgrade is tested with a build that knows
a second one: in this process by its codec, in processes of its own by a tree whose only difference is its schemas.
"""

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from topolog import schemas
from topolog.events.codec import RECORDS, Codec

LEVEL = 2
_ENUM = "requests/NodeKind"
_PACKAGE = Path(schemas.__file__).parent


def write_schemas(folder: Path) -> Path:
    """The package of schemas, as the build of level 2 has it."""
    shutil.copytree(_PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    schema = json.loads((folder / f"{_ENUM}.avsc").read_text(encoding="utf-8"))
    schema["symbols"].append("MADE_UP")
    schema["feature_level"] = LEVEL
    (folder / f"{_ENUM}.v2.avsc").write_text(json.dumps(schema), encoding="utf-8")
    return folder


def write_tree(folder: Path) -> Path:
    """A build of level 2: what stands first on the path of its processes."""
    package = folder / _PACKAGE.parent.name
    package.mkdir()
    for each in _PACKAGE.parent.iterdir():
        if each.name not in (_PACKAGE.name, "__pycache__"):
            (package / each.name).symlink_to(each)
    write_schemas(package / _PACKAGE.name)
    return folder


def _contract() -> Mapping[str, tuple[schemas.Schema, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        return schemas.load(write_schemas(Path(folder) / _PACKAGE.name))


CONTRACT = _contract()
CODEC = Codec(RECORDS, CONTRACT)
"""What a build of level 2 reads and writes by."""

"""What docs/openapi.json says is OpenAPI; that it is what the API answers by is tested beside the API."""

import json
from pathlib import Path

from openapi_spec_validator import validate

COMMITTED = Path(__file__).parents[2] / "docs" / "openapi.json"


def test_it_is_valid() -> None:
    """RD12: the OpenAPI validator is green."""
    validate(json.loads(COMMITTED.read_text(encoding="utf-8")))

"""Makes docker/grafana/dashboards/*.json of boards.yaml, where what they ask stands once.

.venv/bin/python docker/grafana/make_dashboards.py
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

FOLDER = Path(__file__).parent / "dashboards"
SOURCE = {"type": "prometheus", "uid": "${source}"}
_OURS = 'cluster=~"$cluster"'
_WIDTH = 24
_COLUMNS = {"stat": 4, "timeseries": 12, "table": 12, "state-timeline": 24}
_ROWS = {"stat": 4, "timeseries": 8, "table": 8, "state-timeline": 6}


class Panel(NamedTuple):
    """One picture. `asks`: names of lines -> expressions."""

    title: str
    asks: Mapping[str, str]
    kind: str = "timeseries"
    unit: str = "short"
    red_from: float | None = None
    about: str = ""


def dashboards() -> dict[str, str]:
    """The text of each file by its name."""
    boards = yaml.safe_load((FOLDER.parent / "boards.yaml").read_text(encoding="utf-8"))
    made = {}
    for name, said in boards.items():
        board = _board(name, said["about"], [Panel(**each) for each in said["panels"]])
        made[f"{name}.json"] = json.dumps(board, indent=1) + "\n"
    return made


def _board(name: str, about: str, panels: Sequence[Panel]) -> dict[str, Any]:
    return {
        "uid": f"topolog-{name}",
        "title": f"topolog / {name.replace('-', ' ')}",
        "description": about,
        "tags": ["topolog"],
        "editable": True,
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_source(), _cluster(panels)]},
        "links": [
            {"type": "dashboards", "tags": ["topolog"], "title": "topolog", "asDropdown": True, "keepTime": True}
        ],
        "panels": list(_placed(panels)),
    }


def _source() -> dict[str, Any]:
    return {"name": "source", "type": "datasource", "query": "prometheus", "label": "source"}


def _cluster(panels: Sequence[Panel]) -> dict[str, Any]:
    """Clusters are those that the first metric of the board knows."""
    first = re.search(r"topolog_\w+", next(iter(panels[0].asks.values())))
    assert first is not None
    query = f"label_values({first[0]}, cluster)"
    return {
        "name": "cluster",
        "type": "query",
        "datasource": SOURCE,
        "query": query,
        "definition": query,
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _placed(panels: Iterable[Panel]) -> Iterable[dict[str, Any]]:
    x = y = height = 0
    for number, panel in enumerate(panels, 1):
        width = _COLUMNS[panel.kind]
        if x + width > _WIDTH or (height and height != _ROWS[panel.kind]):
            x, y = 0, y + height
        height = _ROWS[panel.kind]
        yield _shown(number, panel, {"x": x, "y": y, "w": width, "h": height})
        x += width


def _shown(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "text" if panel.red_from is None else "green", "value": None}]
    if panel.red_from is not None:
        steps.append({"color": "red", "value": panel.red_from})
    return {
        "id": number,
        "title": panel.title,
        "description": panel.about,
        "type": panel.kind,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "options": {"reduceOptions": {"calcs": ["lastNotNull"]}} if panel.kind == "stat" else {},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": SOURCE,
                "expr": expression.replace("$c", _OURS),
                "legendFormat": name or "__auto",
                "instant": panel.kind == "table",
                "format": "table" if panel.kind == "table" else "time_series",
            }
            for index, (name, expression) in enumerate(panel.asks.items())
        ],
    }


def main() -> None:
    for name, text in dashboards().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

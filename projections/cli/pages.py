"""What `describe` and `explain` show to people: one thing in full, and why it is as it is."""

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from topolog.projections.cli.client import Answer
from topolog.projections.cli.columns import FORECAST, MOVES, PLANNED, WAITING
from topolog.projections.cli.log_columns import CAUSES, HISTORY
from topolog.projections.cli.problems import Json
from topolog.projections.cli.rows import Rows, cell
from topolog.projections.cli.terminal import clean, plain


def describe_page(item: Json, recent: Sequence[Json], more: str, *, wide: bool) -> RenderableType:
    """Every field of the item, then its newest decisions if it has a history; `more` says where the others are."""
    parts: list[RenderableType] = [_properties(item)]
    if recent:
        parts += [_heading(f"Last decisions ({more})" if more else "Last decisions"), Rows(recent, HISTORY, wide=wide)]
    return Group(*parts)


def explain_page(answer: Answer, wide: bool) -> RenderableType:
    """The sentence, what it rests on, who was asked, the chain of decisions that led here, and what to do next."""
    item = answer.item
    parts: list[RenderableType] = [Text(clean(str(item.get("sentence") or "")), style="bold")]
    if item.get("facts"):
        parts += [_heading("Facts"), _properties(item["facts"])]
    if item.get("waiting_for"):
        parts += [_heading("Asked or waited for"), Rows(item["waiting_for"], WAITING, wide=wide)]
    if item.get("causes"):
        parts += [_heading("Because of"), Rows(item["causes"], CAUSES, wide=wide)]
    if item.get("followed"):
        parts += [_heading("What followed"), Rows(item["followed"], CAUSES, wide=wide)]
    if item.get("next"):
        parts += [_heading("Next"), *(Text(f"  {clean(str(each))}") for each in item["next"])]
    return Group(*parts)


def forecast_page(answer: Answer, wide: bool) -> RenderableType:
    """The sentence, what else is to be known, and what would become of each group."""
    item = answer.item
    parts: list[RenderableType] = [Text(clean(str(item.get("sentence") or "")), style="bold")]
    if item.get("facts"):
        parts += [_heading("Facts"), _properties(item["facts"])]
    if item.get("groups"):
        parts += [_heading("Groups"), Rows(item["groups"], FORECAST, wide=wide)]
    return Group(*parts)


def dry_run_page(answer: Answer, wide: bool) -> RenderableType:
    """What would be decided, what would be lost, who would count, and which partitions would get other owners."""
    item = answer.item
    parts: list[RenderableType] = [Text(clean(str(item.get("sentence") or "")), style="bold")]
    parts += [Text(f"Warning: {clean(str(each))}", style="bold red") for each in item.get("warnings") or ()]
    if item.get("steps"):
        parts += [_heading("Steps"), *(Text(clean(str(each))) for each in item["steps"])]
    if item.get("baseline"):
        parts += [_heading("Baseline"), _properties(item["baseline"])]
    if item.get("groups"):
        parts += [_heading("Partitions"), Rows(item["groups"], MOVES, wide=wide)]
    if wide and item.get("decisions"):
        parts += [_heading("Decisions"), Rows(item["decisions"], PLANNED, wide=wide)]
    parts.append(Text("\nNothing was sent.", style="dim"))
    return Group(*parts)


def join_page(answer: Answer, _: bool) -> RenderableType:
    """The sentence, what to do, and where both histories stand."""
    item = answer.item
    parts: list[RenderableType] = [
        Text(f"{clean(str(item.get('kinship')))}: {clean(str(item.get('sentence') or ''))}", style="bold"),
        Text(clean(str(item.get("remedy") or ""))),
    ]
    places = {title: _place(item[field]) for field, title in _PLACES.items() if item.get(field)}
    if since := item.get("members_since"):
        places["members here since"] = plain(since)
    if places:
        parts += [_heading("Places"), _properties(places)]
    if item.get("facts"):
        parts += [_heading("Facts"), _properties(item["facts"])]
    return Group(*parts)


_PLACES = {
    "common": "the last common one",
    "theirs": "the node's first behind it",
    "ours": "the log's first behind it",
}


def _place(place: Json) -> str:
    view = f", view {place['version']}: {plain(place.get('members'))}" if place.get("version") else ""
    return f"position {place.get('position')}, chain {str(place.get('chain'))[:12]}{view}"


def _heading(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _properties(item: Mapping[str, object]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for key, value in item.items():
        grid.add_row(Text(clean(str(key)).replace("_", " "), style="dim"), _value(value))
    return grid


def _value(value: object) -> RenderableType:
    if isinstance(value, str) and "\n" in value:
        return Text(clean(value))
    if isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
        return Text("\n".join(plain(each) for each in value))
    if not isinstance(value, Mapping) or not value or set(value) == {"major", "minor"}:
        return cell(value)
    grid = Table.grid(padding=(0, 2))
    for key, held in value.items():
        grid.add_row(clean(str(key)), _value(held))
    return grid

"""The page of a folder of reports: one file, with its pictures inside, that a browser opens from anywhere."""

from collections.abc import Iterable
from html import escape

from topolog.projections.spark.reports.making import Made, Whole, plain
from topolog.projections.spark.reports.pictures import svg

ROWS_SHOWN = 25

_STYLE = """
body { font: 16px/1.5 system-ui, "DejaVu Sans", sans-serif; color: #222; background: #fff; max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.15rem; margin: 0; }
section { border-top: 1px solid #ccc; padding: 1.2rem 0; }
.facts { color: #555; font-size: .85rem; margin: .3rem 0; } .question { color: #555; margin: .1rem 0; }
.sentence { font-size: 1.05rem; margin: .5rem 0 1rem; } .warning { border-left: 4px solid #D55E00;
  padding-left: .7rem; }
svg { width: 100%; height: auto; display: block; margin: .4rem 0 1rem; }
nav a { margin-right: 1rem; } summary { cursor: pointer; color: #0b5394; } code { font-size: .85em;
  overflow-wrap: anywhere; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .82rem; }
th, td { text-align: left; padding: .15rem .7rem .15rem 0; white-space: nowrap; border-bottom: 1px solid #eee; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
"""


def page(whole: Whole) -> str:
    """The page as HTML."""
    title = f"Reports on {whole.cluster}"
    links = "".join(f'<a href="#{escape(made.name)}">{escape(made.name)}</a>' for made in whole.made)
    warnings = "".join(f'<p class="warning">{escape(each)}</p>' for each in whole.warnings)
    sections = "".join("".join(_section(made)) for made in whole.made)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>\n'
        f"<h1>{escape(title)}</h1>\n{_about(whole)}<nav>{links}</nav>\n{warnings}{sections}</body></html>\n"
    )


def _about(whole: Whole) -> str:
    held, days = whole.positions, whole.days
    first = f" from {days.first}" if days.first else ""
    last = f" until {days.last}" if days.last else ""
    ignored = sum(held.ignored.values())
    left_out = f", {ignored + len(held.voided):,} records left out that do not count" if ignored or held.voided else ""
    return (
        f'<p class="facts">{held.accepted - len(held.voided):,} decisions{first}{last}, up to '
        f"{held.logged_at:%Y-%m-%d %H:%M:%S} UTC{left_out}. The chain of hashes was verified from the first record to "
        f"position {held.verified_at:,}: <code>{escape(held.chain)}</code></p>\n"
    )


def _section(made: Made) -> Iterable[str]:
    yield f'<section id="{escape(made.name)}"><h2>{escape(made.name)}</h2>'
    yield f'<p class="question">{escape(made.question)}</p><p class="sentence">{escape(made.sentence)}</p>\n'
    for picture in made.pictures:
        drawn = svg(picture)
        yield f'<figure style="margin:0" role="img" aria-label="{escape(picture.title)}">{drawn}</figure>\n'
    if made.rows:
        yield from _table(made)
    yield "</section>\n"


def _table(made: Made) -> Iterable[str]:
    more = len(made.rows) - ROWS_SHOWN
    count = f"the first {ROWS_SHOWN} of {len(made.rows):,} rows" if more > 0 else f"{len(made.rows):,} rows"
    yield f"<details><summary>The summary: {count}; all in <code>{escape(made.name)}/summary</code>, single facts in "
    yield f'<code>{escape(made.name)}/facts</code> (Parquet)</summary><div class="scroll"><table><tr>'
    yield "".join(f"<th>{escape(name)}</th>" for name in made.columns)
    yield "</tr>"
    for row in made.rows[:ROWS_SHOWN]:
        yield f"<tr>{''.join(_cell(row[name]) for name in made.columns)}</tr>\n"
    yield "</table></div></details>"


def _cell(value: object) -> str:
    if value is None:
        return "<td>–</td>"
    if isinstance(value, int | float) and not isinstance(value, bool):
        shown = f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
        return f'<td class="number">{shown}</td>'
    return f"<td>{escape(str(plain(value)))}</td>"

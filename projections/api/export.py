"""GET /v1/clusters/<cluster>/export/<list>: all rows of a list as of one position, as lines or as CSV.

Threats. A list has a million rows: it must not lie in memory. Who takes it is slow, or stands still: the store must not
be held for him, for it cannot be closed, mended or switched while somebody reads it.

So rows are read in portions, each in a reading of its own as of the position of the first, and none is open while rows
are on their way: a position never changes, so the portions are one list. Lists that cannot begin anywhere are short,
and are read at once. Whoever takes nothing for `STALL_S` is cut off. Nobody takes a part for the whole: what is cut off
ends without the mark that ends a whole answer.
"""

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import islice
from typing import Any

import msgspec
from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Send

from topolog.projections.api import contract
from topolog.projections.api.answers import Answers, filters_of, headers_of
from topolog.projections.api.list_routes import asking
from topolog.projections.api.listing import Listing, ListQuery
from topolog.projections.api.listings import LISTINGS
from topolog.projections.api.parameters import ExportParameters
from topolog.projections.api.problems import parameter
from topolog.projections.api.served import Here
from topolog.projections.ordering import chosen_fields, field_names, with_fields
from topolog.projections.spreadsheets import cell

PORTION_ROWS = 1_000
STALL_S = 60.0

router = APIRouter(prefix="/v1/clusters/{cluster}/export")

_TYPES = {"jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8"}
_ENCODER = msgspec.json.Encoder()
Encode = Callable[[Sequence[msgspec.Struct]], bytes]


class Portion(msgspec.Struct, frozen=True):
    """Rows as they are sent, of `position`; `last` is the key to go on behind, None at the list's end."""

    content: bytes
    position: int
    last: str | None
    headers: dict[str, str]


class Streamed(StreamingResponse):
    """An answer in parts. Who takes none for `STALL_S` is cut off."""

    async def stream_response(self, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(STALL_S):
                await send(message)

        await super().stream_response(send_in_time)


class Export:
    """One list on its way out, portion by portion."""

    def __init__(self, here: Answers, listing: Listing[Any], given: ExportParameters, encode: Encode) -> None:
        self._here = here
        self._listing = listing
        self._filters = filters_of(listing, given)
        self._as_of = given.as_of
        self._encode = encode

    async def first(self) -> Portion:
        """What decides whether there is anything to send at all: raises as a page of the list would."""
        portion = await run_in_threadpool(self._read, None)
        if not self._listing.no_past:
            self._as_of = str(portion.position)
        return portion

    async def contents(self, portion: Portion) -> AsyncIterator[bytes]:
        """This portion and all that follow."""
        yield portion.content
        while portion.last is not None:
            portion = await run_in_threadpool(self._read, portion.last)
            yield portion.content

    def _read(self, after: str | None) -> Portion:
        listing = self._listing
        with self._here.reading(self._as_of) as reading:
            stands = self._here.as_of(reading)
            self._filters = dict(listing.resolved(reading, self._filters, self._here.projector.wall_ms()))
            found = listing.items(reading, ListQuery(stands.age_ms, self._filters, after))
            rows = list(islice(found, PORTION_ROWS) if listing.is_long else found)
            last = listing.key(rows[-1]) if listing.is_long and len(rows) == PORTION_ROWS else None
            return Portion(self._encode(rows), reading.position, last, headers_of(stands))


def _json_lines(fields: Sequence[str]) -> Encode:
    def encode(rows: Sequence[msgspec.Struct]) -> bytes:
        return _ENCODER.encode_lines([with_fields(row, fields) for row in rows] if fields else rows)

    return encode


def _comma_separated(fields: Sequence[str]) -> Encode:
    def encode(rows: Sequence[msgspec.Struct]) -> bytes:
        text = io.StringIO()
        csv.writer(text).writerows([_cell(getattr(row, name)) for name in fields] for row in rows)
        return text.getvalue().encode()

    return encode


def _cell(value: object) -> object:
    """One value, nothing as nothing, all others as JSON."""
    if value is None:
        return ""
    return cell(value) if isinstance(value, str) else msgspec.json.encode(value).decode()


async def export(request: Request, here: Answers, given: ExportParameters, listing: Listing[Any]) -> Response:
    """The whole list, as of one position."""
    listing.check_past(given.as_of)
    with parameter("fields"):
        fields = chosen_fields(given.fields, listing.item) if given.fields else ()
    await here.catch_up(request, given)
    names = fields or field_names(listing.item)
    under_way = Export(here, listing, given, _comma_separated(names) if given.format == "csv" else _json_lines(fields))
    portion = await under_way.first()
    if given.format == "csv":
        head = f"{','.join(names)}\r\n".encode()
        portion = msgspec.structs.replace(portion, content=head + portion.content)
    name = f"{here.projector.cluster}-{listing.name}-{portion.position}.{given.format}"
    headers = {**portion.headers, "Content-Disposition": f'attachment; filename="{name}"'}
    return Streamed(under_way.contents(portion), headers=headers, media_type=_TYPES[given.format])


def _add(listing: Listing[Any]) -> None:
    async def export_items(request: Request, here: Here, given: ExportParameters) -> Response:
        return await export(request, here, given, listing)

    router.add_api_route(
        f"/{listing.name}",
        asking(export_items, listing, ExportParameters),
        tags=["export"],
        responses=contract.exported(listing.item),
        response_class=Response,
        description=f"All at once, as of one position: {listing.says[0].lower()}{listing.says[1:]}",
        name=f"export {listing.name}",
    )


for _listing in LISTINGS.values():
    _add(_listing)

"""A replica in memory: rows as dictionaries, for services that keep them so and for tests.

Its leaves have the shape of all leaves, its hashes are BLAKE2b over canonical JSON. So replicas of this kind are
compared with each other, and not with those that Spark hashes: a table's replicas are of one kind.
"""

import base64
import hashlib
import math
import re
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import lru_cache

import msgspec

from topolog.events.errors import ReplicaFailed
from topolog.events.key_order import Order, order_of
from topolog.events.merkle import Leaf
from topolog.events.replica import Cut, ReplicaDefinition, RowDigest, SentRow, Written
from topolog.events.replica_access import Fence, Progress
from topolog.events.token_range import RING, RING_BITS, Ranges
from topolog.events.tree_spec import Strength, TokenMode, TreeSpec, fingerprint

Values = Mapping[str, object]
"""A row: what JSON can say, by column name, and floats that it cannot say; bytes for binary."""

_LIMB = 0xFFFF_FFFF
_TOLD_EVERY = 1_000
_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1
_DIGITS = re.compile(r"\d+")
_EXACT = Context(prec=76, traps=[InvalidOperation, Inexact])
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


class MemoryReplica:
    """Rows under their keys; a table without a key keeps them as they come. Any thread may change rows meanwhile.

    `definition` says what the rows are: its number of rows is counted, not taken. `gives_cuts` False: it has no read
    points, as a store without snapshots.
    """

    def __init__(self, definition: ReplicaDefinition, rows: Iterable[Values] = ()) -> None:
        self._definition = definition
        self._rows: list[Values] = list(rows)
        self._changing = threading.Lock()
        self._cuts: dict[str, list[Values]] = {}

    @property
    def rows_now(self) -> list[Values]:
        with self._changing:
            return list(self._rows)

    @property
    def cuts_held(self) -> frozenset[str]:
        return frozenset(self._cuts)

    def put(self, row: Values) -> None:
        """Insert this row, or replace the one with its key."""
        with self._changing:
            key = self._own_key(row)
            self._rows = [each for each in self._rows if not key or self._own_key(each) != key]
            self._rows.append(row)

    def add(self, row: Values) -> None:
        """Insert this row, whether there is one with its key or not."""
        with self._changing:
            self._rows = [*self._rows, row]

    def drop(self, *key: object) -> None:
        """Remove all rows with this key."""
        with self._changing:
            self._rows = [each for each in self._rows if self._own_key(each) != key]

    def redefine(self, definition: ReplicaDefinition) -> None:
        """It has other columns or ranges from now on."""
        self._definition = definition

    def describe(self) -> ReplicaDefinition:
        return msgspec.structs.replace(self._definition, rows=len(self._rows))

    def cut(self, progress: Progress, shared: Cut | None = None) -> Cut | None:
        if not self._definition.gives_cuts:
            return None
        if shared is not None and shared.name in self._cuts:
            return shared
        rows, schema = self.rows_now, fingerprint(self._definition.columns, self._definition.key)
        name = _content_name(rows)
        self._cuts[name] = rows
        return Cut(name, schema)

    def leaves(self, spec: TreeSpec, ranges: Ranges, bits: int, cut: Cut | None, progress: Progress) -> Iterable[Leaf]:
        sums: dict[int, list[int]] = {}
        proofs: dict[int, list[bytes]] = {}
        for token, content, _ in self._read(spec, ranges, cut, progress):
            number = token >> (RING_BITS - bits)
            h1, h2 = _halves(content)
            one = (1, h1 & _LIMB, h1 >> 32, h2 & _LIMB, h2 >> 32)
            sums[number] = [had + more for had, more in zip(sums.get(number, [0] * 5), one, strict=True)]
            proofs.setdefault(number, []).append(hashlib.sha256(content).digest())
        for number, limbs in sums.items():
            rows, a0, a1, b0, b1 = limbs
            proof = hashlib.sha256(b"".join(sorted(proofs[number]))).digest()
            yield Leaf(number, rows, a0, a1, b0, b1, proof if spec.strength is Strength.PROOF else b"")

    def digests(self, spec: TreeSpec, ranges: Ranges, cut: Cut | None, progress: Progress) -> Iterable[RowDigest]:
        for token, content, row in self._read(spec, ranges, cut, progress):
            h1, h2 = _halves(content)
            key = _name(spec, row, content)
            version = row.get(spec.version_column) if spec.version_column else None
            told = None if version is None else _text(_canonical(version, _type_of(spec, spec.version_column)))
            is_tombstone = bool(spec.tombstone_column and row.get(spec.tombstone_column))
            yield RowDigest(token, key, h1, h2, told, is_tombstone)

    def rows(self, spec: TreeSpec, keys: Sequence[str], cut: Cut | None) -> Iterable[tuple[str, str]]:
        wanted = set(keys)
        for row in self._at(cut):
            content = _content(spec, row)
            key = _name(spec, row, content)
            if key in wanted:
                yield key, content.decode()

    def write(
        self, spec: TreeSpec, rows: Sequence[SentRow], cut: Cut | None, fence: Fence, progress: Progress
    ) -> Written:
        if not self._definition.is_writable or not spec.key:
            raise ReplicaFailed("NOT_WRITABLE", f"{self._definition.id} takes no rows.")
        written = skipped = size = seen = 0
        for sent in rows:
            compared = dict(sent.targets)
            if self._definition.name not in compared:
                continue
            fence()
            seen += len(sent.key) + len(sent.values)
            if self._write(spec, sent, compared[self._definition.name]):
                written, size = written + 1, size + len(sent.values)
            else:
                skipped += 1
            progress(written, seen)
        return Written(written, size, skipped)

    def release(self, cut: Cut) -> None:
        self._cuts.pop(cut.name, None)

    def _write(self, spec: TreeSpec, sent: SentRow, compared: tuple[int, int] | None) -> bool:
        """Whether the row is now what was sent; False if it is not what was compared, or cannot be what was sent."""
        with self._changing:
            there = [row for row in self._rows if _key(spec, row) == sent.key]
            rest = [row for row in self._rows if _key(spec, row) != sent.key]
            contents = [_content(spec, row) for row in there]
            wanted = [sent.values.encode()] if sent.values else []
            if contents == wanted:
                return True
            found = [_halves(content) for content in contents]
            if found != ([] if compared is None else [compared]):
                return False
            try:
                own = self._own(sent.values) if sent.values else None
            except ReplicaFailed:
                return False  # no value of its own columns
            new: list[Values] = [] if own is None else [{**(there[0] if there else {}), **own}]
            self._rows = rest + new
            return True

    def _own(self, values: str) -> Values:
        """Values that were sent, in the types of this replica's own columns."""
        types = {column.name: column.type for column in self._definition.columns}
        found: dict[str, object] = msgspec.json.decode(values)
        return {name: _from_wire(value, types[name]) for name, value in found.items() if name in types}

    def _own_key(self, row: Values) -> tuple[object, ...]:
        return tuple(row.get(name) for name in self._definition.key)

    def _at(self, cut: Cut | None) -> list[Values]:
        if cut is None:
            return self.rows_now
        found = self._cuts.get(cut.name)
        if found is None and _content_name(now := self.rows_now) == cut.name:
            found = now  # fixed by a former life, and nothing has changed since
        if found is None:
            raise ReplicaFailed("CUT_LOST", f"{self._definition.id} no longer has the read point {cut.name}.")
        return found

    def _read(
        self, spec: TreeSpec, ranges: Ranges, cut: Cut | None, progress: Progress
    ) -> Iterator[tuple[int, bytes, Values]]:
        """(token, canonical content, row) of the rows in these ranges."""
        size = 0
        for count, row in enumerate(self._at(cut), start=1):
            content = _content(spec, row)
            size += len(content)
            if count % _TOLD_EVERY == 0:
                progress(count, size)
            token = _token(spec, row, content)
            if any(each.start <= token < each.end for each in ranges):
                yield token, content, row
        progress(len(self._at(cut)), size)


def _token(spec: TreeSpec, row: Values, content: bytes) -> int:
    """Where on the ring a row is: by its whole key, or without one by all it holds."""
    hashed = b"T" + (_key(spec, row).encode() if spec.key else content)
    token = int.from_bytes(hashlib.blake2b(hashed, digest_size=4).digest(), "big")
    if spec.mode is not TokenMode.ORDERED:
        return token
    part = 0
    if (value := _canonical(row.get(spec.key[0]), type_ := _type_of(spec, spec.key[0]))) is not None:
        part = bisect_right(_orders(type_, spec.boundaries), order_of(type_, _text(value)))
    parts = len(spec.boundaries) + 1
    start, end = RING * part // parts, RING * (part + 1) // parts
    return start + token % (end - start)


@lru_cache(maxsize=8)
def _orders(type_: str, boundaries: tuple[str, ...]) -> Sequence[Order]:
    return [order_of(type_, each) for each in boundaries]


def _name(spec: TreeSpec, row: Values, content: bytes) -> str:
    """What names a row: its key, in a table without one its two hashes."""
    return _key(spec, row) if spec.key else _json(_halves(content))


def _key(spec: TreeSpec, row: Values) -> str:
    return _json([_canonical(row.get(name), _type_of(spec, name)) for name in spec.key])


def _content(spec: TreeSpec, row: Values) -> bytes:
    """All that is hashed of a row, and what is sent of it."""
    return _json({column.name: _canonical(row.get(column.name), column.type) for column in spec.columns}).encode()


def _halves(content: bytes) -> tuple[int, int]:
    digest = hashlib.blake2b(content, digest_size=16).digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")


def _content_name(rows: Iterable[Values]) -> str:
    """Names what the rows are, in whatever order; NaN is not NULL, as it would be in JSON."""
    each = sorted(repr(sorted(row.items())).encode(errors="surrogatepass") for row in rows)
    return hashlib.blake2b(b"\n".join(each), digest_size=16).hexdigest()


def _type_of(spec: TreeSpec, name: str) -> str:
    return next((column.type for column in spec.columns if column.name == name), "")


def _canonical(value: object, type_: str) -> object:
    """The value as all replicas write it (RE16): -0.0 is 0.0, all NaN are one, numbers have their type's scale, bytes
    are text in base64. Nothing is rounded: what is no value of the type is CORRUPT."""
    if value is None:
        return None
    try:
        if type_ == "long":
            return _whole(Decimal(str(value)))
        if type_ == "double":
            return _canonical_double(_double(value))
        if type_ == "binary":
            return _text_of_bytes(value)
        if type_.startswith("decimal"):
            return _scaled(Decimal(str(value)), *map(int, _DIGITS.findall(type_)))
        if isinstance(value, str):
            value.encode()  # half of a surrogate pair is no text
        return _nested(value, type_)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise ReplicaFailed("CORRUPT", f"{value!r} is no {type_}.") from error


def _whole(number: Decimal) -> int:
    if number != int(number) or not _LONG_MIN <= number <= _LONG_MAX:
        raise ValueError(f"{number} is no long")
    return int(number)


def _scaled(number: Decimal, precision: int, scale: int) -> str:
    """With all digits of the scale; those of the precision must be enough."""
    if not number.is_finite():
        raise ValueError(f"{number} has no digits")
    found = number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    if len(found.as_tuple().digits) > precision:
        raise ValueError(f"{number} has more than {precision} digits")
    return format(_EXACT.add(found, Decimal(0)), "f")  # -0.00 becomes 0.00


def _double(value: object) -> float:
    found = float(str(value))
    if math.isinf(found) and not isinstance(value, float) and "inf" not in str(value).lower():
        raise ValueError(f"{value!r} is larger than any double")
    return found


def _canonical_double(number: float) -> object:
    return number + 0.0 if math.isfinite(number) else _NOT_FINITE[str(number)]


def _nested(value: object, type_: str) -> object:
    """Lists by the type of what they hold, all else that is nested by what it is."""
    if isinstance(value, list | tuple):
        inner = type_.removeprefix("array<").removesuffix(">") if type_.startswith("array<") else ""
        return [_canonical(each, inner) for each in value]
    if isinstance(value, Mapping):
        return {key: _canonical(each, "") for key, each in value.items()}
    if isinstance(value, float):
        return _canonical_double(value)
    return _text_of_bytes(value) if isinstance(value, bytes) else value


def _text_of_bytes(value: object) -> str:
    if not isinstance(value, bytes):
        raise TypeError("no bytes")
    return base64.b64encode(value).decode()


def _from_wire(value: object, type_: str) -> object:
    """A canonical value as rows have it; raises ReplicaFailed CORRUPT for one that is none of the type."""
    if value is None or type_ != "binary":
        found = _canonical(value, type_)
        return float(str(found)) if type_ == "double" and found is not None else found
    try:
        return base64.b64decode(str(value), validate=True)
    except ValueError as error:
        raise ReplicaFailed("CORRUPT", f"{value!r} is no {type_}.") from error


def _text(value: object) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()

"""What a service derives from a table's definition and loads when it is used: a codec, a plan, statistics.

    codecs = node.lazy(make_codec)
    with node.using("shop.orders") as table:
        rows = store.read(table, codecs.of(table))

It is loaded anew for each incarnation and version of the table, and after the lease was lost, for what `load` has read
elsewhere may be older than that.
"""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec

from topolog.events.objects import ObjectStatus
from topolog.streams.node.objects import Table, Token

T = TypeVar("T")


class _Held(msgspec.Struct, Generic[T], frozen=True):
    token: Token
    status: ObjectStatus
    generation: int
    value: T


class Lazy(Generic[T]):
    """Any thread may ask; two that ask for the same at once may both load it, and `load` must allow that.

    `generation()` is that of the lease now.
    """

    def __init__(self, load: Callable[[Table], T], generation: Callable[[], int]) -> None:
        self._load = load
        self._generation = generation
        self._held: dict[str, _Held[T]] = {}

    def of(self, table: Table) -> T:
        """What `load(table)` gives, or gave. `table` is one that `using` or `writing` has yielded."""
        generation, held = self._generation(), self._held.get(table.name)
        seen = table.token, table.status, generation  # a prepared version may be written to in other columns
        if held is None or (held.token, held.status, held.generation) != seen:
            held = _Held(*seen, self._load(table))
            self._held[table.name] = held
        return held.value

    def forget(self, names: Iterable[str]) -> None:
        """These tables are changed, or gone."""
        for name in names:
            self._held.pop(name, None)

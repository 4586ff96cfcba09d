"""Which pages of the topic `trees` an answer in the log speaks of (RE8): found by their hashes, and read after that.

Invariant. What is read from pages is what the answer in the log has a digest of, or nothing; and no more than a few of
them are in memory.

Argument. They are read twice: first their hashes are put together by sender (`events.tree_answers`), until those of one
have the digest that the log names; then each page is taken that has the hash that is next.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from topolog.events.errors import BadInput, ReplicaFailed
from topolog.events.repair_tasks import TaskId
from topolog.events.tree_answers import Answer, hash_of
from topolog.events.tree_answers import items as items_on
from topolog.events.tree_pages import PageKind, TreePage, digest_of_hashes

T = TypeVar("T")
Item = TypeVar("Item", bound=msgspec.Struct)


def with_last(payloads: Iterable[T]) -> Iterator[tuple[T, bool]]:
    """Each, and whether it is the last."""
    rest = iter(payloads)
    for held in rest:
        present = held
        for following in rest:
            yield present, False
            present = following
        yield present, True


class Expected(msgspec.Struct, frozen=True):
    """The pages that an answer in the log speaks of."""

    task: TaskId
    kind: PageKind
    spec_id: bytes
    digest: bytes
    pages: int

    def is_of(self, page: TreePage) -> bool:
        return (page.task, page.kind, page.spec_id) == (self.task, self.kind, self.spec_id)


class Assembly:
    """The hashes of the pages of one attempt, as they come in; `hashes` are those that the log names, once all are
    here."""

    def __init__(self, expected: Expected) -> None:
        self.expected = expected
        self.hashes: Sequence[bytes] | None = None
        self.is_damaged = False
        self._answer = Answer(hash_of)

    def add(self, page: TreePage) -> None:
        """One page more; what is none of these is left out."""
        expected = self.expected
        if self.hashes is not None or not expected.is_of(page):
            return
        self._answer.add(page)
        for sender in self._answer.whole(expected.kind, expected.spec_id, expected.pages):
            hashes = self._answer.payloads(sender)
            if digest_of_hashes(hashes) == expected.digest:
                self.hashes = hashes
                return
            self.is_damaged = True
            self._answer.give_up(sender)

    def found(self) -> Sequence[bytes]:
        """Raises ReplicaFailed PAGES_DAMAGED or PAGES_MISSING if they are not those that the log names."""
        if self.hashes is not None:
            return self.hashes
        of = self.expected.task
        if self.is_damaged:
            raise ReplicaFailed("PAGES_DAMAGED", f"The pages of {of} are not those that its answer in the log names.")
        raise ReplicaFailed("PAGES_MISSING", f"Not all of the {self.expected.pages} pages of {of} are in `trees`.")


class InOrder:
    """Pages with these hashes, one after the other, whatever else comes and in whichever order."""

    def __init__(self, expected: Expected, hashes: Sequence[bytes]) -> None:
        self._expected = expected
        self._hashes = hashes
        self._next = 0
        self._early: dict[int, bytes] = {}

    @property
    def is_done(self) -> bool:
        return self._next == len(self._hashes)

    def taken(self, page: TreePage) -> Iterator[bytes]:
        """The payloads that are next, now that this page has come."""
        if self._expected.is_of(page) and self._next <= page.page < len(self._hashes):
            if hash_of(page.payload) == self._hashes[page.page]:
                self._early[page.page] = page.payload
            while (payload := self._early.pop(self._next, None)) is not None:
                self._next += 1
                yield payload


def items(payloads: Iterable[bytes], type_: type[Item]) -> Iterator[Item]:
    """What stands on pages that are lists of `type_`; raises ReplicaFailed PAGES_DAMAGED for any other bytes."""
    for payload in payloads:
        try:
            yield from items_on([payload], type_)
        except BadInput as error:
            raise ReplicaFailed("PAGES_DAMAGED", error.message) from error

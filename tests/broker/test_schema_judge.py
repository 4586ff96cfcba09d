"""The judge of answers has teeth: whatever came from a definition that a commit had ended is found, nothing else is."""

import pytest
from tests.broker.schema_answers import Act, Answer
from tests.broker.schema_judge import Eras, stale
from tests.broker.schema_operator import Known
from tests.unit.streams.rules.changing import INT, LONG, TEXT

from topolog.events.asked import RequestRef
from topolog.events.decision import Decision
from topolog.events.evidence import Evidence
from topolog.events.fold import Folded
from topolog.events.ids import Place, Position, Term
from topolog.events.object_definition import Column, Definition, ObjectKind, Privilege, Step, Verb
from topolog.events.objects import SchemaChangeCommitted, SchemaChangePrepared, SchemaChangeRolledBack
from topolog.events.stamp import NO_CHAIN, Stamp

TABLE, RIGHT = "shop.a", "ada@shop.a"
ID, NOTE, WIDE_NOTE = Column("id", LONG, 1), Column("note", INT, 2), Column("note", LONG, 2)
MORE, LATER = Column("more", TEXT, 3), Column("more", TEXT, 4)
SHORT = Definition((ID, NOTE), "id", 60_000)
WITH_MORE = Definition((ID, NOTE, MORE), "id", 120_000)
WIDE = Definition((ID, WIDE_NOTE), "id", 0)
READ = Definition(privileges=(Privilege.READ,))
WRITE = Definition(privileges=(Privilege.WRITE,))


class Told:
    """A log in which change follows change, each with the times at which it was asked and known to be over."""

    def __init__(self) -> None:
        self.asked_ns: dict[int, int] = {}
        self.eras = Eras(self.asked_ns)
        self._position = 0

    def change(self, asked_ns: int, over_ns: int | None, *steps: Step) -> None:
        """`over_ns` None: it is rolled back."""
        number = Position(self._position + 1)
        self.asked_ns[number] = asked_ns
        self._tell(asked_ns, SchemaChangePrepared(RequestRef("operator", number, b""), None, steps, None))
        if over_ns is None:
            self._tell(asked_ns, SchemaChangeRolledBack(None, number, "CANCELLED", "", "", {}))
        else:
            self._tell(over_ns, SchemaChangeCommitted((number,), Evidence()))

    def _tell(self, ns: int, event: Decision) -> None:
        self._position += 1
        place = Place(Position(self._position), NO_CHAIN, Term(1))
        self.eras.read(Known(ns, Folded(place, Stamp(b"", Term(1), 0, 0, 1, NO_CHAIN, 0), event)))

    def is_stale(self, answer: Answer) -> bool:
        return bool(list(stale([answer], self.eras)))


def create(definition: Definition = SHORT, name: str = TABLE) -> Step:
    return Step(Verb.CREATE, ObjectKind.TABLE, name, definition)


def alter(definition: Definition, name: str = TABLE) -> Step:
    return Step(Verb.ALTER, ObjectKind.TABLE, name, definition)


def drop(name: str = TABLE) -> Step:
    return Step(Verb.DROP, ObjectKind.TABLE, name)


def answer(act: Act, at_ns: int, *columns: Column, name: str = TABLE, incarnation: int = 1, ttl_ms: int = 0) -> Answer:
    """One that is about to end at this time."""
    return Answer("n1", act, name, at_ns - 2, at_ns, at_ns + 2, incarnation, columns, ttl_ms)


@pytest.fixture
def told() -> Told:
    """A table that is created (100 to 200), gets a column (300 to 400), and is dropped and created again (500 to
    600, 700 to 800); and a right that is given (300 to 400) and taken back (500 to 600)."""
    told = Told()
    told.change(100, 200, create())
    told.change(300, 400, alter(WITH_MORE), Step(Verb.CREATE, ObjectKind.GRANT, RIGHT, READ))
    told.change(500, 600, drop(), Step(Verb.ALTER, ObjectKind.GRANT, RIGHT, WRITE))
    told.change(700, 800, create())
    return told


LEGAL = {
    "as it was committed": answer(Act.READ, 250, ID, NOTE),
    "before it is known to be committed": answer(Act.READ, 150, ID, NOTE),
    "as it is prepared": answer(Act.READ, 350, ID, NOTE, MORE),
    "as it was, while another is prepared": answer(Act.READ, 399, ID, NOTE),
    "until it is known to be dropped": answer(Act.READ, 599, ID, NOTE, MORE),
    "absent before it is created": answer(Act.ABSENT, 199),
    "absent when it is dropped": answer(Act.ABSENT, 650),
    "another one of that name": answer(Act.READ, 850, ID, NOTE, incarnation=3),
    "a row that suits": answer(Act.WROTE, 450, ID, NOTE),
    "a right that was given": answer(Act.ALLOWED, 450, name=RIGHT),
    "kept as long as was said": answer(Act.KEPT, 450, ttl_ms=120_000),
    "kept for ever": answer(Act.KEPT, 450),
}
STALE = {
    "without a column that was added": answer(Act.READ, 401, ID, NOTE),
    "from a table that was dropped": answer(Act.READ, 601, ID, NOTE, MORE),
    "from a former one of that name": answer(Act.READ, 850, ID, NOTE),
    "absent though it was created": answer(Act.ABSENT, 201),
    "absent though nobody asked for that": answer(Act.ABSENT, 450),
    "by a column that nobody has asked for": answer(Act.READ, 250, ID, NOTE, MORE),
    "by a column of another number": answer(Act.READ, 450, ID, NOTE, LATER),
    "a row for a table that was dropped": answer(Act.WROTE, 650, ID, NOTE),
    "a row with a column that is not committed": answer(Act.WROTE, 250, ID, NOTE, MORE),
    "a right that was taken back": answer(Act.ALLOWED, 601, name=RIGHT),
    "a right that nobody has asked for": answer(Act.ALLOWED, 250, name=RIGHT),
    "a right that nobody has": answer(Act.ALLOWED, 450, name="bob@shop.a"),
    "deleted too early": answer(Act.KEPT, 401, ttl_ms=60_000),
}


@pytest.mark.parametrize("legal", LEGAL.values(), ids=LEGAL)
def test_an_answer_that_something_justifies_is_legal(told: Told, legal: Answer) -> None:
    assert not told.is_stale(legal)


@pytest.mark.parametrize("wrong", STALE.values(), ids=STALE)
def test_an_answer_that_nothing_justifies_is_found(told: Told, wrong: Answer) -> None:
    """TA14, TA18, TA23."""
    assert told.is_stale(wrong)


def test_what_was_prepared_may_be_shown_until_the_next_commit_is_known(told: Told) -> None:
    """A rollback needs not be heard by anybody: until the next commit servers may answer by either definition."""
    told.change(900, None, alter(WIDE))
    told.change(1_000, 1_100, alter(WITH_MORE))
    assert not told.is_stale(answer(Act.READ, 1_050, ID, WIDE_NOTE, incarnation=3))
    assert told.is_stale(answer(Act.READ, 1_101, ID, WIDE_NOTE, incarnation=3))


def test_what_was_never_committed_is_never_there() -> None:
    """A table whose creation is rolled back was no table."""
    told = Told()
    told.change(100, None, create())
    assert told.is_stale(answer(Act.READ, 150, ID, NOTE))
    assert told.is_stale(answer(Act.READ, 250, ID, NOTE))


def test_rows_of_the_narrower_type_suit_the_wider_one_and_not_the_other_way_round() -> None:
    told = Told()
    told.change(100, 200, create())
    told.change(300, 400, alter(WIDE))
    assert not told.is_stale(answer(Act.WROTE, 450, ID, NOTE))
    assert told.is_stale(answer(Act.WROTE, 290, ID, WIDE_NOTE))


def test_a_table_keeps_its_incarnation_under_its_new_name() -> None:
    """And answers under neither before that, nor under the former one any more."""
    told = Told()
    told.change(100, 200, create())
    told.change(300, 400, Step(Verb.RENAME, ObjectKind.TABLE, TABLE, SHORT, "shop.b"))
    assert not told.is_stale(answer(Act.READ, 450, ID, NOTE, name="shop.b"))
    assert told.is_stale(answer(Act.READ, 450, ID, NOTE))
    assert told.is_stale(answer(Act.READ, 450, ID, NOTE, name="shop.b", incarnation=2))

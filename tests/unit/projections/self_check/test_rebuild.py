"""The rebuild that stores are compared with: where it stands, and what of its own troubles is no store's."""

from pathlib import Path

import pytest
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.self_check.conftest import Checker, contents, write

from topolog.events.errors import Unreachable
from topolog.events.ids import NOWHERE
from topolog.projections import layout
from topolog.projections.self_check.rebuild import ScratchDamaged
from topolog.projections.self_check.verdict import State

NODE = layout.row_key(("node", "n1"))


def test_it_stands_at_every_border_of_a_set_and_at_no_other_place(chronicle: Chronicle, checker: Checker) -> None:
    """K2: a set happens at once. Forward and back, again and again."""
    chronicle.replace_in_one_set("n1", "n9")
    end = chronicle.position
    rebuild = checker.rebuild
    assert [rebuild.to(each) for each in (3, end, end - 1, 3, NOWHERE, end + 1)] == [
        True,
        True,
        False,
        True,
        True,
        False,
    ]
    assert rebuild.position == end, "it stands at the end of the log when it has looked for more"


def test_it_goes_on_with_a_log_that_grows(chronicle: Chronicle, checker: Checker) -> None:
    """The end that was heard once is not believed a second time."""
    for name in ("m1", "m2", "m3"):
        checker.rebuild.to_end()
        assert checker.rebuild.position == chronicle.position
        assert checker.rebuild.to(chronicle.join(name))


def test_a_log_that_says_nothing_is_unreachable(chronicle: Chronicle, checker: Checker, folder: Path) -> None:
    """No verdict about a store is made of it."""
    chronicle.log.reachable = False
    with pytest.raises(Unreachable, match="said nothing for 30 s"):
        checker.check(folder)
    chronicle.log.reachable = True
    assert checker.check(folder).state is State.EQUAL


def test_damage_of_the_rebuild_is_not_taken_for_damage_of_the_store(
    chronicle: Chronicle, checker: Checker, folder: Path
) -> None:
    """The disk of the scratch folder is bad: no store is moved aside for it, and nothing is mended by it."""
    write(folder, {NODE: None})
    before = contents(folder)
    checker.rebuild.to(chronicle.position)
    for path in checker.rebuild._store.path.glob("CURRENT"):  # type: ignore[union-attr]  # it stands somewhere
        path.write_bytes(b"no list")
    with pytest.raises(ScratchDamaged):
        checker.mend(folder)
    assert contents(folder) == before
    assert not list(folder.glob("*.damaged"))

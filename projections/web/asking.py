"""What a page is asked for, and what it answers from: one reading of the store, hence one position."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from topolog.projections.resources import AsOf
from topolog.projections.store import Reading
from topolog.projections.web.frame import Frame

if TYPE_CHECKING:
    from topolog.projections.projector import Projector
    from topolog.projections.web.heat import Gallery


class Filter(msgspec.Struct, frozen=True):
    """One way to narrow a list: `choices` are all there are, none if it may be any text; `value` is the one in force."""

    name: str
    about: str
    choices: tuple[str, ...] = ()
    value: str = ""

    @property
    def label(self) -> str:
        return self.name.replace("_", " ")


class Asked:
    """One question to the console. `newest` is the reading at the end of the store, `reading` that of the moment.

    `filters` are those that were given, `choices` all that there are. `after`: where a page of a list begins.
    """

    def __init__(
        self,
        projector: "Projector",
        gallery: "Gallery",
        newest: Reading,
        reading: Reading,
        frame: Frame,
        choices: tuple[Filter, ...] = (),
        after: str | None = None,
    ) -> None:
        self.projector = projector
        self.gallery = gallery
        self.newest = newest
        self.reading = reading
        self.frame = frame
        self.choices = choices
        self.after = after

    @property
    def as_of(self) -> AsOf:
        return self.frame.as_of

    @property
    def age_ms(self) -> int:
        return self.frame.as_of.age_ms

    @property
    def filters(self) -> Mapping[str, str]:
        return {each.name: each.value for each in self.choices if each.value}

"""What a page is asked for, and what it answers from: one reading of the store, hence one position."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from topolog.projections.cursors import Page
from topolog.projections.resources import AsOf
from topolog.projections.store import Reading
from topolog.projections.web.frame import Frame

if TYPE_CHECKING:
    from topolog.projections.projector import Projector
    from topolog.projections.web.heat import Gallery


class Filter(msgspec.Struct, frozen=True):
    """One way to narrow a list: `choices` are all there are, none for any text; `value` is the one in force,
    `usual` what holds without one."""

    name: str
    about: str
    choices: tuple[str, ...] = ()
    value: str = ""
    usual: str = "any"

    @property
    def label(self) -> str:
        return self.name.replace("_", " ")


class May(Protocol):
    def __call__(self, resource: str, name: str | None = None, /) -> bool: ...


@dataclass(frozen=True)
class PageRequest:
    """One question to the console. `newest` is the reading at the end of the store, `reading` that of the moment.

    `filters` are those that were given, `choices` all that there are. `listed` is the page of the API's list of this
    name, sorted by `sort`, that goes on `behind` a place. `may`: whether all of a resource of the API, by its name, or
    one thing of it may be shown to whoever asks; what a page tells beside what it is about is asked for so.
    """

    projector: "Projector"
    gallery: "Gallery"
    newest: Reading
    reading: Reading
    frame: Frame
    choices: tuple[Filter, ...] = ()
    listed: Callable[[], Page[Any]] = lambda: Page([], None)
    sort: str = ""
    behind: str | None = None
    may: May = lambda _resource, _name=None: True

    @property
    def as_of(self) -> AsOf:
        return self.frame.as_of

    @property
    def age_ms(self) -> int:
        return self.frame.as_of.age_ms

    @property
    def filters(self) -> Mapping[str, str]:
        return {each.name: each.value for each in self.choices if each.value}

"""What is around every page: which cluster, which moment, how old, where one can go from here, and the same elsewhere.

The address holds the whole state: the moment as `as_of`, the filters by their names in the API. Every link of a page
keeps its moment, so one slider moves all views. Nothing here needs a script.
"""

import shlex
from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode

import msgspec

from topolog.projections.durations import ago
from topolog.projections.resources import AsOf


class MenuEntry(msgspec.Struct, frozen=True):
    """An entry of the menu: the view's name in its address, what people call it."""

    view: str
    title: str


MENU: Sequence[tuple[str, Sequence[MenuEntry]]] = (
    (
        "Now",
        (
            MenuEntry("", "Overview"),
            MenuEntry("pending", "Pending"),
            MenuEntry("heat", "Heat map"),
            MenuEntry("exchanges", "Exchanges"),
            MenuEntry("leases", "Leases"),
            MenuEntry("baselines", "Baseline"),
            MenuEntry("sessions", "Sessions"),
        ),
    ),
    (
        "Log",
        (
            MenuEntry("decisions", "Decisions"),
            MenuEntry("proposals", "Proposals"),
            MenuEntry("changes", "Changes"),
            MenuEntry("requests", "Requests"),
            MenuEntry("audit", "Audit"),
            MenuEntry("dead-letters", "Dead letters"),
            MenuEntry("topics", "Topics"),
            MenuEntry("projections", "Projection"),
        ),
    ),
    (
        "Cluster",
        (
            MenuEntry("nodes", "Nodes"),
            MenuEntry("lease-health", "Lease health"),
            MenuEntry("groups", "Groups"),
            MenuEntry("partitions", "Partitions"),
            MenuEntry("maps", "Maps"),
            MenuEntry("single-maps", "Single maps"),
            MenuEntry("views", "Views"),
        ),
    ),
    (
        "Data",
        (
            MenuEntry("types", "Types"),
            MenuEntry("databases", "Databases"),
            MenuEntry("tables", "Tables"),
            MenuEntry("table-views", "Views of tables"),
            MenuEntry("grants", "Grants"),
            MenuEntry("replicas", "Replicas"),
            MenuEntry("differences", "Differences"),
            MenuEntry("repairs", "Repairs"),
            MenuEntry("trees", "Trees"),
            MenuEntry("schedules", "Schedules"),
        ),
    ),
)


class SliderMark(msgspec.Struct, frozen=True):
    """A decision on the slider: where, when, what; `tone` as of a badge, empty for what is usual. What it is may not be
    told to everybody: `what` and `tone` are empty then."""

    position: int
    time: str
    what: str
    tone: str


class Slider(msgspec.Struct, frozen=True):
    """What the slider spans: positions `first` to `newest`; `marks` are decisions in between, oldest first.

    `before`, `after`: the decisions on either side of the moment that is shown, lease renewals passed over.
    """

    first: int
    newest: int
    newest_time: str
    marks: tuple[SliderMark, ...]
    before: int | None
    after: int | None

    @property
    def data(self) -> str:
        """Positions and times for the script."""
        return msgspec.json.encode([(mark.position, mark.time, mark.what) for mark in self.marks]).decode()


class Command(msgspec.Struct, frozen=True):
    """The same as a page in the terminal."""

    label: str
    line: str


class Frame(msgspec.Struct, frozen=True):
    """`path` is below the cluster's address; `query` is what the address holds beside the moment.

    `has_past`: the view can be moved. `base` is where this server was asked, as `http://127.0.0.1:8080`.
    """

    cluster: str
    path: str
    query: Mapping[str, str]
    as_of: AsOf
    is_current: bool
    fence_ms: int
    slider: Slider
    base: str
    environment: str = ""
    has_past: bool = True
    refresh_s: int | None = None

    @property
    def view(self) -> str:
        return self.path.partition("/")[0]

    @property
    def moment(self) -> Mapping[str, str]:
        return {} if self.is_current else {"as_of": str(self.as_of.position)}

    @property
    def staleness(self) -> str:
        """How old what is shown is, in words."""
        if self.as_of.stopped:
            return "stopped"
        if not self.is_current:
            return "the past"
        return "up to date" if self.as_of.age_ms == 0 else f"{ago(self.as_of.age_ms)} old"

    @property
    def tone(self) -> str:
        """The colour of the same."""
        if self.as_of.stopped or self.as_of.age_ms > self.fence_ms:
            return "bad"
        return "ok" if self.is_current else "busy"

    def to(self, *path: object, **query: object) -> str:
        """The address of another page at the moment of this one; empty parts of the query are left out."""
        return _address(self.cluster, path, {**query, **self.moment})

    def to_at(self, position: int, *path: object) -> str:
        """The address of a page at a moment of its own."""
        return _address(self.cluster, path, {"as_of": position})

    def at(self, position: int | str | None) -> str:
        """This page at another moment; None: now."""
        past = {} if position is None or position == self.slider.newest else {"as_of": position}
        return _address(self.cluster, self.path.split("/"), {**self.query, **past})

    def narrowed(self, **query: object) -> str:
        """This page, with these filters beside or instead of its own."""
        return self.to(*self.path.split("/"), **{**self.query, "behind": "", **query})

    @property
    def own_path(self) -> str:
        return _address(self.cluster, self.path.split("/"), {})

    def api(self, *path: object, **query: object) -> str:
        """An address of the API, of what is shown here."""
        moment = self.moment if self.has_past else {}
        return f"/v1{_address(self.cluster, path, {**query, **moment})}"

    def commands(self, *told: str, api: str) -> tuple[Command, ...]:
        """The same in the terminal: commands as they follow `topolog`, and one that asks the API."""
        past = "" if self.is_current or not self.has_past else f" --as-of {self.as_of.position}"
        own = tuple(Command("topolog", f"topolog {each}{past}") for each in told)
        return (*own, Command("curl", f"curl {shlex.quote(self.base + api)}"))


def _address(cluster: str, path: Sequence[object], query: Mapping[str, object]) -> str:
    parts = "/".join(quote(str(part), safe="@") for part in path if str(part))
    given = urlencode({name: value for name, value in query.items() if value not in (None, "")})
    return f"/clusters/{quote(cluster, safe='')}/{parts}{'?' if given else ''}{given}"

"""The pages as the server makes them, without a script: all are there, now and then, whole and reachable."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from html import unescape
from html.parser import HTMLParser
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from tests.unit.projections.web.conftest import Story
from tests.unit.projections.web.views_of_story import EVERY, LISTS, THINGS
from tests.unit.test_docs import wrong

from topolog.projections.web.frame import MENU

HTML = {"Accept": "text/html"}
NOT_YET = frozenset({"schedules/nightly", "exchanges/6.0", "views/6.0"})
"""What came later than the quiet moment."""

VOID = frozenset({"meta", "link", "input", "br", "img", "hr"})


class Page(HTMLParser):
    """What a page holds. Raises AssertionError for tags that do not fit together."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append((tag, given))
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> ends nothing"
        assert self.open.pop() == tag, f"</{tag}> within {self.open}"

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())

    def all(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.tags if name == tag)


@cache
def asked(client: httpx.Client, view: str, **parameters: str | int) -> httpx.Response:
    """A page of the story, which stands still, so that it is asked for once."""
    given = {name: values[0] for name, values in parse_qs(urlsplit(view).query).items()} | parameters
    return client.get(f"/clusters/main/{urlsplit(view).path}", params=given, headers=HTML)


def page(client: httpx.Client, view: str, **parameters: str | int) -> Page:
    answer = asked(client, view, **parameters)
    assert answer.status_code == 200, (view, answer.status_code, Page(answer.text).words[:300])
    return Page(answer.text)


@pytest.mark.parametrize("view", EVERY)
def test_every_page_is_whole_and_needs_no_script(story: Story, view: str) -> None:
    """OP21: server-rendered; styles and scripts are files of this server, and nothing is inline."""
    client, _ = story
    shown = page(client, view)
    for tag, attributes in shown.tags:
        assert not {name for name in attributes if name.startswith("on") or name == "style"}, (tag, attributes)
        for name in ("src", "href"):
            given = attributes.get(name) or ""
            assert given.startswith(("/", "#", "data:")) or not given, (tag, given)
    scripts = list(shown.all("script"))
    assert {each.get("src") for each in scripts} == {"/assets/theme.js", "/assets/console.js"}
    assert sum(1 for _ in shown.all("h1")) == 1
    assert next(iter(shown.all("title"))) == {}


@pytest.mark.parametrize("view", EVERY)
def test_every_page_says_how_old_it_is_and_which_moment_it_shows(story: Story, view: str) -> None:
    """OP21: a staleness badge, always; the moment is a form without a script, and steps lead on."""
    client, _ = story
    shown = page(client, view)
    assert "up to date position" in shown.words
    (form,) = (each for each in shown.all("form") if each.get("class") == "moment")
    assert str(form["action"]).startswith("/clusters/main/")
    assert any(each.get("name") == "as_of" for each in shown.all("input"))
    assert any(each.get("rel") == "prev" for each in shown.all("a"))


@pytest.mark.parametrize("view", [view for view in EVERY if view != "help"])
def test_every_view_is_moved_by_the_moment_and_its_links_keep_it(story: Story, view: str) -> None:
    """OP21: one moment for all views; whoever follows a link stays in it."""
    client, told = story
    if view in NOT_YET:
        assert asked(client, view, as_of=told.quiet).status_code == 404, "it was not there then"
        return
    shown = page(client, view, as_of=told.quiet)
    assert f"the past position {told.quiet}" in shown.words
    own = [link for link in shown.links if link.startswith("/clusters/main/")]
    kept = [link for link in own if parse_qs(urlsplit(link).query).get("as_of") == [str(told.quiet)]]
    others = [link for link in own if link not in kept]
    steps = [each.get("href") for each in shown.all("a") if each.get("rel") in ("prev", "next")]
    moments = {link for link in others if "as_of=" in link or link in steps}
    now = f"/clusters/main/{urlsplit(view).path}"
    assert all(link in moments or link.startswith(now) for link in others), others
    assert len(kept) > 25


@pytest.mark.parametrize("part", [*range(8), None], ids=lambda part: "past" if part is None else str(part))
def test_every_link_of_every_page_leads_somewhere(story: Story, part: int | None) -> None:
    """Nothing that can be clicked ends in nothing; what is followed once is not followed again."""
    client, told = story
    found: dict[str, str] = {}
    views, moment = (("", "exchanges", "heat"), {"as_of": told.quiet}) if part is None else (EVERY[part::8], {})
    for view in views:
        for link in page(client, view, **moment).links:
            found.setdefault(re.sub(r"\d+", "0", link), link)
    for link in found.values():
        if not link.startswith(("#", "/v1/clusters/main/audit")):  # of which the story's server keeps none
            assert client.get(link, headers=HTML).status_code == 200, link


@pytest.mark.parametrize("view", EVERY)
def test_every_picture_has_its_text(story: Story, view: str) -> None:
    """OP21: a text equivalent of each picture; what has none is hidden from who cannot see it."""
    client, _ = story
    for each in page(client, view).all("svg"):
        assert each.get("aria-hidden") == "true" or (each.get("role") == "img" and each.get("aria-label")), each


def test_the_menu_has_every_list(story: Story) -> None:
    client, _ = story
    named = {place.view for _, places in MENU for place in places}
    assert {each.partition("/")[0] for each in (*LISTS, *THINGS)} <= named
    shown = page(client, "exchanges")
    assert [each["href"] for each in shown.all("a") if each.get("aria-current")] == ["/clusters/main/exchanges"]


def test_filters_are_those_of_the_api_and_stay_in_the_address(story: Story) -> None:
    """A form that works without a script; steps through time keep what was chosen."""
    client, _ = story
    shown = page(client, "partitions", group="orders", primary="n3")
    rows = re.findall(r"(orders|stock)/\d+", shown.words)
    assert set(rows) == {"orders"}
    steps = [each for each in shown.all("a") if each.get("rel") == "prev"]
    assert {"group=orders", "primary=n3"} <= set(urlsplit(str(steps[0]["href"])).query.split("&"))
    assert {"group", "state", "node", "primary"} <= {
        str(each.get("name")) for kind in ("input", "select") for each in shown.all(kind)
    }


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("nodes?standing=HERE", 400, "is none of"),
        ("nodes?nmae=n1", 400, "this view has no such filter"),
        ("decisions?as_of=yesterday", 400, "is no position"),
        ("decisions/99999", 404, "There is no decision"),
        ("decisions/x", 400, "is no position"),
        ("nothing", 404, "There is no view"),
        ("nodes/n9", 404, "There is no node"),
        ("heat?group=ordres", 404, "orders"),
        ("heat?group=orders&block=9", 404, "block 9"),
        ("exchanges/x", 400, "is no version"),
        ("requests/x", 404, "cli-4f2a/3"),
        ("partitions/x", 400, "orders/7"),
        ("decisions?behind=x", 400, "cursor"),
        ("leases?node=n9", 404, "n9"),
    ],
)
def test_what_goes_wrong_is_a_page_with_the_next_step(story: Story, path: str, status: int, words: str) -> None:
    """People get a page, programs the problem document they know."""
    client, _ = story
    answer = client.get(f"/clusters/main/{path}", headers=HTML)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    shown = Page(answer.text)
    assert words in shown.words
    assert "/clusters/main/" in shown.links
    problem = client.get(f"/clusters/main/{path}", headers={"Accept": "*/*"})
    assert (problem.status_code, problem.headers["content-type"]) == (status, "application/problem+json")


def test_another_cluster_is_not_here(story: Story) -> None:
    client, _ = story
    answer = client.get("/clusters/mian/", headers=HTML)
    assert answer.status_code == 404
    assert "Did you mean main?" in answer.text


def test_an_address_without_its_last_stroke_keeps_the_moment(story: Story) -> None:
    """A link to the past that led to the present would tell of another incident."""
    client, told = story
    for address in ("/clusters/main", "/"):
        answer = client.get(address, params={"as_of": told.quiet}, headers=HTML, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (307, f"/clusters/main/?as_of={told.quiet}")


@pytest.mark.parametrize(
    "address", ["/clusters/main/", "/v1/clusters/main/nodes", "/healthz", "/v1/clusters/nobody/nodes"]
)
def test_head_says_what_get_does_without_its_body(story: Story, address: str) -> None:
    """RFC 9110: whatever can be got has a head; uptime checks ask for no more."""
    client, _ = story
    got, head = client.get(address), client.head(address)
    assert (head.status_code, head.headers["content-type"]) == (got.status_code, got.headers["content-type"])
    assert (head.content, bool(got.content)) == (b"", True)


def test_the_head_of_a_watch_ends(story: Story) -> None:
    """What goes on for ever has a head all the same."""
    client, _ = story
    head = client.head("/v1/clusters/main/nodes", params={"watch": "true"})
    assert (head.status_code, head.content) == (200, b"")


def test_the_overview_has_the_worst_first_and_six_numbers_that_lead_on(story: Story) -> None:
    """OP20: what the eye must catch stands on top; each number leads to what it counts."""
    client, _ = story
    answer = client.get("/clusters/main/", headers=HTML)
    tones = re.findall(r'<li class="(bad|busy|ok)">', answer.text)
    assert tones == sorted(tones, key=["bad", "busy", "ok"].index)
    assert tones[0] == "bad"
    numbers = re.search(r'<ul class="numbers">.*?</ul>', answer.text, re.DOTALL)
    assert numbers is not None
    assert numbers[0].count("<li>") == 6 == numbers[0].count('href="/clusters/main/')


def test_a_swimlane_shows_who_kept_all_waiting(story: Story) -> None:
    """The longest bar is the culprit, and words say so."""
    client, _ = story
    shown = page(client, "exchanges/6.0")
    assert "The longest wait was for n5 : it answered after 940 ms" in shown.words
    lanes = {label.partition(":")[0] for each in shown.all("svg") if (label := str(each.get("aria-label") or ""))}
    assert lanes == {"what happened", "coordinator", "n2", "n5"}
    without = page(client, "exchanges/newest")
    assert re.search(r"After \d+ ms it was completed without n\d", without.words)
    assert "▲ not heard" in without.words
    assert "◐ slowest" not in without.words


def test_a_lease_strip_shows_the_gap_before_a_death_and_not_the_time_out(story: Story) -> None:
    client, told = story
    shown = page(client, "leases", node="n2", as_of=told.after_death)
    (strip,) = (
        str(each["aria-label"]) for each in shown.all("svg") if str(each.get("aria-label", "")).startswith("n2")
    )
    assert re.search(r"1 gap, the longest \d+ s; joined at 3; left: died at \d+", strip), strip
    back = page(client, "leases", node="n2")
    (strip,) = (str(each["aria-label"]) for each in back.all("svg") if str(each.get("aria-label", "")).startswith("n2"))
    assert "1 gap," in strip, "that it was no member is no gap"


def test_a_decision_leads_from_its_cause_to_what_followed(story: Story) -> None:
    client, _ = story
    proposed = page(client, "proposals", type="Customer")
    assert "accepted at" in proposed.words
    (rejected,) = re.findall(r"rejected (METADATA_CONFLICT)", page(client, "proposals").words.replace("▲ ", ""))
    assert rejected
    position = next(link for link in proposed.links if re.fullmatch(r"/clusters/main/decisions/\d+", link))
    shown = page(client, position.removeprefix("/clusters/main/"))
    assert "From cause to effect" in shown.words
    assert re.search(r"request → cli-1/\d+|because of → ", shown.words)


def offered(text: str) -> Iterator[list[str]]:
    """The commands of a page, word by word."""
    return (shlex.split(unescape(line)) for line in re.findall(r'data-copy="([^"]+)"', text))


@pytest.mark.parametrize(
    ("view", "command", "address"),
    [
        ("types?status=PENDING", "get types --filter status=PENDING", "types?status=PENDING"),
        ("nodes?name=n*&sort=-node", "get nodes --filter 'name=n*' --sort=-node", "nodes?name=n%2A&sort=-node"),
        ("sessions?state=SUCCEEDED&paused=false", "--state SUCCEEDED --filter paused=false", "state=SUCCEEDED&paused"),
        ("pending?kind=SESSION&sort=since", "get pending --filter kind=SESSION --sort=since", "kind=SESSION"),
        ("decisions?subject=type Customer", "--filter 'subject=type Customer'", "subject=type+Customer"),
        ("audit?result=DENIED", "get audit --filter result=DENIED", "audit?result=DENIED"),
        ("topics?is_read=true", "", "topics?is_read=true"),
        ("proposals", "get types", "types"),
        ("proposals?outcome=PENDING", "get types --filter status=PENDING", "types?status=PENDING"),
        ("proposals?type=Customer", "get types --filter name=Customer", "types?name=Customer"),
        (
            "proposals?outcome=ACCEPTED&type=Customer",
            "get decisions --filter event=MetadataUpdateAccepted --filter 'subject=type Customer'",
            "decisions?event=MetadataUpdateAccepted&subject=type+Customer",
        ),
        ("proposals?outcome=REJECTED&sort=time", "event=MetadataUpdateRejected", "event=MetadataUpdateRejected"),
    ],
)
def test_what_the_terminal_is_told_narrows_and_sorts_as_the_page_does(
    story: Story, view: str, command: str, address: str
) -> None:
    """A command that leaves a filter out shows more than the page it was copied from."""
    client, _ = story
    answer = asked(client, view)
    assert answer.status_code == 200
    *own, curl = offered(answer.text)
    assert (len(own) == 1) == bool(command)
    for line in own:
        assert wrong(shlex.join(line)) == ""
        assert command in shlex.join(line)
    assert address in curl[-1]
    assert client.get(curl[-1]).status_code == (404 if "audit" in view else 200)  # the story's server keeps no audit


@pytest.mark.parametrize("view", EVERY)
def test_no_page_shows_the_marks_of_a_terminal(story: Story, view: str) -> None:
    """A command in a sentence stands in backticks there, and is code here; nothing is shown as Python has it."""
    client, _ = story
    text = re.sub(r"<(code|pre|script)\b.*?</\1>", "", asked(client, view).text, flags=re.DOTALL)
    shown = unescape(re.sub(r"<[^>]+>", "", text))
    assert "`" not in shown
    assert "None" not in shown.split()


@pytest.mark.parametrize("view", EVERY)
def test_every_view_says_how_the_terminal_asks_for_the_same(story: Story, view: str) -> None:
    """OP21: copy as `topolog` or curl; each command can be given, each address answers."""
    client, told = story
    for answer in (asked(client, view), asked(client, view, as_of=told.quiet)):
        for command in offered(answer.text):
            if command[0] == "topolog":
                assert wrong(shlex.join(command)) == ""
            else:
                is_kept = "/audit" not in command[-1]  # the story's server keeps no audit
                assert client.get(command[-1]).status_code == (200 if is_kept else 404), command


@pytest.mark.parametrize(
    ("view", "noun"),
    [
        ("lease-health", "lease-health"),
        ("maps", "map"),
        ("baselines", "baseline"),
        ("views", "view"),
        ("trees", "tree"),
        ("differences", "difference"),
        ("repairs", "repair"),
        ("replicas", "replica"),
        ("schedules", "schedule"),
        ("dead-letters", "dead-letter"),
    ],
)
def test_a_page_says_why_as_the_api_does(story: Story, view: str, noun: str) -> None:
    """One explanation wherever it is asked for; and the terminal is told how to ask."""
    client, _ = story
    (first, *_) = client.get(f"/v1/clusters/main/{view}").json()["items"]
    name = next(str(first[field]) for field in ("name", "number", "version", "node", "id") if field in first)
    why = client.get(f"/v1/clusters/main/{view}/{name}/explain").json()["item"]["sentence"]
    answer = asked(client, f"{view}/{name}")
    assert " ".join(why.split()) in unescape(" ".join(re.sub(r"<[^>]+>", "", answer.text).split()))
    assert ["topolog", "explain", noun, name] in offered(answer.text)

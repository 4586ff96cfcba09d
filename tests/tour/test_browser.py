"""The console in a real browser: Debian's Chromium by Playwright. Skipped where there is none (`.ci/browser`)."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from tests.unit.projections.chronicle import Chronicle
from tests.unit.projections.serving import served
from tests.unit.projections.web.conftest import Story
from tests.unit.projections.web.views_of_story import EVERY

from topolog.projections.projector import Projector
from topolog.projections.requester import Requester

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WITHOUT_PAST = ("lease-health", "differences", "dead-letters", "projections", "topics", "audit", "help")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: .ci/browser installs one")

# The contrast of every text with what is behind it, by the colours that the browser has computed (WCAG 1.4.3).
CONTRAST = """
() => {
  const parse = (text) => [...text.match(/[\\d.]+/g).map(Number), 1];
  const channel = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour[3] > 0.99) return colour;
    }
    return [255, 255, 255, 1];
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *:not(svg *):not(option)")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest(".skip")) continue;
    const style = getComputedStyle(element);
    const [text, ground] = [luminance(parse(style.color)), luminance(behind(element))];
    const ratio = (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
    const size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    if (ratio < least) poor.push(`${element.textContent.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return poor;
}
"""
REACHABLE = """
() => [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, summary, [tabindex='0']")]
  .filter((each) => each.tabIndex >= 0 && each.checkVisibility() && !each.closest("dialog:not([open])")).length
"""
FOCUSED = """
() => {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  element.dataset.seen ??= String(Math.random());
  const style = getComputedStyle(element);
  const isOutlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
  return [element.dataset.seen, isOutlined, element.outerHTML];
}
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser, story: Story) -> Iterator[Page]:
    """A page at 1440 px whose addresses are those of the story."""
    client, _ = story
    context = browser.new_context(base_url=str(client.base_url), viewport={"width": 1440, "height": 900})
    page = context.new_page()
    yield page
    context.close()


def show(page: Page, view: str = "") -> None:
    """The view, dressed by its scripts."""
    page.goto(f"/clusters/main/{view}")
    page.locator(".moment input[type=range]").wait_for()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 400])
def test_every_page_in_light_and_dark_wide_and_narrow(browser: Browser, story: Story, theme: str, width: int) -> None:
    """No error in the console, nothing wider than the window, every text readable."""
    client, _ = story
    context = browser.new_context(
        base_url=str(client.base_url),
        color_scheme="dark" if theme == "dark" else "light",
        viewport={"width": width, "height": 900},
    )
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(f"{page.url}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"{page.url}: {error}"))
    for view in EVERY:
        show(page, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view
        assert page.evaluate(CONTRAST) == [], view
    assert said == []
    context.close()


@pytest.mark.parametrize("view", ["", "heat?group=orders", "leases", "partitions?group=orders", "exchanges/6.0"])
def test_the_keyboard_alone_reaches_all(page: Page, view: str) -> None:
    """Tab comes to everything that can be clicked, and what has the focus can be seen to have it."""
    show(page, view)
    page.evaluate("document.body.dataset.refresh = 0")
    expected = page.evaluate(REACHABLE)
    page.evaluate("document.body.focus()")
    seen = set()
    for _ in range(expected + 5):
        page.keyboard.press("Tab")
        found = page.evaluate(FOCUSED)
        if found is None:
            break
        name, is_outlined, html = found
        assert is_outlined, html[:200]
        seen.add(name)
    assert len(seen) == expected


def test_the_slider_moves_every_view(page: Page, story: Story) -> None:
    """OP21: the address, the badge and the page follow; the menu keeps the moment."""
    _, told = story
    for view in EVERY:
        if view.startswith(WITHOUT_PAST) or view in ("exchanges/6.0", "views/6.0", "schedules/nightly"):
            continue
        show(page, view)
        slide(page, told.quiet)
        page.locator(".stands", has_text=f"the past position {told.quiet}").wait_for()
        page.wait_for_url(f"**as_of={told.quiet}*")
        links = page.locator("nav a").evaluate_all("links => links.map((link) => link.href)")
        assert all(f"as_of={told.quiet}" in link for link in links), view


def slide(page: Page, position: int) -> None:
    page.locator(".moment input[type=range]").evaluate(
        "(range, to) => { range.value = to; for (const kind of ['input', 'change'])"
        " range.dispatchEvent(new Event(kind, {bubbles: true})); }",
        str(position),
    )


def test_the_slider_goes_by_keys_and_the_browser_goes_back(page: Page) -> None:
    show(page, "heat")
    before = int(page.locator("form.moment").get_attribute("data-at") or 0)
    page.locator(".moment input[type=range]").focus()
    page.keyboard.press("ArrowLeft")
    page.locator(".stands", has_text="the past").wait_for()
    assert page.evaluate("document.activeElement.type") == "range", "the focus stays on it"
    page.go_back()
    page.locator(".stands", has_text=f"up to date position {before}").wait_for()


def test_without_javascript_tables_moments_and_filters_work(browser: Browser, story: Story) -> None:
    """Every table is there; the moment is typed, or gone decision by decision; filters are a form."""
    client, told = story
    context = browser.new_context(base_url=str(client.base_url), java_script_enabled=False)
    page = context.new_page()
    for view in EVERY:
        page.goto(f"/clusters/main/{view}")
        assert page.locator("main h1").count() == 1, view
        assert page.locator("button.script:visible").count() == 0, "what needs a script is not offered"
    page.goto("/clusters/main/nodes")
    nodes = client.get("/v1/clusters/main/nodes").json()["items"]
    assert page.locator("main tbody tr").count() == len(nodes)
    page.locator("#as_of").fill(str(told.after_death))
    page.locator("form.moment button").click()
    page.locator("main tr", has_text="n2").get_by_text("left").wait_for()
    page.locator('a[rel="prev"]').click()
    assert "the past" in page.locator(".stands").inner_text()
    page.locator("main select[name=standing]").select_option("LEFT")
    page.locator(".filters button").click()
    assert "as_of=" in page.url
    assert "standing=LEFT" in page.url
    context.close()


def test_keys(page: Page) -> None:
    """What `?` lists."""
    show(page, "nodes")
    page.keyboard.press("?")
    page.locator("dialog[open]", has_text="the next line").wait_for()
    page.keyboard.press("Escape")
    page.locator("dialog:not([open])").wait_for(state="attached")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.closest('.filters') !== null")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert "n3" in page.locator("tr.at").inner_text()
    page.keyboard.press("k")
    assert "n1" in page.locator("tr.at").inner_text()
    page.keyboard.press("Enter")
    page.wait_for_url("**/nodes/n1")
    page.keyboard.press("g")
    page.keyboard.press("e")
    page.wait_for_url("**/exchanges")


def test_theme_and_times_are_chosen_and_remembered(page: Page) -> None:
    show(page, "decisions")
    shown = page.locator("main time").first
    utc = shown.inner_text()
    page.keyboard.press("z")
    page.keyboard.press("z")
    assert "ago" in shown.inner_text() or shown.inner_text() != utc
    page.keyboard.press("t")
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    show(page, "exchanges")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.locator('[data-does="zone"]').inner_text() == "ago"


def test_the_present_is_shown_in_place(browser: Browser, tmp_path: Path) -> None:
    """What happens is seen without a reload; what is typed stays, and what had the focus keeps it."""
    chronicle = Chronicle().start()
    chronicle.join("n1")
    projector = Projector(chronicle.log.reader(), tmp_path / "store", "main", wall_ms=lambda: chronicle.now_ms)
    with served(projector, Requester(chronicle.log.writer(), "api-1", "broker:9092")) as client:
        projector.step()
        page = browser.new_page(base_url=str(client.base_url))
        show(page, "nodes")
        page.evaluate("window.stayed = true")
        page.locator("main a", has_text="n1").first.focus()
        chronicle.join("n2")
        projector.step()
        page.locator("main tbody tr", has_text="n2").wait_for()
        assert page.evaluate("window.stayed")
        assert page.evaluate("document.activeElement.textContent") == "n1"
        page.close()
    projector.close()

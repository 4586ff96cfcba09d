// Shows the present, or another moment, without a reload: what is typed, focused or open stays as it is.
const every = () => Number(document.body.dataset.refresh) * 1000;
const parts = ["main", ".bar", ".moment", "nav", "footer"];
let dress = () => {};
let running = null;

function place(element) {
  if (!element || !document.querySelector("main")?.contains(element)) return null;
  const href = element.getAttribute("href");
  return href ? `main a[href="${CSS.escape(href)}"]` : element.id ? `#${CSS.escape(element.id)}` : null;
}

function isTyping() {
  const element = document.activeElement;
  return element?.matches?.("input:not([type=range]), select, textarea") ?? false;
}

async function swap(address, { all }) {
  running?.abort();
  running = new AbortController();
  const answer = await fetch(address, { cache: "no-store", signal: running.signal, headers: { Accept: "text/html" } });
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const focused = place(document.activeElement);
  const isMenuOpen = document.querySelector(".menu")?.open;
  const range = document.activeElement?.matches?.(".moment input[type=range]");
  const scrolled = [...document.querySelectorAll("main .scroll")].map((each) => each.scrollLeft);
  for (const selector of all ? parts : parts.filter((each) => each !== ".moment" && each !== "nav")) {
    const [shown, next] = [document.querySelector(selector), fresh.querySelector(selector)];
    if (shown && next) shown.replaceWith(next);
  }
  document.title = fresh.title;
  document.body.dataset.refresh = fresh.body.dataset.refresh ?? 0;
  document.body.classList.remove("lost");
  const menu = document.querySelector(".menu");
  if (menu && isMenuOpen !== undefined) menu.open = isMenuOpen;
  dress();
  [...document.querySelectorAll("main .scroll")].forEach((each, at) => (each.scrollLeft = scrolled[at] ?? 0));
  if (range) document.querySelector(".moment input[type=range]")?.focus();
  else if (focused) document.querySelector(focused)?.focus({ preventScroll: true });
}

async function tell(address, how) {
  try {
    await swap(address, how);
  } catch (error) {
    if (error.name !== "AbortError") document.body.classList.add("lost");
  } finally {
    document.body.classList.remove("loading");
  }
}

// To another moment of this view: the address follows, so that it can be sent to somebody else.
export async function go(address) {
  document.body.classList.add("loading");
  if (location.href !== new URL(address, location.href).href) history.pushState(null, "", address);
  await tell(address, { all: true });
}

export function begin(then) {
  dress = then;
  addEventListener("popstate", () => tell(location.href, { all: true }));
  let asked = Date.now();
  setInterval(() => {
    const isBusy = document.hidden || isTyping() || document.querySelector("dialog[open]") || document.body.dataset.dragging;
    if (every() > 0 && !isBusy && !String(getSelection()) && Date.now() - asked >= every()) {
      asked = Date.now();
      tell(location.href, { all: !document.activeElement?.closest?.(".moment") });
    }
  }, 500);
}

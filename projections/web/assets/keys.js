// Keys: what `?` lists. Nothing is done while something is typed, or with a modifier held.
import { copy } from "./pointing.js";
import { turnTheme, turnZone } from "./times.js";

const views = { o: "", h: "heat", e: "exchanges", l: "leases", b: "baselines", s: "sessions", d: "decisions", p: "proposals", n: "nodes" };
let waits = false;

// A view at the moment of this page, as the menu has it.
function go(view) {
  const path = document.body.dataset.home?.split("?")[0] + view;
  const link = [...document.querySelectorAll("nav a")].find((each) => new URL(each.href).pathname === path);
  if (link) link.click();
}

function walk(step) {
  const lines = [...document.querySelectorAll("main tbody tr, main .events li, main .problems li")];
  const at = lines.findIndex((line) => line.classList.contains("at"));
  const next = lines[at < 0 ? (step > 0 ? 0 : lines.length - 1) : Math.max(0, Math.min(lines.length - 1, at + step))];
  lines[at]?.classList.remove("at");
  next?.classList.add("at");
  (next?.querySelector("a") ?? next)?.focus?.({ preventScroll: true });
  next?.scrollIntoView({ block: "nearest" });
}

async function help() {
  const dialog = document.querySelector("#keys");
  if (!dialog || dialog.open) return dialog?.close();
  const link = document.querySelector('a[data-does="help"]');
  if (!link) return;
  const page = new DOMParser().parseFromString(await (await fetch(link.href)).text(), "text/html");
  dialog.replaceChildren(...page.querySelector("#key-list").childNodes);
  dialog.showModal();
}

const does = {
  "?": help,
  "/": () => (document.querySelector(".filters :is(input:not([type=hidden]), select)") ?? document.querySelector("#as_of"))?.focus(),
  j: () => walk(1),
  k: () => walk(-1),
  ArrowLeft: () => document.querySelector('.moment a[rel="prev"]')?.click(),
  ArrowRight: () => document.querySelector('.moment a[rel="next"]')?.click(),
  n: () => document.querySelector(".typed a")?.click(),
  t: turnTheme,
  z: turnZone,
  c: () => copy(document.querySelector("[data-copy]")),
};

export function listen() {
  document.addEventListener("click", (event) => {
    if (event.target.closest?.('a[data-does="help"]') && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      help();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.matches?.("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (waits) {
      waits = false;
      if (event.key in views) go(views[event.key]);
      return;
    }
    if (event.key === "g") {
      waits = true;
      setTimeout(() => (waits = false), 1500);
      return;
    }
    const action = does[event.key];
    if (!action || (event.key.startsWith("Arrow") && event.target.closest?.(".scroll"))) return;
    event.preventDefault();
    action();
  });
}

// Copying commands, lines that can be walked through, cells that arrows go along.
import { turnTheme, turnZone } from "./times.js";

export async function copy(button) {
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "copied";
  } catch {
    const range = document.createRange();
    range.selectNodeContents(button.previousElementSibling);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    button.textContent = "selected";
  }
  setTimeout(() => (button.textContent = "copy"), 1500);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("button");
  if (button?.dataset.copy) copy(button);
  if (button?.dataset.does === "theme") turnTheme();
  if (button?.dataset.does === "zone") turnZone();
});

// One stop for the whole field of cells; arrows go along it.
document.addEventListener("keydown", (event) => {
  const cell = event.target.closest?.("[data-arrows] a");
  const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
  if (!cell || step === undefined) return;
  const all = [...cell.closest("[data-arrows]").querySelectorAll("a")];
  const next = all[Math.max(0, Math.min(all.length - 1, all.indexOf(cell) + step))];
  event.preventDefault();
  event.stopPropagation();
  cell.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
});

export function dress() {
  const shown = [...document.querySelectorAll(".cells a")];
  if (shown.length && !shown.some((each) => each.tabIndex === 0)) shown[0].tabIndex = 0;
}

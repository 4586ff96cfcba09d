// The slider over positions: while it is dragged it says which moment that is, let go it moves the view there.
import { said } from "./times.js";

const form = () => document.querySelector("form.moment");

function timeAt(marks, position) {
  let found = null;
  for (const [at, time, event] of marks) {
    if (at > position) break;
    found = [at, time, event];
  }
  return found;
}

function tell(range) {
  const output = form()?.querySelector("output");
  if (!output) return;
  const found = timeAt(JSON.parse(form().dataset.marks), Number(range.value));
  const text = found ? [range.value, said(found[1]), found[2]].filter(Boolean).join(" · ") : range.value;
  output.textContent = text;
  range.setAttribute("aria-valuetext", text);
}

export function addressAt(position) {
  const shown = form();
  const address = new URL(shown.action);
  for (const field of shown.querySelectorAll("input[type=hidden]")) address.searchParams.set(field.name, field.value);
  if (Number(position) < Number(shown.dataset.newest)) address.searchParams.set("as_of", position);
  return address.href;
}

export function dress() {
  const shown = form();
  if (!shown || shown.querySelector("input[type=range]")) return;
  const range = document.createElement("input");
  Object.assign(range, { type: "range", min: shown.dataset.first, max: shown.dataset.newest, step: 1 });
  range.value = shown.dataset.at;
  range.setAttribute("aria-label", "The moment that is shown, by position");
  shown.querySelector(".marks").after(range);
  tell(range);
}

export function listen(go) {
  document.addEventListener("input", (event) => {
    if (!event.target.matches?.(".moment input[type=range]")) return;
    document.body.dataset.dragging = "1";
    tell(event.target);
  });
  document.addEventListener("change", (event) => {
    if (!event.target.matches?.(".moment input[type=range]")) return;
    delete document.body.dataset.dragging;
    go(addressAt(event.target.value));
  });
}

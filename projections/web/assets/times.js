// Times in UTC, as the server wrote them, in local time, or how long ago; and the theme. Both are remembered.
const zones = ["UTC", "local", "ago"];
const themes = ["", "light", "dark"];

function kept(name) {
  try {
    return localStorage.getItem(name) ?? "";
  } catch {
    return "";
  }
}

function keep(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // It holds for this page then.
  }
}

function ago(time) {
  const seconds = Math.max(0, Math.round((Date.now() - time) / 1000));
  for (const [length, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= length) return `${Math.floor(seconds / length)} ${unit} ago`;
  }
  return `${seconds} s ago`;
}

function two(number) {
  return String(number).padStart(2, "0");
}

function local(time) {
  const day = `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
  return `${day} ${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
}

export function said(iso) {
  const zone = kept("topolog-zone") || "UTC";
  if (zone === "local") return local(new Date(iso));
  if (zone === "ago") return ago(new Date(iso));
  return iso.slice(0, 19).replace("T", " ");
}

export function dress() {
  const zone = kept("topolog-zone") || "UTC";
  for (const element of document.querySelectorAll("time[datetime]")) element.textContent = said(element.dateTime);
  for (const element of document.querySelectorAll(".zone")) element.textContent = zone === "ago" ? "" : zone;
  const button = document.querySelector('[data-does="zone"]');
  if (button) button.textContent = zone;
  const theme = document.querySelector('[data-does="theme"]');
  if (theme) theme.textContent = kept("topolog-theme") || "system";
}

export function turnZone() {
  keep("topolog-zone", zones[(zones.indexOf(kept("topolog-zone") || "UTC") + 1) % zones.length]);
  dress();
}

export function turnTheme() {
  const next = themes[(themes.indexOf(kept("topolog-theme")) + 1) % themes.length];
  keep("topolog-theme", next);
  if (next) document.documentElement.dataset.theme = next;
  else delete document.documentElement.dataset.theme;
  dress();
}

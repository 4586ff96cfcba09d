// Before anything is drawn: the theme that was chosen, and that there is a script.
document.documentElement.classList.add("js");
try {
  const chosen = localStorage.getItem("topolog-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch {
  // No storage: the system decides.
}

// Shows the present without a reload, so that what is being typed stays. Without scripts the page reloads itself.
const every = Number(document.body.dataset.refresh) * 1000;

async function refresh() {
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const selector of ["main", ".stands", "footer"]) {
      const [shown, next] = [document.querySelector(selector), fresh.querySelector(selector)];
      if (shown && next) shown.replaceWith(next);
    }
    document.title = fresh.title;
    document.body.classList.remove("lost");
  } catch {
    document.body.classList.add("lost");
  }
}

if (every > 0) setInterval(() => document.hidden || refresh(), every);

// What pages can do beyond what the server has made: each part works on the page as it is, and again after a refresh.
import * as keys from "./keys.js";
import * as pointing from "./pointing.js";
import * as refresh from "./refresh.js";
import * as slider from "./slider.js";
import * as times from "./times.js";

const parts = [times, slider, pointing];

function dress() {
  for (const part of parts) part.dress();
}

dress();
keys.listen();
refresh.begin(dress);
slider.listen(refresh.go);

if (matchMedia("(max-width: 60rem)").matches) document.querySelector(".menu")?.removeAttribute("open");

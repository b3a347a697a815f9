// The first script, and the smallest: it brings the others. Where one of them does not come, or a style sheet (the network
// changed, the server is being restarted), the page is loaded again once it answers, instead of staying white. It does
// itself what core/reload.js does for the others, for that may be what did not come.

const AGAIN_MS = 2_000;

function loadAgain() {
  const again = () => fetch("healthz", { cache: "no-store" }).then((answer) => answer.ok && location.reload(), () => undefined);
  setInterval(again, AGAIN_MS);
}

import("./app.js").catch((error) => {
  const told = document.createElement("p");
  told.className = "waits";
  told.textContent = "…";
  document.getElementById("app")?.replaceChildren(told);
  loadAgain();
  if (!(error instanceof TypeError)) throw error; // a module that did not come is a TypeError; else it is ours
});

/** @param {HTMLLinkElement} link */
function hasCome(link) {
  try {
    return Boolean(link.sheet?.cssRules.length);
  } catch {
    return false; // so Chromium tells of one that did not
  }
}

addEventListener("load", () => {
  const sheets = /** @type {NodeListOf<HTMLLinkElement>} */ (document.querySelectorAll("link[rel=stylesheet]"));
  if (![...sheets].every(hasCome)) loadAgain();
});

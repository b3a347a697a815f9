// Loads the page anew once the console answers. A module that did not come (the network changed, the console is being
// started anew) is never asked for again by the browser, so nothing less brings it; and who loads while nobody answers
// is left with the browser's own page, which never comes back by itself.

const AGAIN_MS = 2_000;

/** @param {"healthz" | "readyz"} [asked] what answers well: the console, or the master behind it too */
export function reloadOnceThere(asked = "healthz") {
  setTimeout(async () => {
    const isThere = await fetch(asked, { cache: "no-store" }).then((answer) => answer.ok, () => false);
    if (isThere) location.reload();
    else reloadOnceThere(asked);
  }, AGAIN_MS);
}

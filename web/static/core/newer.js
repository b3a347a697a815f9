// Whether the console was started anew with other files than this page was made of. Then the next page that somebody goes to
// is loaded whole: modules of two versions do not fit together, and nobody is interrupted while typing.

import { live } from "./context.js";

const VERSION = /static\/(v-[0-9a-f]{16})\//;
let isOld = false;

export function isOutdated() {
  return isOld;
}

/** Looks after each break of the connection, for only then can it be another. */
export function watchForNewer() {
  const ours = VERSION.exec(document.querySelector("script")?.getAttribute("src") ?? "")?.[1];
  let wasLost = false;
  live.state.watch((state) => {
    if (state === "lost") wasLost = true;
    if (state !== "live" || !wasLost) return;
    wasLost = false;
    fetch("./", { cache: "no-cache" })
      .then((answer) => answer.text())
      .then((page) => {
        const theirs = VERSION.exec(page)?.[1];
        isOld = Boolean(ours && theirs && theirs !== ours);
      }, () => undefined); // it is looked for again after the next break
  });
}

// What stands where something has not come yet. `aria-busy` tells it to who has the page read aloud, and to tests;
// keys that only what comes will have wait for it.

import { html, useLayoutEffect } from "../core/html.js";
import { t } from "../core/i18n.js";
import { awaitPart } from "../core/keys.js";

/** @param {{isWithin?: boolean}} props `isWithin` another part, which has room around it already */
export function Waits({ isWithin }) {
  useLayoutEffect(awaitPart, []);
  return html`<div class=${isWithin ? "dim" : "waits"} role="status" aria-busy="true">${t("loading")}</div>`;
}

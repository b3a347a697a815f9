// What stands where something has not come yet. `aria-busy` tells it to who has the page read aloud, and to tests.

import { html } from "../core/html.js";
import { t } from "../core/i18n.js";

/** @param {{isWithin?: boolean}} props `isWithin` another part, which has room around it already */
export function Waits({ isWithin }) {
  return html`<div class=${isWithin ? "dim" : "waits"} role="status" aria-busy="true">${t("loading")}</div>`;
}

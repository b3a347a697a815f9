// Short words at the edge: what was done, and what was refused with its cure. Refusals stay until they are put away.

import { Signal, useSignal } from "../core/signal.js";
import { html } from "../core/html.js";
import { inWords, saidOfFailure, t } from "../core/i18n.js";
import { asFailure } from "../core/failure.js";
import { Icon } from "./icons.js";
import { Said } from "./said.js";

/** @typedef {{id: number, text: string, isBad: boolean}} Toast */

const STAYS_MS = 5_000;
const MOST = 5;
/** @type {Signal<Toast[]>} */
const toasts = new Signal(/** @type {Toast[]} */ ([]));
let last = 0;

/** @param {string} text */
export function tell(text) {
  const id = add(text, false);
  setTimeout(() => putAway(id), STAYS_MS);
}

/** @param {unknown} error */
export function complain(error) {
  inWords(asFailure(error)).then((failure) => add(saidOfFailure(failure), true));
}

/**
 * @param {string} text
 * @param {boolean} isBad
 */
function add(text, isBad) {
  last += 1;
  toasts.set([...toasts.value.filter((one) => one.text !== text), { id: last, text, isBad }].slice(-MOST));
  return last;
}

/** @param {number} id */
function putAway(id) {
  toasts.set(toasts.value.filter((one) => one.id !== id));
}

export function Toasts() {
  const all = useSignal(toasts);
  return html`<div class="toasts" role="status" aria-live="polite">
    ${all.map(
      (one) => html`<div key=${one.id} class=${one.isBad ? "toast is-bad" : "toast"}>
        ${one.isBad ? html`<${Icon} name="warn" />` : null}<p><${Said} text=${one.text} /></p>
        <button class="quiet" aria-label=${t("close")} onClick=${() => putAway(one.id)}><${Icon} name="close" /></button>
      </div>`,
    )}
  </div>`;
}

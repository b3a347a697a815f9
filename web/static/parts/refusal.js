// What was refused, and its cure, in the place of what was asked for.

import { asFailure } from "../core/failure.js";
import { html } from "../core/html.js";
import { saidOfFailure, t } from "../core/i18n.js";
import { Icon } from "./icons.js";
import { Said } from "./said.js";

/** @param {{fault: unknown, again?: () => void}} props */
export function Refusal({ fault, again }) {
  return html`<div class="refused" role="alert"><p class="refusal"><${Icon} name="warn" /><span><${Said} text=${saidOfFailure(asFailure(fault))} /></span></p>
    ${again ? html`<button type="button" onClick=${again}>${t("files.again")}</button>` : null}</div>`;
}

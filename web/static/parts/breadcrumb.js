// Where a file lies: each folder above it, to go to.

import { harmless } from "../core/harmless.js";
import { html } from "../core/html.js";
import { t } from "../core/i18n.js";
import { lineage, pageOf } from "../core/paths.js";

/** @param {{path: string}} props */
export function Breadcrumb({ path }) {
  const steps = lineage(path);
  return html`<nav class="breadcrumb" aria-label=${t("files.where")}>
    <ol>
      <li>${steps.length ? html`<a href="files">${t("page.files")}</a>` : html`<h1>${t("page.files")}</h1>`}</li>
      ${steps.map((step, at) => html`<li key=${step.path}>
        ${at === steps.length - 1 ? html`<h1 title=${harmless(step.name)}>${harmless(step.name)}</h1>` : html`<a href=${pageOf(step.path)} title=${harmless(step.name)}>${harmless(step.name)}</a>`}
      </li>`)}
    </ol>
  </nav>`;
}

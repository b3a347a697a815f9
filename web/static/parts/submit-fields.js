// What of the form for a submit makes many tasks of one command: many lines, and a sweep.

import { harmless } from "../core/harmless.js";
import { html } from "../core/html.js";
import { t } from "../core/i18n.js";
import { commandsOf, filled, isBatch, isSweep, pointCount, points, sweepOf } from "../core/submit-spec.js";
import { Field } from "./wish-fields.js";

/** @typedef {import("../core/submit-spec.js").Draft} Draft */

const SWEEP_EXAMPLE = "lr = 0.1, 0.01\nbatch = 32, 64";
/** So many rows of a table are shown of what is to be submitted. */
const MOST_ROWS = 8;

/**
 * The sweep builder: a name and its values a line, and beneath it what the first tasks would be.
 * @param {{draft: Draft}} props
 */
export function Sweep({ draft }) {
  const { values, faults } = sweepOf(draft);
  const names = Object.keys(values);
  const unused = names.filter((name) => !draft.command?.includes(`{${name}}`));
  return html`<details class="sweep" open=${isSweep(draft)}><summary>${t("sweep.title")}</summary>
    <label class="labelled">${t("sweep.values")}<textarea name="sweep" rows="3" class="mono" spellcheck=${false} placeholder=${SWEEP_EXAMPLE} value=${draft.sweep ?? ""}></textarea></label>
    ${faults.map((line) => html`<p key=${line} class="field-fault">${t("sweep.fault", { line: harmless(line) })}</p>`)}
    ${unused.map((name) => html`<p key=${name} class="warned">${t("sweep.unused", { name: `{${name}}` })}</p>`)}
    <div class="fields">${["cap", "max_fails"].map((name) => html`<${Field} key=${name} name=${name} value=${draft[name] ?? ""} fault=${null} />`)}</div>
    ${names.length
      ? html`<div class="scrolls" tabindex="0"><table class="plain"><thead><tr>${names.map((name) => html`<th key=${name} scope="col" class="mono">${name}</th>`)}<th scope="col">${t("submit.command")}</th></tr></thead>
          <tbody>${points(values, MOST_ROWS).map((point, at) => html`<tr key=${at}>${names.map((name) => html`<td key=${name} class="mono">${harmless(point[name])}</td>`)}<td><code>${harmless(filled(draft.command ?? "", point))}</code></td></tr>`)}</tbody></table></div>
        ${pointCount(values) > MOST_ROWS ? html`<small>${t("dialog.more", { count: pointCount(values) - MOST_ROWS })}</small>` : null}`
      : null}
  </details>`;
}

/**
 * What each line would be, where each is a task of its own.
 * @param {{draft: Draft}} props
 */
export function Batch({ draft }) {
  if (!isBatch(draft) || isSweep(draft)) return null;
  const commands = commandsOf(draft);
  return html`<div class="batch">
    <div class="scrolls" tabindex="0"><table class="plain"><thead><tr><th scope="col" class="number">${t("submit.no")}</th><th scope="col">${t("submit.command")}</th></tr></thead>
      <tbody>${commands.slice(0, MOST_ROWS).map((command, at) => html`<tr key=${at}><td class="number">${at + 1}</td><td><code>${harmless(command)}</code></td></tr>`)}</tbody></table></div>
    ${commands.length > MOST_ROWS ? html`<small>${t("dialog.more", { count: commands.length - MOST_ROWS })}</small>` : null}
  </div>`;
}

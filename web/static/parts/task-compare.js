// A task beside another one, or one of its attempts beside another: in what they differ, and nothing else.

import { useAsked } from "../core/asked.js";
import { wholeTasks } from "../core/cluster.js";
import { alike, attemptsDiffer, BECAME } from "../core/comparison.js";
import { commandLine, memory, ranges, span, titleOf, wholeMoment } from "../core/format.js";
import { harmless } from "../core/harmless.js";
import { classes, html, useMemo } from "../core/html.js";
import { said, t } from "../core/i18n.js";
import { setQuery, usePlace } from "../core/route.js";
import { differingLines, pieces } from "../core/text-diff.js";
import { Command } from "./command.js";
import { Diff } from "./diff.js";
import { Refusal } from "./refusal.js";
import { State } from "./state.js";
import { copied } from "./task-details.js";
import { Waits } from "./waits.js";

/**
 * @typedef {import("../core/cluster.js").Task} Task
 * @typedef {import("@muster/wire").Difference} Difference
 * @typedef {import("@muster/wire").Attempt} Attempt
 * @typedef {{head: any, reason: string}} Side what stands above a column, and why that one ended, in the reader's language
 */

/** @param {{task: Task, page: any}} props */
export function Compare({ task, page }) {
  const { query } = usePlace();
  const attempts = /** @type {Attempt[]} */ (page?.attempts ?? []);
  const [here, there] = (query.get("attempts") ?? "").split(",").map((no) => attempts.find((one) => one.no === Number(no)));
  const other = Number(query.get("with")) || null;
  return html`<div class="compare stack">
    <${With} task=${task} attempts=${attempts} other=${other} />
    ${here && there ? html`<${Attempts} here=${here} there=${there} />` : html`<${Tasks} key=${other} task=${task} other=${other} />`}
  </div>`;
}

/** Of those alike, so many are looked at, the newest. */
const AMONG = 500;

/**
 * What it is compared with.
 * @param {{task: Task, attempts: Attempt[], other: number | null}} props
 */
function With({ task, attempts, other }) {
  const { query } = usePlace();
  const whose = task.array ? { array: task.array.id } : { user: task.owner };
  const told = useAsked("task.list", { ...whose, ended: true, sparse: true, sort: "id", reverse: true, limit: AMONG });
  const likes = useMemo(() => (told.answer ? alike(task, wholeTasks(told.answer)) : []), [told.answer]);
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const number = new FormData(/** @type {HTMLFormElement} */ (event.currentTarget)).get("with");
    setQuery({ with: String(number), attempts: null });
  };
  return html`<form class="tools" onSubmit=${submit}>
    <label class="inline">${t("compare.with")}<input key=${other} name="with" type="number" min="1" required value=${other ?? ""} /></label>
    <button class="primary">${t("compare.do")}</button>
    ${likes.map((one) => html`<button type="button" key=${one.id} class=${classes("chip", one.id === other && "is-on")} aria-pressed=${one.id === other} title=${titleOf(one)} onClick=${() => setQuery({ with: one.id, attempts: null })}>${one.id} · ${t(`state.${one.state}`)}</button>`)}
    ${attempts.length > 1 ? html`<${AttemptChoice} attempts=${attempts} chosen=${query.get("attempts")} />` : null}
  </form>`;
}

/** @param {{attempts: Attempt[], chosen: string | null}} props */
function AttemptChoice({ attempts, chosen }) {
  const last = attempts.length - 1;
  const pair = chosen?.split(",").map(Number) ?? [attempts[last - 1].no, attempts[last].no];
  const change = (/** @type {number} */ at, /** @type {any} */ event) => setQuery({ attempts: pair.map((no, place) => (place === at ? Number(event.target.value) : no)).join(","), with: null });
  return html`<span class="inline"><button type="button" class=${classes("chip", chosen !== null && "is-on")} aria-pressed=${chosen !== null} onClick=${() => setQuery({ attempts: pair.join(","), with: null })}>${t("details.attempts")}</button>
    ${chosen === null ? null : pair.map((no, at) => html`<select key=${at} aria-label=${t("column.attempt")} value=${no} onChange=${(/** @type {any} */ event) => change(at, event)}>
      ${attempts.map((one) => html`<option key=${one.no} value=${one.no}>${one.no}</option>`)}</select>`)}</span>`;
}

/** @param {{task: Task, other: number | null}} props */
function Tasks({ task, other }) {
  const isAsked = other !== null || Boolean(task.array);
  const told = useAsked("task.diff", other === null ? { id: task.id } : { id: task.id, other }, isAsked);
  const there = useAsked("task.show", { id: told.answer?.other }, Boolean(told.answer));
  if (!isAsked) return html`<div class="empty">${t("compare.choose")}</div>`;
  const fault = told.fault ?? there.fault;
  if (fault) return html`<${Refusal} fault=${fault} again=${told.fault ? told.again : there.again} />`;
  if (!told.answer || !there.answer) return html`<${Waits} />`;
  const { fields, hidden } = /** @type {import("@muster/wire").Differing} */ (told.answer);
  return html`<${Differences} fields=${fields} here=${sideOf(task)} there=${sideOf(there.answer)} />
    ${hidden.length ? html`<p class="dim">${t("compare.hidden", { names: hidden.map((name) => t(`compare.hidden.${name}`)).join(", ") })}</p>` : null}
    <${Command} text=${`muster diff ${task.id} ${told.answer.other}`} />`;
}

/** @param {Task} task @returns {Side} */
function sideOf(task) {
  return {
    head: html`<a href=${`tasks/${task.id}`}>${task.id}</a> <span class="compare-title">${titleOf(task)}</span> <${State} state=${task.state} />`,
    reason: said(task.reason_key, task.reason_args, task.reason),
  };
}

/** @param {{here: Attempt, there: Attempt}} props */
function Attempts({ here, there }) {
  const side = (/** @type {Attempt} */ one) => ({ head: t("compare.attempt", { no: one.no }), reason: said(one.reason_key, one.reason_args, one.reason) });
  return html`<${Differences} fields=${attemptsDiffer(here, there)} here=${side(here)} there=${side(there)} />`;
}

/** @param {{fields: Difference[], here: Side, there: Side}} props */
function Differences({ fields, here, there }) {
  if (!fields.length) return html`<div class="empty">${t("compare.same")}</div>`;
  const became = fields.filter(({ field }) => BECAME.has(field));
  const asked = fields.filter(({ field }) => !BECAME.has(field));
  const groups = [{ title: t("details.asked"), some: asked }, { title: t("compare.became"), some: became }].filter(({ some }) => some.length);
  return html`<div class="scrolls" tabindex="0"><table class="plain compare-table">
    <thead><tr><td></td><th scope="col">${here.head}</th><th scope="col">${there.head}</th></tr></thead>
    ${groups.map(({ title, some }) => html`<tbody key=${title}>
      <tr><th scope="rowgroup" colspan="3" class="compare-group">${title}</th></tr>
      ${some.map((one) => html`<${Row} key=${one.field} difference=${one} here=${here} there=${there} />`)}
    </tbody>`)}
  </table></div>`;
}

/** @param {{difference: Difference, here: Side, there: Side}} props */
function Row({ difference, here, there }) {
  const { field, here: a, there: b } = difference;
  if (isText(a) && isText(b) && /\n/.test(`${a}${b}`.trim())) {
    return html`<tr><th scope="row">${labelOf(field)}</th><td colspan="2"><${Diff} lines=${differingLines(a, b)} /></td></tr>`;
  }
  const isLine = field === "command" && Array.isArray(a) && Array.isArray(b);
  return html`<tr><th scope="row">${labelOf(field)}</th>
    <td>${isLine ? marked(a, b, "here") : shown(field, a, here)}</td>
    <td>${isLine ? marked(a, b, "there") : shown(field, b, there)}</td></tr>`;
}

/** @param {unknown} value @returns {value is string} */
function isText(value) {
  return typeof value === "string";
}

/**
 * A command, with the words marked that the other has not.
 * @param {string[]} a
 * @param {string[]} b
 * @param {"here" | "there"} side
 */
function marked(a, b, side) {
  const words = pieces(a, b).filter(({ kind }) => kind === "both" || kind === side);
  return html`<code>${words.map(({ kind, text }, at) => html`${at ? " " : ""}${kind === "both" ? commandLine([text]) : html`<mark>${commandLine([text])}</mark>`}`)}</code>`;
}

/**
 * `variables.NAME` is told by its name.
 * @param {string} field
 */
function labelOf(field) {
  const [name, ...rest] = field.split(".");
  return rest.length ? html`${t(`field.${name}`)} <code>${harmless(rest.join("."))}</code>` : t(`field.${name}`);
}

/** @param {string} field @param {any} value @param {Side} side */
function shown(field, value, side) {
  if (value === null || value === "" || (typeof value === "object" && Object.keys(value).length === 0)) return html`<span class="dim">–</span>`;
  if (field === "command") return html`<code>${commandLine(value)}</code>`;
  if (field === "snapshot") return copied(value);
  if (field === "reason") return side.reason;
  if (field === "state") return html`<${State} state=${value} />`;
  if (field === "where") return html`<span class="mono">${value.map(placed).join(" ")}</span>`;
  if (field === "after") return value.map((/** @type {any} */ one) => html`<a key=${one.id} href=${`tasks/${one.id}`}>${one.id}${one.array ? "/" : ""}:${one.on}</a> `);
  if (field === "signal") return `${harmless(value.name)} · ${span(value.before_s)}`;
  if (field === "begin_at") return wholeMoment(value);
  if (field.endsWith("_s")) return span(value);
  if (field.endsWith("_mib")) return memory(value);
  if (typeof value === "boolean") return value ? t("compare.yes") : t("compare.no");
  if (/^(last_line|variables\.)/.test(field)) return html`<code>${harmless(value)}</code>`;
  return harmless(listed(value));
}

/** @param {{node: string, gpus: number[]}} part */
function placed({ node, gpus }) {
  return harmless(node) + (gpus.length ? `:${ranges(gpus)}` : "");
}

/** @param {any} value @returns {string} */
function listed(value) {
  if (Array.isArray(value)) return value.join(", ");
  return typeof value === "object" ? Object.entries(value).map(([name, one]) => `${name}: ${listed(one)}`).join(", ") : String(value);
}

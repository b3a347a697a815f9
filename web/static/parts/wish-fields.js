// The fields in which all is written that a task may ask for, beside its command: of a submit, and of an edit.

import { live } from "../core/context.js";
import { asFailure } from "../core/failure.js";
import { harmless } from "../core/harmless.js";
import { html, useEffect, useRef, useState } from "../core/html.js";
import { saidOfFailure, t } from "../core/i18n.js";
import { variablesIn } from "../core/wish.js";
import { Said } from "./said.js";

/** @typedef {import("../core/wish.js").Draft} Draft */

const FIRST = ["gpus", "name", "cwd"];
const MORE = [
  "gpu_memory_mib", "gpu_models", "gpu_ids", "min_free_util", "cpus", "memory_mib", "tmp_disk_mib", "licences", "nodes", "node", "exclude", "gpus_on", "within",
  "after", "begin_at", "priority", "time_limit_s", "signal", "max_retries", "retry_on", "project", "setup",
];
/** Yes or no. */
const SWITCHES = ["share", "urgent", "requeue", "token"];
const HINTS = /** @type {Record<string, string>} */ ({
  gpus: "0, 2, 2-4", time_limit_s: "2h, 1-12:00", after: "12, 13:any", gpu_models: "A100,H100", checkpoint: "out/*.pt", gpu_ids: "0,1", min_free_util: "50",
  licences: "matlab, ansys:2", node: "gpu1, gpu2", exclude: "gpu3", gpus_on: "gpu1=0,1; gpu2=2,3", begin_at: "22:00, now+2h", signal: "USR1@120", retry_on: "fail,oom,lost",
});

/**
 * All that a task may ask for, beside its command: what most do, and behind it the rest.
 * @param {object} props
 * @param {Draft} props.draft
 * @param {(name: string, text: string) => void} props.change
 * @param {(name: string) => string | null} props.faultOf
 * @param {boolean} [props.hidesVariables] their values are not told
 */
export function WishFields({ draft, change, faultOf, hidesVariables = false }) {
  const envs = useEnvironments();
  const field = (/** @type {string} */ name) => html`<${Field} key=${name} name=${name} value=${draft[name] ?? ""} fault=${faultOf(name)} />`;
  const isOpen = useRef(false);
  isOpen.current ||= [...MORE, ...SWITCHES, "elastic", "checkpoint"].some((name) => draft[name]) || variablesIn(draft.variables).length > 0;
  return html`<div class="fields"><${Environment} value=${draft.env ?? ""} names=${envs.names} fault=${faultOf("env") ?? envs.fault} />${FIRST.map(field)}</div>
    <details open=${isOpen.current}><summary>${t("submit.more")}</summary><div class="fields">${MORE.map(field)}${field("log")}</div><div class="switches">${SWITCHES.map((name) => html`<${Switch} key=${name} name=${name} draft=${draft} />`)}</div><${Elastic} draft=${draft} faultOf=${faultOf} />${hidesVariables ? null : html`<${Variables} text=${draft.variables} change=${change} />`}</details>`;
}

/**
 * Some of that, as most of it is not to be changed.
 * @param {{names: string[], draft: Draft, faultOf: (name: string) => string | null}} props
 */
export function SomeFields({ names, draft, faultOf }) {
  return html`<div class="fields">${[...FIRST, ...MORE].filter((name) => names.includes(name)).map((name) => html`<${Field} key=${name} name=${name} value=${draft[name] ?? ""} fault=${faultOf(name)} />`)}</div>
    ${SWITCHES.filter((name) => names.includes(name)).map((name) => html`<${Switch} key=${name} name=${name} draft=${draft} />`)}`;
}

/** The environments that there are, or why they cannot be told: then one writes it by its path. */
function useEnvironments() {
  const [told, setTold] = useState({ names: /** @type {string[]} */ ([]), fault: /** @type {string | null} */ (null) });
  useEffect(() => {
    live.call("env.list").then(
      (answer) => setTold({ names: answer.envs.map((/** @type {any} */ env) => env.name), fault: null }),
      (error) => setTold({ names: [], fault: saidOfFailure(asFailure(error)) }),
    );
  }, []);
  return told;
}

/**
 * What a field that was written in says: its name and its text.
 * @param {any} event
 * @returns {[string, string]}
 */
export function written({ target: { name, type, checked, value } }) {
  return [name, type === "checkbox" ? (checked ? "on" : "") : value];
}

/**
 * Ctrl and Enter send a form from wherever one writes in it.
 * @param {KeyboardEvent} event
 */
export function sendsAtOnce(event) {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  /** @type {HTMLFormElement} */ (event.currentTarget).requestSubmit();
}

/** @param {{name: string, draft: Draft}} props */
function Switch({ name, draft }) {
  return html`<label class="switch"><input type="checkbox" name=${name} checked=${draft[name] === "on"} />${t(`submit.${name}`)}</label>`;
}

/**
 * A row a variable, and one that is empty for the next.
 * @param {{text: string | undefined, change: (name: string, text: string) => void}} props
 */
function Variables({ text, change }) {
  const pairs = variablesIn(text);
  const set = (/** @type {number} */ at, /** @type {[string, string]} */ pair) => {
    const next = [...pairs.slice(0, at), pair, ...pairs.slice(at + 1)];
    while (next.length && !next[next.length - 1].some(Boolean)) next.pop();
    change("variables", JSON.stringify(next));
  };
  return html`<fieldset class="variables"><legend>${t("submit.variables")}</legend>
    ${[...pairs, ["", ""]].map(([name, value], at) => html`<div key=${at} class="variable" onInput=${(/** @type {Event} */ event) => event.stopPropagation()}>
      <input class="mono" name=${`variable-${at}`} aria-label=${t("submit.variable-name")} value=${name} autocomplete="off" spellcheck=${false} onInput=${(/** @type {any} */ event) => set(at, [event.target.value, value])} />
      <span aria-hidden="true">=</span>
      <textarea class="mono" name=${`variable-${at}-value`} rows="1" aria-label=${t("submit.variable-value", { name })} value=${value} spellcheck=${false} onInput=${(/** @type {any} */ event) => set(at, [name, event.target.value])}></textarea>
    </div>`)}
  </fieldset>`;
}

/** @param {{name: string, value: string, fault: string | null}} props */
export function Field({ name, value, fault }) {
  return html`<label class="labelled">${t(`field.${name}`)}
    <input name=${name} value=${value} placeholder=${HINTS[name] ?? ""} autocomplete="off" spellcheck=${false} aria-invalid=${Boolean(fault)} />
    ${fault ? html`<span class="field-fault"><${Said} text=${fault} /></span>` : null}
  </label>`;
}

/**
 * Which environment: one of those that there are, none, or one elsewhere, by its path, which begins with a slash.
 * @param {{value: string, names: string[], fault: string | null}} props
 */
function Environment({ value, names, fault }) {
  const path = useRef(/** @type {HTMLInputElement | null} */ (null));
  const isPath = value.startsWith("/");
  useEffect(() => {
    if (value === "/") path.current?.focus();
  }, [isPath]);
  const known = value && !names.includes(value) ? [value, ...names] : names;
  return html`<label class="labelled">${t("field.env")}
    ${isPath
      ? html`<input ref=${path} name="env" value=${value} title=${t("submit.env-path")} autocomplete="off" spellcheck=${false} aria-invalid=${Boolean(fault)} />`
      : html`<select name="env" value=${value} aria-invalid=${Boolean(fault)}>
          <option value="">${t("submit.env-none")}</option>
          ${known.map((name) => html`<option key=${name} value=${name} selected=${name === value}>${harmless(name)}</option>`)}
          <option value="/">${t("submit.env-path")}</option>
        </select>`}
    ${fault ? html`<span class="field-fault"><${Said} text=${fault} /></span>` : null}
  </label>`;
}

/**
 * A task that grows and shrinks while it runs goes on from a file of its own.
 * @param {{draft: Draft, faultOf: (name: string) => string | null}} props
 */
function Elastic({ draft, faultOf }) {
  return html`<div class="fields elastic">
    <label class="switch"><input type="checkbox" name="elastic" checked=${draft.elastic === "on"} />${t("submit.elastic")}</label>
    <${Field} name="checkpoint" value=${draft.checkpoint ?? ""} fault=${faultOf("checkpoint")} />
  </div>`;
}

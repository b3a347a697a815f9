// What a form changes of a task, as an edit takes it, and the command that says the same. As at the command line. Pure.

import { quoted } from "./format.js";
import { harmless } from "./harmless.js";
import { draftOf, optionOf, specOf, typedCommand, TYPED, variablesIn } from "./wish.js";

/** @typedef {import("./wish.js").Draft} Draft */
/** @typedef {import("./cluster.js").Task} Task */

/**
 * What a wish that is taken back is to the wire, where that is not null.
 * @type {Record<string, any>}
 */
const NOTHING = {
  name: "", project: "", cwd: "", env: "", setup: "", checkpoint: "", log: "", owner: "",
  priority: 0, max_retries: 0, min_free_util: 0, nodes: 1,
  after: [], gpu_models: [], exclude: [], retry_on: [], licences: {}, gpus_on: {}, variables: {},
};
const SWITCHES = new Set(["share", "elastic", "urgent"]);

/**
 * All that an edit may change of a task, as it is now.
 * @param {Task} task
 * @returns {Draft}
 */
export function draftNow(task) {
  return {
    command: task.is_allocation ? "" : typedCommand(task.command),
    ...draftOf(task),
    after: TYPED.after.write(task.after),
    begin_at: task.begin_at ? TYPED.begin_at.write(task.begin_at) : "",
    log: task.log_path,
    owner: task.owner,
    token: task.token ? "on" : "",
    variables: JSON.stringify(Object.entries(task.variables ?? {})),
  };
}

/**
 * What stands there, less what makes no difference.
 * @param {string} name
 * @param {string | undefined} text
 */
function meant(name, text) {
  return name === "variables" ? JSON.stringify(variablesIn(text).filter((pair) => pair.some(Boolean))) : (text ?? "").trim();
}

/**
 * The changed fields. A draft that names its GPUs needs no count of them.
 * @param {Draft} before @param {Draft} draft
 */
export function changedFields(before, draft) {
  const names = Object.keys(draft).filter((name) => meant(name, before[name]) !== meant(name, draft[name]));
  const isCounted = !draft.gpus?.trim() && Boolean(draft.gpu_ids?.trim() || draft.gpus_on?.trim());
  return names.filter((name) => name !== "gpus" || !isCounted);
}

/**
 * The changes as `task.edit` takes them.
 * @param {Draft} before @param {Draft} draft
 */
export function changesOf(before, draft) {
  const spec = { ...specOf(draft), command: draft.command?.trim(), owner: draft.owner?.trim() };
  return Object.assign({}, ...changedFields(before, draft).map((name) => changeOf(name, draft, spec)));
}

/**
 * @param {string} name @param {Draft} draft @param {Record<string, any>} spec
 * @returns {Record<string, any>}
 */
function changeOf(name, draft, spec) {
  if (name === "gpus") return spec.gpus_max ? { gpus: spec.gpus, gpus_max: spec.gpus_max } : { gpus: spec.gpus ?? 0 };
  if (name === "node") return spec.node_list ? { node_list: spec.node_list } : { node: spec.node ?? null };
  if (name === "requeue") return { on_timeout: spec.on_timeout ?? "fail" };
  if (name === "token") return { token: spec.token ?? "" };
  if (SWITCHES.has(name)) return { [name]: draft[name] === "on" };
  return { [name]: spec[name] ?? NOTHING[name] ?? null };
}

/**
 * The same at the command line, where something is changed.
 * @param {number} id @param {Draft} before @param {Draft} draft
 */
export function editLine(id, before, draft) {
  const words = changedFields(before, draft).flatMap((name) => wordsOf(name, draft));
  return words.length ? harmless(["muster edit", id, ...words.map(quoted)].join(" ")) : "";
}

/** @param {string} name @param {Draft} draft @returns {string[]} */
function wordsOf(name, draft) {
  const text = draft[name]?.trim() ?? "";
  if (name === "variables") {
    const pairs = variablesIn(text).filter((pair) => pair.some(Boolean));
    return pairs.length ? pairs.map(([key, value]) => `var.${key.trim()}=${value}`) : ["var="];
  }
  if (name === "requeue") return [`on-timeout=${text ? "requeue" : ""}`];
  if (name === "token") return [`token=${text ? "submit" : ""}`];
  if (SWITCHES.has(name)) return [`${name}=${text ? "yes" : "no"}`];
  return [`${optionOf(name)}=${name === "gpus" || name === "node" ? text.replace(/\s+/g, "") : text}`];
}

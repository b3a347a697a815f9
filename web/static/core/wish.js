// What a task may ask for as people type it, as the wire has it, and the one from the other. As at the command line. Pure.

import { harmless } from "./harmless.js";
import { quoted, ranges } from "./format.js";

/** @typedef {Record<string, string>} Draft what stands in the fields of a form, by their names */
/** @typedef {import("./cluster.js").Task} Task */

const SPAN = /^(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)$|^(\d+(?:\.\d+)?)\s*([smhd]?)$/;
const UNITS = /** @type {Record<string, number>} */ ({ "": 1, s: 1, m: 60, h: 3600, d: 86_400 });
const DAY_MS = 86_400_000;

/**
 * `90`, `2h`, `1:30:00`, `1-12:00`, as at the command line.
 * @param {string} text
 * @returns {number | string}
 */
export function seconds(text) {
  const found = SPAN.exec(text);
  if (!found) return text;
  if (found[5] !== undefined) return Number(found[5]) * UNITS[found[6] ?? ""];
  const [days, first, second, third] = [found[1], found[2], found[3], found[4]].map((one) => Number(one ?? 0));
  if (found[1] !== undefined && found[2] === undefined) return days * 86_400 + second * 3600 + third * 60;
  return days * 86_400 + first * 3600 + second * 60 + third;
}

/**
 * `now+2h`, `22:00` (the next one), a day, or a day and time (of here, where it names no zone), in seconds since the epoch.
 * @param {string} text
 * @returns {number | string}
 */
export function moment(text) {
  const span = /^now\+(.+)$/i.exec(text);
  if (span) {
    const later = seconds(span[1]);
    return typeof later === "number" ? Math.round(Date.now() / 1000 + later) : text;
  }
  const clock = /^(\d{1,2}):(\d{2})$/.exec(text);
  if (clock) {
    const at = new Date().setHours(Number(clock[1]), Number(clock[2]), 0, 0);
    return (at > Date.now() ? at : at + DAY_MS) / 1000;
  }
  const at = Date.parse(/^\d{4}-\d{2}-\d{2}$/.test(text) ? `${text}T00:00` : text);
  return Number.isNaN(at) ? text : at / 1000;
}

/** @param {string} text */
function listed(text) {
  return text.split(",").map((one) => one.trim()).filter(Boolean);
}

/** @param {string} text @returns {number | string} */
function numeral(text) {
  return Number.isFinite(Number(text)) ? Number(text) : text;
}

/**
 * `0,1`, `0-3`.
 * @param {string} text
 * @returns {(number | string)[]}
 */
function numbers(text) {
  return listed(text).flatMap((part) => {
    const range = /^(\d{1,4})\s*-\s*(\d{1,4})$/.exec(part);
    if (!range) return [numeral(part)];
    return Array.from({ length: Math.max(0, Number(range[2]) - Number(range[1]) + 1) }, (_, at) => Number(range[1]) + at);
  });
}

/**
 * `12`, `12:any`, `12/` for all of an array.
 * @param {string} text
 */
function predecessor(text) {
  const [which, on] = text.split(":");
  const id = which.replace(/\/$/, "");
  const said = { id: numeral(id), on: on ?? "ok" };
  return id === which ? said : { ...said, array: true };
}

/**
 * `matlab`, `matlab=2,ansys`, or with a colon.
 * @param {string} text
 */
function licences(text) {
  return Object.fromEntries(listed(text).map((one) => {
    const [name, count] = one.split(/[:=]/);
    return [name.trim(), count === undefined ? 1 : numeral(count.trim())];
  }));
}

/**
 * `gpu1=0,1; gpu2=2,3`.
 * @param {string} text
 */
function gpusOn(text) {
  return Object.fromEntries(text.split(";").filter((one) => one.trim()).map((one) => {
    const [name, ids] = one.split("=");
    return [name.trim(), numbers(ids ?? "")];
  }));
}

/**
 * `USR1@120`, `B:USR1@2m`.
 * @param {string} text
 */
function signal(text) {
  const [, only, name, early] = /^(?:(B):)?([^@]*)(?:@(.*))?$/i.exec(text) ?? [];
  return { name: (name ?? text).trim().toUpperCase().replace(/^SIG/, ""), before_s: early === undefined ? 60 : seconds(early.trim()), main_only: Boolean(only) };
}

/**
 * The fields that are typed otherwise than the wire has them. `option`: at the command line; `read`: the value of a
 * text; `write`: the text of a value.
 * @type {Record<string, {option?: string, read: (text: string) => unknown, write: (value: any) => string}>}
 */
export const TYPED = {
  gpu_models: { option: "gpu-model", read: listed, write: (value) => value.join(",") },
  time_limit_s: { option: "time-limit", read: seconds, write: String },
  after: { read: (text) => listed(text).map(predecessor), write: (value) => value.map((/** @type {any} */ one) => `${one.id}${one.array ? "/" : ""}${one.on === "ok" ? "" : `:${one.on}`}`).join(",") },
  gpu_ids: { option: "gpu-ids", read: numbers, write: ranges },
  gpus_on: { option: "gpus-on", read: gpusOn, write: (value) => Object.entries(value).map(([name, ids]) => `${name}=${ids.join(",")}`).join(";") },
  exclude: { read: listed, write: (value) => value.join(",") },
  licences: { option: "licence", read: licences, write: (value) => Object.entries(value).map(([name, count]) => (count === 1 ? name : `${name}:${count}`)).join(",") },
  begin_at: { option: "begin", read: moment, write: (value) => new Date(value * 1000).toISOString() },
  retry_on: { option: "retry-on", read: listed, write: (value) => value.join(",") },
  signal: { read: signal, write: (value) => `${value.main_only ? "B:" : ""}${value.name}@${value.before_s}` },
};

/**
 * The command as somebody would type it.
 * @param {string[] | string} command
 */
export function typedCommand(command) {
  return typeof command === "string" ? command : command.map(quoted).join(" ");
}

/**
 * Variables as a draft has them: each name with its value.
 * @param {string | undefined} text
 * @returns {[string, string][]}
 */
export function variablesIn(text) {
  return text ? JSON.parse(text) : [];
}

/** @param {string | undefined} text */
function setVariables(text) {
  return variablesIn(text).map(([name, value]) => /** @type {[string, string]} */ ([name.trim(), value])).filter(([name, value]) => name || value);
}

/**
 * Whether there is anything to say of it.
 * @param {unknown} value
 */
function isSaid(value) {
  if (Array.isArray(value)) return value.length > 0;
  return value && typeof value === "object" ? Object.keys(value).length > 0 : Boolean(value);
}

const PLAIN = ["name", "project", "cwd", "env", "setup", "checkpoint", "gpu_memory_mib", "min_free_util", "cpus", "memory_mib", "tmp_disk_mib", "priority", "max_retries"];

/**
 * A draft that asks for what a task asked for; whom it waited for, and until when, is over. Where it was within an
 * allocation the next one is, too, as long as there is that one.
 * @param {Task} task @returns {Draft}
 */
export function draftOf(task) {
  const any = /** @type {Record<string, any>} */ (/** @type {unknown} */ (task));
  /** @type {Draft} */
  const draft = { gpus: task.gpus_max ? `${task.gpus}-${task.gpus_max}` : isSaid(task.gpus) ? String(task.gpus) : "" };
  for (const name of PLAIN) draft[name] = isSaid(any[name]) ? String(any[name]) : "";
  for (const [name, { write }] of Object.entries(TYPED)) {
    draft[name] = isSaid(any[name]) && name !== "after" && name !== "begin_at" ? write(any[name]) : "";
  }
  if (isSaid(any.gpu_ids) || isSaid(any.gpus_on)) draft.gpus = "";
  draft.nodes = task.nodes > 1 && !isSaid(any.gpus_on) ? String(task.nodes) : "";
  draft.node = isSaid(any.node_list) ? any.node_list.join(",") : task.node ?? "";
  draft.within = any.within ? String(any.within) : "";
  for (const name of ["share", "elastic", "urgent"]) draft[name] = any[name] ? "on" : "";
  draft.requeue = any.on_timeout === "requeue" ? "on" : "";
  return draft;
}

const NUMBERS = ["gpus", "cpus", "memory_mib", "tmp_disk_mib", "gpu_memory_mib", "min_free_util", "nodes", "priority", "max_retries"];
const TEXTS = ["name", "project", "cwd", "env", "setup", "checkpoint", "within", "log"];
const FLAGS = ["hold", "share", "elastic", "urgent"];
const OPTIONS = /** @type {Record<string, string>} */ ({ memory_mib: "mem", tmp_disk_mib: "tmp-disk", gpu_memory_mib: "gpu-mem", min_free_util: "min-free-util", max_retries: "max-retries", within: "in" });
/** Refusals that are of one field and do not say which. */
const FIELD_OF = /** @type {Record<string, string>} */ ({ elastic_without_range: "gpus", elastic_without_checkpoint: "checkpoint" });

/**
 * What a field is called at the command line.
 * @param {string} name
 */
export function optionOf(name) {
  return TYPED[name]?.option ?? OPTIONS[name] ?? name;
}

/**
 * The field of which something is refused, where the refusal names one.
 * @param {import("./failure.js").Failure} failure
 */
export function fieldOf({ key, args, message }) {
  return FIELD_OF[key ?? ""] ?? (String(args?.field ?? args?.where ?? "").replace(/[:\s$.]+/g, "") || /^(\w+):/.exec(message)?.[1] || "");
}

/**
 * What is asked for, as a submit takes it; what is not a number where one is due is left as it is, for the master to
 * say so at its field.
 * @param {Draft} draft
 * @returns {Record<string, any>}
 */
export function specOf(draft) {
  /** @type {Record<string, any>} */
  const spec = {};
  for (const name of TEXTS) if (draft[name]?.trim()) spec[name] = draft[name].trim();
  for (const name of NUMBERS) if (draft[name]?.trim()) spec[name] = numeral(draft[name].trim().replace(/\s*%$/, ""));
  const range = /^(\d+)\s*-\s*(\d+)$/.exec(draft.gpus?.trim() ?? "");
  if (range) [spec.gpus, spec.gpus_max] = [Number(range[1]), Number(range[2])];
  const named = listed(draft.node ?? "");
  if (named.length) Object.assign(spec, named.length === 1 ? { node: named[0] } : { node_list: named });
  for (const [name, { read }] of Object.entries(TYPED)) {
    const value = draft[name]?.trim() ? read(draft[name].trim()) : null;
    if (isSaid(value)) spec[name] = value;
  }
  if (draft.requeue === "on") spec.on_timeout = "requeue";
  if (draft.token === "on") spec.token = "submit";
  const variables = setVariables(draft.variables);
  if (variables.length) spec.variables = Object.fromEntries(variables);
  for (const name of FLAGS) if (draft[name] === "on") spec[name] = true;
  return spec;
}

/**
 * The same as options of the command line.
 * @param {Draft} draft
 * @returns {string[]}
 */
export function optionsOf(draft) {
  /** @param {string} name @param {string} text */
  const option = (name, text) => `--${optionOf(name)} ${quoted(text)}`;
  const words = TEXTS.filter((name) => draft[name]?.trim()).map((name) => option(name, draft[name].trim()));
  words.push(...NUMBERS.filter((name) => draft[name]?.trim()).map((name) => option(name, draft[name].replace(/\s+/g, ""))));
  if (draft.node?.trim()) words.push(`--node ${quoted(listed(draft.node).join(","))}`);
  for (const name of Object.keys(TYPED)) if (draft[name]?.trim()) words.push(option(name, draft[name].trim()));
  words.push(...setVariables(draft.variables).map(([name, value]) => `--var ${quoted(`${name}=${value}`)}`));
  if (draft.requeue === "on") words.push("--on-timeout requeue");
  if (draft.token === "on") words.push("--token submit");
  return [...words, ...FLAGS.filter((name) => draft[name] === "on").map((name) => `--${name}`)].map(harmless);
}

// What a form says of a task, as a submit takes it; the command line that says the same, and the call in Python. Pure.

import { quoted } from "./format.js";
import { optionsOf, specOf } from "./wish.js";

export { specOf };

/** @typedef {import("./wish.js").Draft} Draft */

/**
 * Commands that are no empty lines, one a task.
 * @param {Draft} draft
 */
export function commandsOf(draft) {
  return (draft.command ?? "").split("\n").map((line) => line.trim()).filter((line) => line && !line.startsWith("#"));
}

/**
 * Is it many tasks, one a line?
 * @param {Draft} draft
 */
export function isBatch(draft) {
  return draft.many === "on" && commandsOf(draft).length > 1;
}

const SWEEP = /^\s*([A-Za-z_][A-Za-z0-9_]*)\s*=(.*)$/;

/**
 * What is swept over: a line each, `lr = 0.1, 0.01`; `\\,` is a comma within a value, as at the command line. A line that is none is
 * told by its text.
 * @param {Draft} draft
 * @returns {{values: Record<string, string[]>, faults: string[]}}
 */
export function sweepOf(draft) {
  /** @type {Record<string, string[]>} */
  const values = {};
  const faults = [];
  for (const line of (draft.sweep ?? "").split("\n")) {
    if (!line.trim()) continue;
    const found = SWEEP.exec(line);
    const listed = found ? found[2].split(/(?<!\\),/).map((one) => one.trim().replaceAll("\\,", ",")).filter(Boolean) : [];
    if (!found || !listed.length || values[found[1]]) faults.push(line.trim());
    else values[found[1]] = listed;
  }
  return { values, faults };
}

/**
 * Is it a task for each point of a sweep?
 * @param {Draft} draft
 */
export function isSweep(draft) {
  return Boolean(draft.sweep?.trim());
}

/**
 * How many tasks it is.
 * @param {Record<string, string[]>} values
 */
export function pointCount(values) {
  return Object.values(values).reduce((product, one) => product * one.length, 1);
}

/**
 * The first points, as the master counts them: the last name turns fastest.
 * @param {Record<string, string[]>} values
 * @param {number} most
 * @returns {Record<string, string>[]}
 */
export function points(values, most) {
  const names = Object.keys(values);
  return Array.from({ length: Math.min(most, pointCount(values)) }, (_, index) => {
    /** @type {Record<string, string>} */
    const point = {};
    let left = index;
    for (const name of [...names].reverse()) {
      point[name] = values[name][left % values[name].length];
      left = Math.floor(left / values[name].length);
    }
    return point;
  });
}

/**
 * What stands for `{lr}` there.
 * @param {string} command
 * @param {Record<string, string>} point
 */
export function filled(command, point) {
  return command.replace(/\{(\w+)\}/g, (whole, name) => point[name] ?? whole);
}

/** @param {Draft} draft */
function sweepWords(draft) {
  const values = Object.entries(sweepOf(draft).values).map(([name, listed]) => `--sweep ${quoted(`${name}=${listed.map((one) => one.replaceAll(",", "\\,")).join(",")}`)}`);
  return [...values, ...["cap", "max_fails"].flatMap((name) => (draft[name]?.trim() ? [`--${name.replace("_", "-")} ${draft[name].trim()}`] : []))];
}

/**
 * What a sweep is besides: how many at once, and after how many failures the rest is held.
 * @param {Draft} draft
 */
export function arrayOf(draft) {
  const bounds = ["cap", "max_fails"].flatMap((name) => (draft[name]?.trim() ? [[name, Number.isFinite(Number(draft[name])) ? Number(draft[name]) : draft[name].trim()]] : []));
  return { sweep: sweepOf(draft).values, ...Object.fromEntries(bounds) };
}

/** @param {Draft} draft */
export function commandLineOf(draft) {
  const words = ["muster submit", ...optionsOf(draft)];
  if (isSweep(draft)) return `${[...words, ...sweepWords(draft)].join(" ")} -- bash -c ${quoted(draft.command?.trim() || "…")}`;
  if (isBatch(draft)) return `${words.join(" ")} --batch - <<'END'\n${commandsOf(draft).join("\n")}\nEND`;
  return `${words.join(" ")} -- bash -c ${quoted(draft.command?.trim() || "…")}`;
}

/** @param {Draft} draft */
export function pythonOf(draft) {
  const more = Object.entries(specOf(draft)).map(([name, value]) => `, ${name}=${literal(value)}`).join("");
  if (isSweep(draft)) {
    const { sweep, ...bounds } = arrayOf(draft);
    const said = Object.entries(bounds).map(([name, value]) => `, ${name}=${literal(value)}`).join("");
    return `import muster\n\nwith muster.connect() as queue:\n    print(queue.submit_array(${literal(draft.command?.trim() ?? "")}, sweep=${literal(sweep)}${said}${more}))`;
  }
  const call = isBatch(draft) ? `submit_batch(${literal(commandsOf(draft))}${more})` : `submit(${literal(draft.command?.trim() ?? "")}${more})`;
  return `import muster\n\nwith muster.connect() as queue:\n    print(queue.${call})`;
}

/**
 * As Python writes it.
 * @param {any} value
 * @returns {string}
 */
function literal(value) {
  if (value === true) return "True";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (value && typeof value === "object") return `{${Object.entries(value).map(([key, one]) => `${literal(key)}: ${literal(one)}`).join(", ")}}`;
  return JSON.stringify(value);
}

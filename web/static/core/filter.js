// The filter of the queue: words that a task must have somewhere, and terms like `owner:me state:failed gpus>1`. Pure.

import { ENDED, RUNNING, WAITING } from "./cluster.js";

/** @typedef {import("./cluster.js").Task} Task */
/** @typedef {{text: string, test: (task: Task) => boolean, isWord: boolean}} Term */

const TERM = /^(-?)(\w+)([:=<>]|>=|<=)(.+)$/;
const GROUPS = { active: RUNNING, waiting: WAITING, ended: ENDED };
const LIKE = /** @type {Record<string, (task: Task) => string>} */ ({
  owner: (task) => task.owner,
  user: (task) => task.owner,
  name: (task) => task.name,
  project: (task) => task.project,
  env: (task) => task.env,
  node: (task) => task.allocation.map((part) => part.node).join(" ") || (task.node ?? ""),
  command: commandOf,
});
const NUMBERS = /** @type {Record<string, (task: Task) => number>} */ ({
  id: (task) => task.id,
  gpus: (task) => task.gpus,
  cpus: (task) => task.cpus ?? 0,
  priority: (task) => task.priority,
  attempt: (task) => task.attempt,
  nodes: (task) => task.nodes,
});

/** @param {Task} task */
function commandOf(task) {
  return typeof task.command === "string" ? task.command : task.command.join(" ");
}

/**
 * What a filter asks for, term by term.
 * @param {string} text
 * @param {string | null} user who looks
 * @returns {Term[]}
 */
export function parseFilter(text, user) {
  return words(text).map((word) => {
    const made = term(word, user);
    return made ? { text: word, test: made, isWord: false } : { text: word, test: containing(word), isWord: true };
  });
}

/**
 * @param {Term[]} terms
 * @param {Task} task
 */
export function matches(terms, task) {
  return terms.every((one) => one.test(task));
}

/** @param {string} text */
function words(text) {
  return text.match(/\S*"[^"]*"|\S+/g) ?? [];
}

/**
 * @param {string} word
 * @param {string | null} user
 * @returns {((task: Task) => boolean) | null}
 */
function term(word, user) {
  const found = TERM.exec(word.replaceAll('"', ""));
  if (!found) return null;
  const [, minus, name, sign, value] = found;
  const test = positive(name.toLowerCase(), sign, value, user);
  return test && minus ? (task) => !test(task) : test;
}

/**
 * @param {string} name
 * @param {string} sign
 * @param {string} value
 * @param {string | null} user
 * @returns {((task: Task) => boolean) | null}
 */
function positive(name, sign, value, user) {
  if (name === "state" && (sign === ":" || sign === "=")) {
    const asked = new Set(value.toLowerCase().split(",").flatMap((one) => [...(/** @type {any} */ (GROUPS)[one] ?? [one])]));
    return (task) => asked.has(task.state);
  }
  const number = NUMBERS[name];
  if (number) return compared(number, sign, value);
  const text = LIKE[name];
  if (!text || (sign !== ":" && sign !== "=")) return null;
  const asked = name === "owner" || name === "user" ? value.split(",").map((one) => (one === "me" ? (user ?? "") : one)) : null;
  if (asked) return (task) => asked.includes(task.owner);
  const wanted = value.toLowerCase();
  return (task) => text(task).toLowerCase().includes(wanted);
}

/**
 * @param {(task: Task) => number} number
 * @param {string} sign
 * @param {string} value
 * @returns {((task: Task) => boolean) | null}
 */
function compared(number, sign, value) {
  const orEqual = value.startsWith("=");
  const limit = Number(orEqual ? value.slice(1) : value);
  if (!Number.isFinite(limit)) return null;
  if (sign === ">") return (task) => (orEqual ? number(task) >= limit : number(task) > limit);
  if (sign === "<") return (task) => (orEqual ? number(task) <= limit : number(task) < limit);
  return (task) => number(task) === limit;
}

/** @type {WeakMap<Task, string>} */
const haystacks = new WeakMap();

/** @param {string} word */
function containing(word) {
  const wanted = word.replaceAll('"', "").toLowerCase();
  return (/** @type {Task} */ task) => {
    let text = haystacks.get(task);
    if (text === undefined) {
      const held = task.allocation.map((part) => part.node).join(" ");
      text = [task.id, task.state, task.owner, task.name, task.project, held, commandOf(task)].join("\n").toLowerCase();
      haystacks.set(task, text);
    }
    return text.includes(wanted);
  };
}

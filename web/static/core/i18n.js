// The console's words in the user's language. A message of the master comes as a key with values
// (docs/wire.md, Messages) and is worded here; in English the master's own sentence is shown.

import { harmless } from "./harmless.js";
import { keep, kept } from "./kept.js";
import { Signal, useSignal } from "./signal.js";
import { plain, worded } from "./wording.js";

/** @typedef {"en" | "zh-CN"} LanguageName */

/** @type {Record<LanguageName, string>} each by its own name */
export const LANGUAGES = { en: "English", "zh-CN": "中文" };

/** @type {Signal<LanguageName>} */
export const language = new Signal(/** @type {LanguageName} */ ("en"));

/** @typedef {[RegExp, (...found: string[]) => string][]} Sayings what nodes say in English alone, and what it is here */

/**
 * The loaded words of a language. The words of the interface come in parts, files of `words/`, as pages need them; the master's
 * sentences in two: what any page may show, and what is said of refusals and of what is looked at closely.
 * @typedef {object} Words
 * @property {LanguageName} name
 * @property {Record<string, string>} ui
 * @property {Set<string>} parts those of `ui`
 * @property {Record<string, string> | null} messages null: the master's own are shown
 * @property {(() => Promise<Record<string, string>>)[]} otherMessages those that have not come yet
 * @property {any} forms
 * @property {any} names
 * @property {Sayings} sayings
 */

const SHARED = "ui";
/** So long a refusal waits for its words; then it is shown in English. */
const WORDS_MS = 2_000;
/** @type {Words} */
let words = { name: "en", ui: {}, parts: new Set(), messages: null, otherMessages: [], forms: {}, names: {}, sayings: [] };
/** Parts that somebody needed so far, in whichever language. */
const needed = new Set([SHARED]);
/**
 * Other messages came: who shows one that lacked is drawn again.
 * @type {Signal<number>}
 */
const arrivals = new Signal(0);

/** @type {import("./wording.js").Language} */
export const speaker = {
  template: (key) => words.messages?.[key],
  word: (name, value) => {
    if (typeof value === "number") return String(value);
    return words.names[name]?.[value] ?? harmless(name === "said" ? resaid(value) : value);
  },
  get forms() {
    return words.forms;
  },
};

/** @param {any} text of a node, of another program, or of a person */
function resaid(text) {
  for (const [pattern, make] of words.sayings) {
    const found = pattern.exec(String(text));
    if (found) return make(...found.slice(1));
  }
  return text;
}

/**
 * What is said in the interface itself.
 * @param {string} key
 * @param {Record<string, any>} [args]
 */
export function t(key, args) {
  const template = words.ui[key];
  if (template === undefined) return key;
  return args ? worded(speaker, template, args) : template;
}

/** Draw a component again when the words change. It then returns another value. */
export function useLanguage() {
  return `${useSignal(language)} ${useSignal(arrivals)}`;
}

/**
 * What the master says.
 * @param {string | null | undefined} key
 * @param {Record<string, any> | null | undefined} args
 * @param {string | null | undefined} text its own sentence, for a key that has none here
 */
export function said(key, args, text) {
  if (key && words.messages) {
    const message = { key, args: args ?? {} };
    if (isWorded(message)) return plain(speaker, "", message);
    needMessages(() => isWorded(message)).catch(() => undefined); // then it stays in English
  }
  return harmless(text ?? key ?? "");
}

/**
 * Are there words for it, and for each message within?
 * @param {any} value
 * @returns {boolean}
 */
function isWorded(value) {
  if (Array.isArray(value)) return value.every(isWorded);
  if (!value || typeof value !== "object") return true;
  if ("key" in value) return words.messages?.[value.key] !== undefined && Object.values(value.args ?? {}).every(isWorded);
  return true;
}

/** @param {import("./failure.js").Failure} failure */
export function saidOfFailure(failure) {
  if (failure.key?.startsWith("ui.")) return t(failure.key, failure.args ?? {});
  return said(failure.key, failure.args, failure.message);
}

/**
 * The same failure, once there are words for it.
 * @param {import("./failure.js").Failure} failure
 */
export async function inWords(failure) {
  if (words.messages && failure.key && !failure.key.startsWith("ui.") && !isWorded(failure)) {
    const tooLate = new Promise((resolve) => setTimeout(resolve, WORDS_MS));
    await Promise.race([needMessages(() => isWorded(failure)).catch(() => undefined), tooLate]);
  }
  return failure;
}

/**
 * Have these parts of the interface's words there.
 * @param {string[]} parts
 */
export async function needWords(parts) {
  for (const part of parts) needed.add(part);
  const of = words;
  const missing = parts.filter((part) => !of.parts.has(part));
  Object.assign(of.ui, ...(await Promise.all(missing.map((part) => partOf(of.name, part)))));
  for (const part of missing) of.parts.add(part);
  if (of !== words) await needWords(parts); // another language was chosen meanwhile
}

/**
 * Have more of what the master can say there, all of it where that is never enough.
 * @param {() => boolean} isEnough
 */
export async function needMessages(isEnough = () => false) {
  const of = words;
  while (of.messages && of.otherMessages.length && !isEnough()) {
    const [load] = of.otherMessages;
    const others = await load(); // of a module that has come the browser does not ask again
    if (of.otherMessages[0] !== load) continue; // somebody else was waiting for it, too
    of.otherMessages.shift();
    Object.assign(of.messages, others);
    arrivals.set(arrivals.value + 1);
  }
}

/** @param {LanguageName} name @param {string} part @returns {Promise<Record<string, string>>} */
async function partOf(name, part) {
  return (await import(`../words/${name}/${part}.js`)).WORDS;
}

/**
 * @param {LanguageName} name
 * @param {string[]} [parts] that the page to come needs, so that they come with the others
 */
export async function setLanguage(name, parts = []) {
  for (const part of parts) needed.add(part);
  const all = [...needed];
  const [speech, ...found] = await Promise.all([name === "en" ? null : import("../words/zh-CN/index.js"), ...all.map((part) => partOf(name, part))]);
  words = {
    name, ui: Object.assign({}, ...found), parts: new Set(all),
    messages: speech ? { ...speech.MESSAGES } : null, otherMessages: [...(speech?.OTHER_MESSAGES ?? [])],
    forms: speech?.FORMS ?? {}, names: speech?.NAMES ?? {}, sayings: speech?.SAYINGS ?? [],
  };
  keep("language", name);
  document.documentElement.lang = name;
  language.set(name);
}

/**
 * What was chosen here before, else what the user's account says, else the browser's first language that we speak.
 * @param {string | null | undefined} ofUser
 * @returns {LanguageName}
 */
export function firstLanguage(ofUser) {
  for (const wish of [kept("language"), ofUser, ...navigator.languages]) {
    if (typeof wish === "string" && /^zh/i.test(wish)) return "zh-CN";
    if (typeof wish === "string" && /^en/i.test(wish)) return "en";
  }
  return "en";
}

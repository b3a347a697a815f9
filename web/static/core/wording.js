// Sentences from templates and values, as `wire/message.py` makes them: `{value}` is the place of a value,
// `{value:form}` says how it is put into words. Here a language brings its own forms. Pure.

import { count } from "./sizes.js";

/**
 * @typedef {object} Language
 * @property {(key: string) => string | undefined} template the sentence of a key
 * @property {Record<string, (value: any, say: (value: any) => string) => string>} forms `say` puts into words what is within a value
 * @property {(name: string, value: any) => string} word a plain value of this name
 */

const FIELD = /( ?)\{(\w+)(!r)?(?::([^}]*))?\}( ?)/g;
/** A template has a space beside a value; between two signs of Chinese there is none. Until all is put together NUL stands for it. */
const TIGHT = /(?<=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])\0(?=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])/g;

/**
 * @param {Language} language
 * @param {string} template
 * @param {Record<string, any>} args
 */
export function worded(language, template, args) {
  const whole = template.replace(FIELD, (_, before, name, quoted, form, after) => {
    return `${before && "\0"}${put(language, name, quoted, form, args[name])}${after && "\0"}`;
  });
  return whole.replace(TIGHT, "").replaceAll("\0", " ");
}

/**
 * @param {Language} language
 * @param {string} name
 * @param {string | undefined} quoted
 * @param {string | undefined} form
 * @param {any} value
 */
function put(language, name, quoted, form, value) {
  if (quoted) return language.forms.quoted(String(value), String);
  return form ? formed(language, form, value) : plain(language, name, value);
}

/**
 * @param {Language} language
 * @param {string} form
 * @param {any} value
 */
function formed(language, form, value) {
  const make = language.forms[form];
  if (make) return make(value, (one) => plain(language, "", one));
  if (form.includes("|")) {
    const [one, many] = form.split("|");
    return howMany(value) === 1 ? one : many;
  }
  if (form === ",") return count(Number(value));
  const digits = /^\.(\d)([fg])$/.exec(form);
  if (digits) {
    return digits[2] === "f" ? Number(value).toFixed(Number(digits[1])) : String(Number(Number(value).toPrecision(Number(digits[1]))));
  }
  return plain(language, "", value);
}

/** @param {any} value */
function howMany(value) {
  if (Array.isArray(value)) return value.length;
  return value && typeof value === "object" ? value.count : Number(value);
}

/**
 * A value as it is: a text, a number, a message in turn, names in short, or a list of these.
 * @param {Language} language
 * @param {string} name of its place in the sentence
 * @param {any} value
 * @returns {string}
 */
export function plain(language, name, value) {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return value.map((one) => plain(language, name, one)).join(", ");
  if (typeof value !== "object") return language.word(name, value);
  if ("key" in value) {
    const template = language.template(value.key);
    return template === undefined ? `${value.key}` : worded(language, template, value.args ?? {});
  }
  return language.forms.several(value, String);
}

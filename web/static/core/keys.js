// The keyboard: pages say which keys do what, the newest first. Nothing is taken from who writes into a field, or from
// the browser's own keys. `g` begins a word of two letters. While a part of a page is on its way, keys that nothing has
// yet are kept for it: people press them in a row, and a page that opens has none before its module has come.

import { useLayoutEffect, useRef } from "./html.js";

/** @typedef {{does: (event: KeyboardEvent) => void, says: string}} Key `says`: the key of the words in the help */

/** @type {{keys: Record<string, Key>}[]} */
const layers = [];
/** How many parts of the page are on their way. */
let awaited = 0;
/**
 * Keys that are kept for them, each with the page on which it was pressed.
 * @type {{name: string, event: KeyboardEvent, path: string}[]}
 */
let kept = [];
let begun = "";
/** @type {ReturnType<typeof setTimeout> | undefined} */
let forgets;

/** @param {EventTarget | null} target */
function isWriting(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) &&
    !(target instanceof HTMLInputElement && ["checkbox", "radio", "button"].includes(target.type));
}

/**
 * Does something else than the page take what is typed now?
 * @param {EventTarget | null} target
 */
function isTaken(target) {
  return isWriting(target) || document.querySelector("dialog[open]") !== null;
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  // Enter is a link's or a button's that has the focus.
  if (isTaken(event.target) || (event.key === "Enter" && document.querySelector(":is(a, button, summary):focus"))) return;
  const name = begun ? `${begun} ${event.key}` : event.key;
  begun = "";
  clearTimeout(forgets);
  if (act(name, event)) {
    event.preventDefault();
  } else if (event.key === "g") {
    begun = "g";
    forgets = setTimeout(() => {
      begun = "";
    }, 1_500);
  } else if (awaited) {
    kept.push({ name, event, path: location.pathname });
  }
}

/**
 * Do what the key does; whether anything has it.
 * @param {string} name
 * @param {KeyboardEvent} event
 */
function act(name, event) {
  const layer = [...layers].reverse().find(({ keys }) => keys[name]);
  layer?.keys[name].does(event);
  return layer !== undefined;
}

/** The next key that was kept, unless something is still on its way; what it does is drawn before the one after it. */
function next() {
  if (awaited) return;
  const first = kept.shift();
  if (!first) return;
  if (first.path !== location.pathname || isTaken(document.activeElement)) kept = [];
  else act(first.name, first.event);
  queueMicrotask(next);
}

/**
 * A part of the page is on its way; what is returned says that it is there.
 * @returns {() => void}
 */
export function awaitPart() {
  awaited += 1;
  return () => {
    awaited -= 1;
    queueMicrotask(next); // once it is drawn
  };
}

addEventListener("keydown", pressed);

/**
 * These keys hold while the caller is on the page, from the moment in which it is drawn: a plain effect comes later.
 * @param {Record<string, Key>} keys
 */
export function useKeys(keys) {
  const layer = useRef({ keys });
  layer.current.keys = keys;
  useLayoutEffect(() => {
    const mine = layer.current;
    layers.push(mine);
    return () => {
      layers.splice(layers.indexOf(mine), 1);
    };
  }, []);
}

/**
 * All keys that hold now.
 * @returns {[string, Key][]}
 */
export function allKeys() {
  return Object.entries(Object.assign({}, ...layers.map(({ keys }) => keys)));
}

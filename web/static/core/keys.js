// The keyboard: pages say which keys do what, the newest first. Nothing is taken from who writes into a field, or from
// the browser's own keys. `g` begins a word of two letters.

import { useLayoutEffect, useRef } from "./html.js";

/** @typedef {{does: (event: KeyboardEvent) => void, says: string}} Key `says`: the key of the words in the help */

/** @type {{keys: Record<string, Key>}[]} */
const layers = [];
let begun = "";
/** @type {ReturnType<typeof setTimeout> | undefined} */
let forgets;

/** @param {EventTarget | null} target */
function isWriting(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) &&
    !(target instanceof HTMLInputElement && ["checkbox", "radio", "button"].includes(target.type));
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (isWriting(event.target) || document.querySelector("dialog[open]")) return;
  const name = begun ? `${begun} ${event.key}` : event.key;
  begun = "";
  clearTimeout(forgets);
  for (const { keys } of [...layers].reverse()) {
    const key = keys[name];
    if (key) {
      event.preventDefault();
      key.does(event);
      return;
    }
  }
  if (event.key === "g") {
    begun = "g";
    forgets = setTimeout(() => {
      begun = "";
    }, 1_500);
  }
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

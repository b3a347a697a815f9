// The base of pages and parts: preact's components and hooks, and htm's templates. A value in a template
// becomes a text node or a property, never markup: text of tasks, logs and files cannot act on the page.

import { h } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export { Component, Fragment, render } from "../vendor/preact.js";
export { useCallback, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "../vendor/hooks.js";

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(h);

/**
 * Class names, without those that do not hold.
 * @param {...(string | false | null | undefined)} names
 */
export function classes(...names) {
  return names.filter(Boolean).join(" ");
}

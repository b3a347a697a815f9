// Where in the console somebody is: the path below the base address, and the query, in which filter, order, columns and
// selection stand, so that a link shows what its sender saw. Owns the address bar.

import { Signal, useSignal } from "./signal.js";

/** @typedef {{path: string, query: URLSearchParams}} Place */

const base = new URL(document.baseURI);

/**
 * Must the next page be loaded whole?
 * @type {() => boolean}
 */
let mustLoad = () => false;

/** @param {() => boolean} look */
export function loadWholeWhere(look) {
  mustLoad = look;
}

/** @returns {Place} */
function here() {
  const path = location.pathname.startsWith(base.pathname) ? location.pathname.slice(base.pathname.length) : "";
  return { path: path.replace(/\/+$/, ""), query: new URLSearchParams(location.search) };
}

/** @type {Signal<Place>} */
export const place = new Signal(here());

export function usePlace() {
  return useSignal(place);
}

/**
 * The address of a page, relative to the base.
 * @param {string} path
 * @param {Record<string, string | number | null | undefined> | URLSearchParams} [query]
 */
export function address(path, query) {
  const words = query instanceof URLSearchParams ? query : new URLSearchParams();
  if (query && !(query instanceof URLSearchParams)) {
    for (const [name, value] of Object.entries(query)) {
      if (value !== null && value !== undefined && value !== "") words.set(name, String(value));
    }
  }
  const text = words.toString().replaceAll("%3A", ":").replaceAll("%2C", ",").replaceAll("%2F", "/");
  return (path || "./") + (text ? `?${text}` : "");
}

/** @type {Set<() => void>} */
const unwritten = new Set();

/**
 * Have something done just before a page is left: what its address lacks yet is written there.
 * @param {() => void} does
 * @returns {() => void} no more
 */
export function beforeLeaving(does) {
  unwritten.add(does);
  return () => void unwritten.delete(does);
}

/**
 * The queries with which pages were left, by path.
 * @type {Map<string, URLSearchParams>}
 */
const left = new Map();

/**
 * Go to a list as it was left: its filter, order and columns.
 * @param {string} path
 */
export function goBackTo(path) {
  go(address(path, left.get(path)));
}

/**
 * Go to a page.
 * @param {string} to an address below the base
 * @param {{replace?: boolean}} [how]
 */
export function go(to, how = {}) {
  const url = new URL(to, base);
  if (!how.replace) for (const does of [...unwritten]) does();
  if (!how.replace && url.pathname !== location.pathname && mustLoad()) {
    location.assign(url);
    return;
  }
  if (how.replace) history.replaceState(null, "", url);
  else if (url.href !== location.href) history.pushState(null, "", url);
  left.set(place.value.path, place.value.query);
  place.set(here());
}

/**
 * Change some words of the query, and stay on the page. The way back leads to the page before, not through each letter
 * of a filter.
 * @param {Record<string, string | number | null | undefined>} changes null takes a word out
 */
export function setQuery(changes) {
  const query = new URLSearchParams(place.value.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") query.delete(name);
    else query.set(name, String(value));
  }
  go(address(place.value.path, query), { replace: true });
}

/** Links within the console change the page without loading it anew; those that are to open elsewhere do. */
export function followLinks() {
  addEventListener("popstate", () => place.set(here()));
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (!link || link.target || link.hasAttribute("download") || link.origin !== base.origin) return;
    const path = link.pathname;
    if (!path.startsWith(base.pathname) || path.startsWith(`${base.pathname}api/`)) return;
    event.preventDefault();
    go(link.href);
  });
}

// Searching a log where it lies: the server looks through it in steps, and a line that is found is gone to.

import { live } from "../core/context.js";
import { count, percent as percentText } from "../core/format.js";
import { harmless } from "../core/harmless.js";
import { html, useEffect, useRef, useState } from "../core/html.js";
import { t } from "../core/i18n.js";
import { complain } from "./toast.js";

/** @typedef {{offset: number, text: string, begin: number, end: number, cut: boolean}} Match */

const MOST = 200;

/**
 * Search on until enough was found, or all was looked through.
 * @param {Record<string, any> & {limit: number}} asked
 * @param {() => boolean} isOver nobody wants to know any more
 * @param {(percent: number) => void} told how much of the log was looked through, after each step
 * @returns {Promise<Match[]>}
 */
export async function search(asked, isOver, told) {
  /** @type {Match[]} */
  const found = [];
  /** @type {number | null | undefined} */
  let next;
  do {
    /** @type {{matches: Match[], next: number | null, size: number}} */
    const step = await live.call("log.search", { ...asked, limit: asked.limit - found.length, ...(next === undefined ? {} : { offset: next }) });
    found.push(...step.matches);
    next = step.next;
    if (next !== null && !isOver()) told((100 * (asked.backwards ? step.size - next : next)) / step.size);
  } while (next !== null && found.length < asked.limit && !isOver());
  return found;
}

/**
 * How far a search came.
 * @param {{percent: number | null}} props
 */
export function Searching({ percent }) {
  return percent === null ? null : html`<small role="status" class="whole">${t("log.searching", { percent: percentText(percent) })}</small>`;
}

/** @param {{which: import("./log.js").Which, jump: (offset: number) => void}} props */
export function LogSearch({ which, jump }) {
  const [text, setText] = useState("");
  const [found, setFound] = useState(/** @type {Match[] | null} */ (null));
  const [percent, setPercent] = useState(/** @type {number | null} */ (null));
  const wanted = useRef(0);
  useEffect(() => () => void (wanted.current += 1), []);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    wanted.current += 1;
    const mine = wanted.current;
    const isOver = () => wanted.current !== mine;
    if (!text) return setFound(null);
    setPercent(0);
    try {
      const all = await search({ ...which, pattern: text, ignore_case: true, limit: MOST }, isOver, setPercent);
      if (!isOver()) setFound(all);
    } catch (error) {
      complain(error);
    } finally {
      if (!isOver()) setPercent(null);
    }
  };
  return html`<form class="log-search field" role="search" onSubmit=${submit} onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && setFound(null)}>
    <input id="log-search" type="search" aria-label=${t("log.search")} placeholder=${t("log.search")} value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} />
    <${Searching} percent=${percent} />
    ${found
      ? html`<div class="log-found">
          <small role="status">${found.length < MOST ? t("log.found", { count: count(found.length), n: found.length }) : t("log.found-many", { count: MOST })}</small>
          <ul>
            ${found.map(
              (one) => html`<li key=${one.offset}>
                <button type="button" class="link" onClick=${() => (setFound(null), jump(one.offset))}>
                  ${harmless(one.text.slice(0, one.begin))}<mark>${harmless(one.text.slice(one.begin, one.end))}</mark>${harmless(one.text.slice(one.end))}
                </button>
              </li>`,
            )}
          </ul>
        </div>`
      : null}
  </form>`;
}

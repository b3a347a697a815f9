// The field of a filter, and below it what it consists of, each part with a cross to take it out.

import { parseFilter } from "../core/filter.js";
import { html, useEffect, useRef, useState } from "../core/html.js";
import { t } from "../core/i18n.js";
import { useKeys } from "../core/keys.js";
import { beforeLeaving } from "../core/route.js";
import { Icon } from "./icons.js";

const PAUSE_MS = 120;
const OFFERED = ["owner:me", "state:failed", "state:waiting", "gpus>1"];

/** @param {{value: string, onChange: (text: string) => void}} props */
export function FilterBar({ value, onChange }) {
  const [text, setText] = useState(value);
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const timer = useRef(/** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined));
  const typed = useRef(/** @type {string | null} */ (null));
  useEffect(() => {
    if (document.activeElement !== field.current) setText(value);
  }, [value]);
  useKeys({ "/": { does: () => field.current?.focus(), says: "keys.filter" } });
  const write = () => {
    clearTimeout(timer.current);
    if (typed.current !== null) onChange(typed.current.trim());
    typed.current = null;
  };
  const change = (/** @type {string} */ words, isAtOnce = false) => {
    setText(words);
    typed.current = words;
    clearTimeout(timer.current);
    timer.current = setTimeout(write, isAtOnce ? 0 : PAUSE_MS);
  };
  useEffect(() => beforeLeaving(write));
  useEffect(() => () => clearTimeout(timer.current), []);
  const terms = parseFilter(value, null).filter((term) => !term.isWord);
  const offered = OFFERED.filter((one) => !value.includes(one));
  return html`<div class="filter">
    <div class="field">
      <${Icon} name="search" />
      <input
        ref=${field}
        type="search"
        aria-label=${t("filter.label")}
        placeholder=${t("filter.hint")}
        value=${text}
        onInput=${(/** @type {any} */ event) => change(event.target.value)}
        onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && field.current?.blur()}
      />
    </div>
    <div class="chips">
      ${terms.map(
        (term) => html`<button key=${term.text} class="chip is-on" title=${t("filter.remove")} onClick=${() => change(value.replace(term.text, "").replace(/\s+/g, " ").trim(), true)}>
          ${term.text}<${Icon} name="close" />
        </button>`,
      )}
      ${offered.map((one) => html`<button key=${one} class="chip" onClick=${() => change(`${value} ${one}`.trim(), true)}>${one}</button>`)}
    </div>
  </div>`;
}

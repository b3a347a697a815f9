// A list, and beside it what is known of the one that was chosen, which stands in the address. Owns both places and the keys between
// them; what stands there is its page's.

import { classes, html, useMemo } from "../core/html.js";
import { t } from "../core/i18n.js";
import { useKeys } from "../core/keys.js";
import { setQuery, usePlace } from "../core/route.js";
import { Icon } from "./icons.js";
import { Refusal } from "./refusal.js";
import { Table } from "./table.js";
import { Waits } from "./waits.js";

/**
 * @template R
 * @param {object} props
 * @param {string} props.label
 * @param {{answer: R[] | null, fault: unknown, again: () => Promise<void>}} props.told
 * @param {(row: R) => string} props.keyOf
 * @param {(row: R) => string} props.words what a filter looks into
 * @param {import("./table.js").Column<R>[]} props.columns
 * @param {any} props.tools what stands beside the filter
 * @param {string} props.empty where there is none
 * @param {any} props.detail a component, which gets `row` and `again`
 * @param {string} props.choose what is said where none is chosen
 */
export function MasterDetail({ label, told, keyOf, words, columns, tools, empty, detail, choose }) {
  const { query } = usePlace();
  const filter = (query.get("q") ?? "").toLowerCase();
  const rows = useMemo(() => (told.answer ?? []).filter((row) => words(row).toLowerCase().includes(filter)), [told.answer, filter]);
  const chosen = query.get("at");
  const row = (told.answer ?? []).find((one) => keyOf(one) === chosen);
  const at = rows.findIndex((one) => keyOf(one) === chosen);
  const move = (/** @type {number} */ by) => {
    const next = rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + by))];
    if (next) setQuery({ at: keyOf(next) });
  };
  useKeys({
    j: { does: () => move(1), says: "keys.next" },
    k: { does: () => move(-1), says: "keys.before" },
    Escape: { does: () => setQuery({ at: null }), says: "keys.clear" },
    "/": { does: () => document.getElementById("list-filter")?.focus(), says: "keys.filter" },
  });
  const Detail = detail;
  return html`<div class=${classes("two-parts", row && "has-one")}>
    <div class="list-part">
      <div class="tools">
        <div class="field"><${Icon} name="search" /><input id="list-filter" type="search" aria-label=${t("filter.label")} placeholder=${t("filter.label")} value=${query.get("q") ?? ""} onInput=${(/** @type {any} */ event) => setQuery({ q: event.target.value })} /></div>
        <span class="grow"></span>${tools}
      </div>
      ${told.fault
        ? html`<div class="empty"><${Refusal} fault=${told.fault} again=${told.again} /></div>`
        : html`<${Table} label=${label} columns=${columns} rows=${rows} keyOf=${keyOf} cursor=${chosen} onOpen=${(/** @type {R} */ one) => setQuery({ at: keyOf(one) })}
            empty=${told.answer ? t(filter ? "envs.none-like" : empty) : html`<${Waits} isWithin />`} />`}
    </div>
    <aside class="detail-part">
      ${row ? html`<button class="quiet back" onClick=${() => setQuery({ at: null })}>${t("envs.back")}</button><${Detail} key=${chosen} row=${row} again=${told.again} />` : told.answer ? html`<p class="empty">${t(told.answer.length ? choose : empty)}</p>` : null}
    </aside>
  </div>`;
}

// Who changed what, and who was refused: the newest first, more as one scrolls.

import { useAsked } from "../../core/asked.js";
import { moment, wholeMoment } from "../../core/format.js";
import { harmless } from "../../core/harmless.js";
import { html, useMemo, useState } from "../../core/html.js";
import { t } from "../../core/i18n.js";
import { useKeys } from "../../core/keys.js";
import { setQuery, usePlace } from "../../core/route.js";
import { Refusal } from "../../parts/refusal.js";
import { Table } from "../../parts/table.js";
import { Waits } from "../../parts/waits.js";

/** @typedef {import("@muster/wire").AuditEntry} AuditEntry */

const PAGE = 500;
const MOST = 10_000;
const DAY_S = 86_400;
const SINCE = /** @type {Record<string, number>} */ ({ day: DAY_S, week: 7 * DAY_S, month: 30 * DAY_S });

export function Section() {
  const { query } = usePlace();
  const [limit, setLimit] = useState(PAGE);
  const since = SINCE[query.get("since") ?? ""];
  const begin = useMemo(() => (since ? Math.floor(Date.now() / 1000) - since : null), [since]);
  const asked = { limit, since: begin, user: query.get("user") || null, verb: query.get("verb") || null };
  const told = useAsked("audit.read", asked);
  const [before, setBefore] = useState({ key: "", rows: /** @type {any[]} */ ([]) });
  const key = JSON.stringify({ ...asked, limit: 0 });
  const rows = useMemo(() => {
    const made = told.answer?.entries.map((/** @type {AuditEntry} */ entry, /** @type {number} */ at, /** @type {AuditEntry[]} */ all) => ({ entry, id: all.length - at }));
    if (made) setBefore({ key, rows: made });
    return made ?? (before.key === key ? before.rows : []);
  }, [told.answer, key]);
  const columns = useMemo(auditColumns, [t("admin.audit")]);
  useKeys({ "/": { does: () => document.getElementById("audit-user")?.focus(), says: "keys.filter" } });
  const field = (/** @type {string} */ name) => html`<input id=${`audit-${name}`} type="search" aria-label=${t(`audit.${name}`)} placeholder=${t(`audit.${name}`)} value=${query.get(name) ?? ""}
    onChange=${(/** @type {any} */ event) => setQuery({ [name]: event.target.value.trim() })} />`;
  return html`<div class="list-part">
    <div class="tools">${field("user")}${field("verb")}
      <select aria-label=${t("audit.since")} value=${query.get("since") ?? ""} onChange=${(/** @type {any} */ event) => setQuery({ since: event.target.value })}>
        <option value="">${t("audit.ever")}</option>${Object.keys(SINCE).map((one) => html`<option key=${one} value=${one}>${t(`audit.${one}`)}</option>`)}
      </select>
      <button onClick=${told.again}>${t("audit.again")}</button>
      ${told.answer?.unreadable ? html`<span class="warned">${t("audit.unreadable", { count: told.answer.unreadable })}</span>` : null}</div>
    ${told.fault ? html`<div class="empty"><${Refusal} fault=${told.fault} again=${told.again} /></div>` : html`<${Table} label=${t("admin.audit")} columns=${columns} rows=${rows} keyOf=${(/** @type {any} */ row) => row.id}
      onEnd=${() => told.answer && told.answer.entries.length >= limit && limit < MOST && setLimit(Math.min(MOST, limit * 3))} empty=${told.answer ? t("audit.none") : html`<${Waits} isWithin />`} />`}
  </div>`;
}

function auditColumns() {
  /** @typedef {{entry: AuditEntry}} Row */
  return [
    { name: "at", title: t("audit.at"), width: 120, cell: (/** @type {Row} */ { entry }) => html`<time title=${wholeMoment(entry.at)}>${moment(entry.at)}</time>` },
    { name: "user", title: t("audit.user"), width: 120, cell: (/** @type {Row} */ { entry }) => harmless(entry.user ?? "") },
    { name: "verb", title: t("audit.action"), width: 160, cell: (/** @type {Row} */ { entry }) => html`<code>${harmless(entry.verb)}</code>` },
    { name: "target", title: t("audit.target"), width: 0, cell: (/** @type {Row} */ { entry }) => html`<span title=${harmless(entry.target)}>${harmless(entry.target)}</span>` },
    { name: "result", title: t("audit.result"), width: 150, cell: (/** @type {Row} */ { entry }) => html`<span class=${entry.result === "ok" ? "is-good" : "warned"} title=${harmless(entry.result)}>${orCode(t(`audit.is.${entry.result}`), entry.result)}${entry.left_out ? ` +${entry.left_out}` : ""}</span>` },
    { name: "from", title: t("token.from"), width: 150, cell: (/** @type {Row} */ { entry }) => html`<code>${harmless(entry.from)}</code> <small>${orCode(t(`audit.via.${entry.via}`), entry.via)}</small>` },
  ];
}

/**
 * A line of another version may have a code without words here.
 * @param {string} words
 * @param {string} code
 */
function orCode(words, code) {
  return words.endsWith(`.${code}`) ? harmless(code) : words;
}

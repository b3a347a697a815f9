// All log-ins and tokens of all users: when each was used last, and ending those that are to open nothing any more.

import { useAsked } from "../../core/asked.js";
import { live } from "../../core/context.js";
import { count, wholeMoment } from "../../core/format.js";
import { harmless } from "../../core/harmless.js";
import { classes, html, useMemo, useState } from "../../core/html.js";
import { t } from "../../core/i18n.js";
import { useKeys } from "../../core/keys.js";
import { setQuery, usePlace } from "../../core/route.js";
import { askFor } from "../../parts/dialog.js";
import { attempt } from "../../parts/form.js";
import { Icon } from "../../parts/icons.js";
import { Refusal } from "../../parts/refusal.js";
import { Table } from "../../parts/table.js";
import { Waits } from "../../parts/waits.js";

/** @typedef {import("@muster/wire").Token} Token */

const MOST_LISTED = 12;

export function Section() {
  const { query } = usePlace();
  const told = useAsked("token.list", { all: true });
  const [selected, setSelected] = useState(/** @type {Set<string | number>} */ (new Set()));
  const filter = (query.get("q") ?? "").toLowerCase();
  const rows = useMemo(() => (told.answer ?? []).filter((/** @type {Token} */ one) => [one.id, one.user, one.kind, one.label, one.from].join(" ").toLowerCase().includes(filter)), [told.answer, filter]);
  const chosen = rows.filter((/** @type {Token} */ one) => selected.has(one.id));
  const columns = useMemo(tokenColumns, [t("admin.tokens")]);
  useKeys({ "/": { does: () => document.getElementById("list-filter")?.focus(), says: "keys.filter" } });
  const revoke = async () => {
    const hits = chosen.slice(0, MOST_LISTED).map((/** @type {Token} */ one) => `${one.id}  ${harmless(one.user)}  ${harmless(one.label)}`);
    if (chosen.length > MOST_LISTED) hits.push(t("dialog.more", { count: chosen.length - MOST_LISTED }));
    const ids = chosen.map((/** @type {Token} */ one) => one.id);
    const asked = { title: t("admin.revoke.ask", { count: ids.length }), text: t("me.revoke.text"), hits, command: `muster tokens revoke ${ids.join(" ")}`, confirm: t("me.revoke"), destroys: true };
    if (!(await askFor(asked))) return;
    await attempt(() => live.call("token.revoke", { tokens: ids }), t("admin.revoke.done", { count: ids.length }), () => (setSelected(new Set()), told.again()));
  };
  return html`<div class="list-part">
    <div class="tools"><div class="field"><${Icon} name="search" /><input id="list-filter" type="search" aria-label=${t("filter.label")} placeholder=${t("filter.label")} value=${query.get("q") ?? ""} onInput=${(/** @type {any} */ event) => setQuery({ q: event.target.value })} /></div></div>
    <div class=${classes("action-bar", chosen.length > 0 && "is-on")} role="toolbar" aria-label=${t("queue.actions")}>
      <span class="action-count">${chosen.length ? t("queue.selected", { count: count(chosen.length) }) : told.answer ? count(rows.length) : ""}</span>
      ${chosen.length ? html`<button class="is-danger" onClick=${revoke}>${t("me.revoke")}</button>` : null}
    </div>
    ${told.fault ? html`<div class="empty"><${Refusal} fault=${told.fault} again=${told.again} /></div>` : html`<${Table} label=${t("admin.tokens")} columns=${columns} rows=${rows} keyOf=${(/** @type {Token} */ one) => one.id} selected=${selected} onSelect=${setSelected} empty=${told.answer ? t("envs.none-like") : html`<${Waits} isWithin />`} />`}
  </div>`;
}

function tokenColumns() {
  return [
    { name: "id", title: t("token.id"), width: 104, cell: (/** @type {Token} */ one) => html`<code>${one.id}</code>` },
    { name: "user", title: t("kind.user"), width: 120, cell: (/** @type {Token} */ one) => harmless(one.user) },
    { name: "kind", title: t("token.kind"), width: 80, cell: (/** @type {Token} */ one) => t(`token.kind.${one.kind}`) },
    { name: "label", title: t("token.label"), width: 0, cell: (/** @type {Token} */ one) => html`<span title=${harmless(one.label)}>${harmless(one.label)}</span>${one.is_this ? html` <span class="chip">${t("me.this")}</span>` : null}` },
    { name: "scopes", title: t("admin.scopes"), width: 96, cell: (/** @type {Token} */ one) => one.scopes?.join(", ") ?? "" },
    { name: "from", title: t("token.from"), width: 120, cell: (/** @type {Token} */ one) => html`<code>${harmless(one.from)}</code>` },
    { name: "used", title: t("token.used"), width: 112, cell: (/** @type {Token} */ one) => wholeMoment(one.used_on).slice(0, 10) },
    { name: "expires", title: t("token.expires"), width: 168, cell: (/** @type {Token} */ one) => wholeMoment(one.expires_at).slice(0, 16) },
  ];
}

// Settings that hold from now on: what each is, what it may be, who set it, and back to what conf.json says.

import { useAsked } from "../../core/asked.js";
import { live } from "../../core/context.js";
import { moment, number, quoted, span, wholeMoment, wholeSize } from "../../core/format.js";
import { harmless } from "../../core/harmless.js";
import { html, useMemo } from "../../core/html.js";
import { t } from "../../core/i18n.js";
import { seconds } from "../../core/wish.js";
import { Command } from "../../parts/command.js";
import { attempt, ChangeForm } from "../../parts/form.js";
import { MasterDetail } from "../../parts/master-detail.js";

/** @typedef {import("@muster/wire").Setting} Setting */

/** A bound of at least so many seconds, or of other units, means that there is none. */
const [ENDLESS_S, ENDLESS] = [1e9, 1e15];

export function Section() {
  const told = useAsked("setting.list");
  const columns = useMemo(settingColumns, [t("admin.settings")]);
  return html`<${MasterDetail} label=${t("admin.settings")} told=${told} keyOf=${(/** @type {Setting} */ one) => one.name} words=${(/** @type {Setting} */ one) => `${one.name} ${meaningOf(one)}`}
    columns=${columns} empty="envs.none-like" choose="admin.choose-setting" detail=${Detail} tools=${null} />`;
}

function settingColumns() {
  return [
    { name: "name", title: t("column.name"), width: 264, cell: (/** @type {Setting} */ one) => html`<code title=${meaningOf(one)}>${one.name}</code>` },
    { name: "value", title: t("admin.value"), width: 104, cell: (/** @type {Setting} */ one) => html`<b>${shown(one, one.value)}</b>` },
    { name: "meaning", title: t("admin.meaning"), width: 0, cell: (/** @type {Setting} */ one) => html`<span class="dim" title=${meaningOf(one)}>${meaningOf(one)}</span>` },
    { name: "by", title: t("admin.set-by"), width: 120, cell: (/** @type {Setting} */ one) => (one.by === null ? html`<span class="dim">${t(one.in_conf ? "admin.from-conf" : "admin.by-default")}</span>` : html`${harmless(one.by)} <time class="dim" title=${wholeMoment(one.at)}>${moment(one.at)}</time>`) },
  ];
}

/** @param {Setting} one */
function meaningOf(one) {
  const words = t(`setting.${one.name}`);
  return words.startsWith("setting.") ? harmless(one.meaning) : words;
}

/** @param {Setting} one @param {number | string | null} value */
function shown(one, value) {
  if (value === null || (value === 0 && one.range.none)) return t("admin.none");
  if (one.unit === "seconds") return Number.isInteger(value) ? span(Number(value)) : t("span.seconds", { seconds: number(Number(value)) });
  if (one.unit === "bytes") return wholeSize(Number(value));
  return one.unit === "share" ? `${Math.round(Number(value) * 1000) / 10} %` : String(value);
}

/** @param {{row: Setting, again: () => Promise<void>}} props */
function Detail({ row: one, again }) {
  const before = { value: one.value === null ? "" : String(one.value) };
  const send = (/** @type {Record<string, string>} */ { value }) => live.call("setting.set", { name: one.name, value: typed(one, value) });
  const reset = () => attempt(() => live.call("setting.reset", { name: one.name }), t("admin.saved"), again);
  return html`<section class="stack"><h2 class="big mono">${one.name}</h2><p>${meaningOf(one)}</p>
    <dl class="facts"><div><dt>${t("admin.value")}</dt><dd>${shown(one, one.value)}</dd></div>
      <div><dt>${t("admin.default")}</dt><dd>${shown(one, one.default)} <small>${one.in_conf ? t("admin.from-conf") : ""}</small></dd></div>
      <div><dt>${t("admin.range")}</dt><dd>${rangeOf(one)}</dd></div></dl>
    <${ChangeForm} key=${JSON.stringify(before)} before=${before} send=${send} done=${again}>
      <label class="labelled">${t("admin.value")} ${one.unit === "seconds" || one.unit === "bytes" ? html`<small>${t(`unit.${one.unit}`)}</small>` : null}
        ${one.range.words.length ? html`<select name="value">${one.range.words.map((word) => html`<option key=${word} value=${word} selected=${word === one.value}>${word}</option>`)}</select>` : html`<input name="value" value=${before.value} placeholder=${one.range.none ? t("admin.none") : ""} autocomplete="off" />`}</label>
    <//>
    <div class="button-row"><button aria-disabled=${one.by === null} title=${one.by === null ? t("not.set") : `muster set --default ${one.name}`} onClick=${() => one.by !== null && reset()}>${t("admin.reset")}</button></div>
    <${Command} text=${`muster set ${one.name} ${one.value === null ? "none" : quoted(String(one.value))}`} />
  </section>`;
}

/** @param {Setting} one */
function rangeOf(one) {
  if (one.range.words.length) return one.range.words.join(", ");
  const none = one.range.none ? `, ${t("admin.none")}` : "";
  const [least, most] = [one.range.least, one.range.most].map((value) => bound(one, value ?? 0));
  const isEndless = (one.range.most ?? 0) >= (one.unit === "seconds" ? ENDLESS_S : ENDLESS);
  return isEndless ? `${t("admin.at-least", { least })}${none}` : `${least} – ${most}${none}`;
}

/** @param {Setting} one @param {number} value */
function bound(one, value) {
  if (value === 0) return "0";
  if (one.unit === "bytes") return wholeSize(value);
  return one.unit === "number" ? number(value) : shown(one, value);
}

/**
 * As the master takes it; what is no number it refuses.
 * @param {Setting} one
 * @param {string} text
 */
function typed(one, text) {
  if (text === "") return null;
  if (one.unit === "word") return text;
  if (one.unit === "seconds") return seconds(text);
  return Number.isFinite(Number(text)) ? Number(text) : text;
}

// Before a machine is opened or the master stopped: nodes are drained, what waits is held, and back. And how the master is.

import { useAsked } from "../../core/asked.js";
import { WAITING } from "../../core/cluster.js";
import { live, store } from "../../core/context.js";
import { count, quoted, span, wholeMoment } from "../../core/format.js";
import { harmless } from "../../core/harmless.js";
import { html, useMemo, useState } from "../../core/html.js";
import { said, t } from "../../core/i18n.js";
import { useCluster } from "../../core/store.js";
import { Command } from "../../parts/command.js";
import { attempt } from "../../parts/form.js";
import { reasonsOf } from "../../parts/node-actions.js";
import { Refusal } from "../../parts/refusal.js";
import { NodeState } from "../../parts/state.js";
import { Table } from "../../parts/table.js";
import { act } from "../../parts/task-actions.js";
import { askText } from "../../parts/text-question.js";
import { complain, tell } from "../../parts/toast.js";
import { Waits } from "../../parts/waits.js";

/** @typedef {import("../../core/cluster.js").Node} Node */

export function Section() {
  return html`<div class="page stack maintenance"><${Nodes} /><div class="halves"><${Waiting} /><${Master} /></div></div>`;
}

function Nodes() {
  const cluster = useCluster(store, ["nodes"]);
  const nodes = useMemo(() => [...cluster.nodes.values()], [cluster.versions.nodes]);
  const [selected, setSelected] = useState(/** @type {Set<string | number>} */ (new Set()));
  const chosen = nodes.filter((node) => selected.has(node.name));
  const columns = useMemo(nodeColumns, [t("nodes.name")]);
  const open = chosen.filter((node) => node.drained === null);
  const closed = chosen.filter((node) => node.drained !== null || node.sick !== null);
  return html`<section class="card table-card">
    <div class="action-bar" role="toolbar" aria-label=${t("queue.actions")}><h2>${t("page.nodes")}</h2><span class="grow"></span>
      <button aria-disabled=${!open.length} title=${open.length ? "muster node drain" : t("not.chosen")} onClick=${() => open.length && drain(open)}>${t("node.drain")}</button>
      <button aria-disabled=${!closed.length} title=${closed.length ? "muster node resume" : t("not.drained")} onClick=${() => closed.length && resume(closed)}>${t("node.resume")}</button></div>
    <${Table} label=${t("page.nodes")} columns=${columns} rows=${nodes} keyOf=${(/** @type {Node} */ node) => node.name} selected=${selected} onSelect=${setSelected} empty=${html`${t("overview.no-nodes")}<code>muster node add</code>`} />
  </section>`;
}

function nodeColumns() {
  return [
    { name: "name", title: t("nodes.name"), width: 160, cell: (/** @type {Node} */ node) => html`<a href=${`nodes/${encodeURIComponent(node.name)}`}>${harmless(node.name)}</a>` },
    { name: "state", title: t("column.state"), width: 120, cell: (/** @type {Node} */ node) => html`<${NodeState} node=${node} />` },
    { name: "tasks", title: t("node.tasks"), width: 160, isNumber: true, cell: (/** @type {Node} */ node) => node.tasks.length || "" },
    { name: "why", title: t("nodes.why"), width: 0, cell: (/** @type {Node} */ node) => html`<span class="dim" title=${reasonsOf(node)}>${reasonsOf(node)}</span>` },
  ];
}

/** @param {Node[]} nodes */
async function drain(nodes) {
  const names = nodes.map((node) => node.name);
  const reason = await askText({
    title: t("admin.drain.ask", { count: nodes.length }), note: t("node.drain.text"), label: t("node.drain.why"), isOptional: true, hits: names.map(harmless), confirm: t("node.drain"),
    command: (text) => names.map((name) => `muster node drain ${quoted(name)}${text ? ` --reason ${quoted(text)}` : ""}`).join("; "),
  });
  if (reason !== null) await each(names, (name) => live.call("node.drain", { name, ...(reason ? { reason } : {}) }), "admin.drain.done");
}

/** @param {Node[]} nodes */
async function resume(nodes) {
  await each(nodes.map((node) => node.name), (name) => live.call("node.resume", { name }), "admin.resume.done");
}

/** @param {string[]} names @param {(name: string) => Promise<unknown>} does @param {string} says */
async function each(names, does, says) {
  const results = await Promise.allSettled(names.map(does));
  const done = results.filter((one) => one.status === "fulfilled").length;
  if (done) tell(t(says, { count: done }));
  results.flatMap((one) => (one.status === "rejected" ? [one.reason] : [])).slice(0, 3).forEach(complain);
}

function Waiting() {
  const cluster = useCluster(store, ["tasks"]);
  const tasks = [...cluster.tasks.values()].filter((task) => WAITING.has(task.state));
  const [waiting, held] = [tasks.filter((task) => task.state === "waiting"), tasks.filter((task) => task.state === "held")];
  return html`<section class="card stack"><h2>${t("admin.queue")}</h2><p class="dim">${t("admin.queue.how")}</p>
    <div class="button-row">
      <button aria-disabled=${!waiting.length} onClick=${() => waiting.length && act("hold", waiting)}>${t("admin.hold-all", { count: count(waiting.length) })}</button>
      <button aria-disabled=${!held.length} onClick=${() => held.length && act("release", held)}>${t("admin.release-all", { count: count(held.length) })}</button>
      <a class="button" href="queue?show=waiting">${t("page.queue")}</a></div>
  </section>`;
}

function Master() {
  const told = useAsked("server.info");
  const info = told.answer;
  if (told.fault) return html`<section class="card"><${Refusal} fault=${told.fault} again=${told.again} /></section>`;
  if (!info) return html`<section class="card"><${Waits} /></section>`;
  const closed = (info.desktop_closed ?? []).map((/** @type {any} */ one) => said(one.key, one.args, one.text));
  const clock = (info.clock ?? []).map((/** @type {any} */ one) => said(one.key, one.args, one.text));
  const shut = (info.closed_nodes ?? []).map((/** @type {any} */ one) => said(one.key, one.args, one.text));
  const hooks = (info.failing_hooks ?? []).map((/** @type {any} */ one) => said(one.key, one.args, one.text));
  const faults = [info.store_fault, info.compaction_fault, info.ids_fault, info.registry_fault, info.conf_fault, ...closed, ...clock, ...shut, ...hooks].filter(Boolean);
  const facts = [["version", info.version], ["started", `${wholeMoment(info.started_at)} (${span(Date.now() / 1000 - info.started_at)})`], ["conf", info.conf], ["folder", info.task_info]];
  return html`<section class="card stack"><h2>${t("admin.master")}</h2>
    <dl class="facts">${facts.filter(([, value]) => value).map(([name, value]) => html`<div key=${name}><dt>${t(`admin.info.${name}`)}</dt><dd class="mono">${harmless(value)}</dd></div>`)}</dl>
    ${faults.map((fault) => html`<p class="refusal">${harmless(fault)}</p>`)}
    ${faults.length ? null : html`<p class="is-good">${t("admin.well")}</p>`}
    ${info.conf_at_start?.length ? html`<p class="warned">${t("admin.at-start", { keys: info.conf_at_start.join(", ") })}</p>` : null}
    ${info.damage?.length ? html`<p class="warned">${t("admin.damage")}</p><${Command} text="muster status" /><div><button onClick=${() => attempt(() => live.call("server.seen"), t("admin.saved"), told.again)}>${t("admin.seen")}</button></div>` : null}
  </section>`;
}

// The whole at a glance: every GPU as a cell, what runs and waits, and what needs the one who looks.

import { useNow } from "../core/clock.js";
import { RUNNING } from "../core/cluster.js";
import { store } from "../core/context.js";
import { count, span, timeOf, titleOf } from "../core/format.js";
import { harmless } from "../core/harmless.js";
import { classes, html } from "../core/html.js";
import { said, t } from "../core/i18n.js";
import { queued } from "../core/order.js";
import { address } from "../core/route.js";
import { me } from "../core/session.js";
import { Day, useEndedOfDay } from "../parts/day.js";
import { GpuCell, GpuLegend, gpusOf } from "../parts/gpu.js";
import { Said } from "../parts/said.js";
import { NodeState, State } from "../parts/state.js";
import { useCluster } from "../core/store.js";
import { Waits } from "../parts/waits.js";

const MOST_TOLD = 8;
/** From so many on they scroll by themselves, so that what comes next is not far below. */
const MANY_NODES = 40;
const DAY_S = 86_400;
/** @typedef {import("../core/cluster.js").Task} Task */

export function Page() {
  const cluster = useCluster(store, ["tasks", "ended", "nodes", "samples"]);
  const since = useEndedOfDay();
  if (!cluster.arrived.tasks || !cluster.arrived.nodes) return html`<${Waits} />`;
  const nodes = [...cluster.nodes.values()];
  const gpus = new Map(nodes.map((node) => [node.name, gpusOf(cluster, node, me.value?.user)]));
  return html`<div class="page overview">
    <h1 class="unseen">${t("page.overview")}</h1>
    <${Counts} cluster=${cluster} gpus=${[...gpus.values()].flat()} />
    <div class="overview-columns">
      <div class="stack"><section class="card">
        <h2>${t("overview.gpus")}</h2>
        ${nodes.length === 0 ? html`<div class="empty">${t("overview.no-nodes")}<code>muster node add</code></div>` : null}
        <div class=${classes("gpu-nodes", nodes.length > MANY_NODES && "is-many")} tabindex=${nodes.length > MANY_NODES ? 0 : undefined}>
          ${nodes.map((node) => html`<${NodeGpus} key=${node.name} node=${node} gpus=${gpus.get(node.name)} />`)}
        </div>
        <${GpuLegend} />
      </section>
      <${Next} cluster=${cluster} />
      <section class="card"><h2>${t("day.title")}</h2><${LastDay} cluster=${cluster} total=${[...gpus.values()].flat().length} since=${since} /></section></div>
      <${Needs} cluster=${cluster} />
    </div>
  </div>`;
}

/** @param {{cluster: import("../core/cluster.js").Cluster, total: number, since: number | null}} props */
function LastDay({ cluster, total, since }) {
  return html`<${Day} cluster=${cluster} total=${total} now=${useNow()} since=${since} />`;
}

/** @param {{cluster: import("../core/cluster.js").Cluster, gpus: import("../parts/gpu.js").GpuNow[]}} props */
function Counts({ cluster, gpus }) {
  const states = /** @type {Record<string, number>} */ ({});
  for (const task of cluster.tasks.values()) states[task.state] = (states[task.state] ?? 0) + 1;
  const running = (states.running ?? 0) + (states.starting ?? 0) + (states.paused ?? 0);
  const since = Date.now() / 1000 - DAY_S;
  const recent = [...cluster.ended.values()].filter((task) => (task.ended_at ?? 0) > since);
  const failed = recent.filter((task) => task.state === "failed" || task.state === "timed_out" || task.state === "lost");
  const held = gpus.filter((gpu) => gpu.heldBy.length).length;
  const busy = gpus.filter((gpu) => gpu.heldBy.length && gpu.use !== null);
  const use = busy.length ? Math.round(busy.reduce((sum, gpu) => sum + (gpu.use ?? 0), 0) / busy.length) : null;
  return html`<div class="counts">
    <${Figure} to="nodes" name=${t("overview.held")} value=${`${held} / ${gpus.length}`}
      note=${use === null ? "" : t("overview.use", { use })} />
    <${Figure} to=${address("queue", { show: "active" })} name=${t("overview.running")} value=${count(running)} />
    <${Figure} to=${address("queue", { show: "waiting" })} name=${t("overview.waiting")} value=${count(states.waiting ?? 0)}
      note=${states.held ? t("overview.heldback", { count: count(states.held) }) : ""} />
    <${Figure} to=${address("queue", { show: "ended", q: "state:failed,timed_out,lost" })} name=${t("overview.failed")}
      value=${count(failed.length)} isBad=${failed.length > 0} />
  </div>`;
}

/** @param {{to: string, name: string, value: string, note?: string, isBad?: boolean}} props */
function Figure({ to, name, value, note = "", isBad = false }) {
  return html`<a class=${isBad ? "figure is-bad" : "figure"} href=${to}><span>${name}</span> <b>${value}</b> <small>${note}</small></a>`;
}

/** @param {{node: import("../core/cluster.js").Node, gpus: import("../parts/gpu.js").GpuNow[]}} props */
function NodeGpus({ node, gpus }) {
  const isWell = node.state === "online" && !node.reason;
  return html`<div class="gpu-node">
    <div class="gpu-node-name">
      <a href=${`nodes/${encodeURIComponent(node.name)}`}>${harmless(node.name)}</a>
      ${isWell ? null : html`<${NodeState} node=${node} />`}
    </div>
    <div class="gpu-row">
      ${gpus.map((gpu) => html`<${GpuCell} key=${gpu.index} gpu=${gpu} node=${node.name} />`)}
      ${gpus.length === 0 ? html`<span class="dim">${t("overview.slots", { held: node.slots_held, slots: node.slots ?? 0 })}</span>` : null}
    </div>
  </div>`;
}

/**
 * The next tasks, and why they wait.
 * @param {{cluster: import("../core/cluster.js").Cluster}} props
 */
function Next({ cluster }) {
  const now = useNow();
  const waiting = queued(cluster).filter((task) => task.state === "waiting");
  return html`<section class="card">
    <h2>${t("overview.next")}</h2>
    ${waiting.length === 0 ? html`<p class="empty">${t("overview.none-waiting")}</p>` : null}
    <ul class="list needs">
      ${waiting.slice(0, MOST_TOLD).map((task) => html`<${Told} key=${task.id} task=${task} now=${now} />`)}
    </ul>
    ${waiting.length > MOST_TOLD ? html`<a href=${address("queue", { show: "waiting" })}>${t("overview.all")}</a>` : null}
  </section>`;
}

/**
 * Things for the viewer to look after: own failed, idle and held tasks; and nodes that are not well.
 * @param {{cluster: import("../core/cluster.js").Cluster}} props
 */
function Needs({ cluster }) {
  const now = useNow();
  const user = me.value?.user;
  const mine = (/** @type {Task} */ task) => !me.value?.is_shared || task.owner === user;
  const ended = [...cluster.ended.values()]
    .filter((task) => mine(task) && ["failed", "timed_out", "lost"].includes(task.state) && (task.ended_at ?? 0) > now - DAY_S)
    .sort((a, b) => (b.ended_at ?? 0) - (a.ended_at ?? 0));
  const warned = [...cluster.tasks.values()].filter((task) => mine(task) && (task.warning || task.state === "held"));
  const sick = [...cluster.nodes.values()].filter((node) => node.state !== "online" || node.sick);
  const running = [...cluster.tasks.values()].filter((task) => mine(task) && RUNNING.has(task.state));
  return html`<aside class="needs">
    <section class="card">
      <h2>${t("overview.needs")}</h2>
      ${ended.length + warned.length + sick.length === 0 ? html`<p class="empty is-good">${t("overview.nothing")}</p>` : null}
      <ul class="list">
        ${[...warned, ...ended].slice(0, MOST_TOLD).map((task) => html`<${Told} key=${task.id} task=${task} now=${now} />`)}
        ${sick.slice(0, MOST_TOLD).map(
          (node) => html`<li key=${node.name}>
            <a href=${`nodes/${encodeURIComponent(node.name)}`}><b>${harmless(node.name)}</b> <${NodeState} node=${node} /></a>
            <p>${node.reason_messages[0] ? said(node.reason_messages[0].key, node.reason_messages[0].args, node.reason) : ""}</p>
          </li>`,
        )}
      </ul>
    </section>
    <section class="card">
      <h2>${t("overview.mine")}</h2>
      ${running.length === 0 ? html`<p class="empty">${t("overview.none-running")}</p>` : null}
      <ul class="list">
        ${running.slice(0, MOST_TOLD).map((task) => html`<${Told} key=${task.id} task=${task} now=${now} />`)}
      </ul>
      ${running.length > MOST_TOLD ? html`<a href=${address("queue", { show: "active", q: "owner:me" })}>${t("overview.all")}</a>` : null}
    </section>
  </aside>`;
}

/** @param {{task: Task, now: number}} props */
function Told({ task, now }) {
  const why = task.warning ? said(task.warning_key, task.warning_args, task.warning) : said(task.reason_key, task.reason_args, task.reason);
  return html`<li>
    <a href=${`tasks/${task.id}`}><${State} state=${task.state} short=${true} /><b>${titleOf(task)}</b><small>${harmless(task.owner)}</small></a>
    <time>${span(timeOf(task, now))}</time>
    ${why ? html`<p><${Said} text=${why} /></p>` : null}
  </li>`;
}

// A screen on a wall: large, and read by whoever passes. It shows of tasks names, owners, states and times, of nodes how they are, and
// asks for nothing else; who looks needs a token with the scope `wall` and no more.

import { useNow } from "../core/clock.js";
import { RUNNING } from "../core/cluster.js";
import { live, store } from "../core/context.js";
import { count, moment, placeOf, ranges, span, timeOf } from "../core/format.js";
import { harmless } from "../core/harmless.js";
import { html, useEffect, useMemo } from "../core/html.js";
import { language, setLanguage, t, useLanguage } from "../core/i18n.js";
import { queued } from "../core/order.js";
import { usePlace } from "../core/route.js";
import { useSignal } from "../core/signal.js";
import { useCluster } from "../core/store.js";
import { setTheme, THEMES } from "../core/theme.js";
import { Day, useEndedOfDay } from "../parts/day.js";
import { GpuCell, GpuLegend, gpusOf } from "../parts/gpu.js";
import { NodeState, State } from "../parts/state.js";

/** @typedef {import("../core/cluster.js").Task} Task */

const LISTED = 7;
const DAY_S = 86_400;
/** So many GPUs have room in each size. */
const SIZES = /** @type {[number, string][]} */ ([[48, "huge"], [96, "large"], [128, "medium"], [256, "small"], [512, "tiny"]]);

export function Wall() {
  useLanguage();
  useWishes();
  const cluster = useCluster(store, ["tasks", "ended", "nodes", "samples"]);
  const now = useNow();
  const since = useEndedOfDay();
  const nodes = [...cluster.nodes.values()];
  const gpus = nodes.map((node) => gpusOf(cluster, node, null));
  const all = gpus.flat();
  const running = useMemo(() => [...cluster.tasks.values()].filter((task) => RUNNING.has(task.state)).sort((a, b) => (b.started_at ?? 0) - (a.started_at ?? 0)), [cluster.versions.tasks]);
  const waiting = useMemo(() => queued(cluster).filter((task) => task.state === "waiting"), [cluster.versions.tasks]);
  const size = SIZES.find(([most]) => all.length <= most)?.[1] ?? "crowd";
  return html`<div class=${`wall is-${size}`}>
    <header><img src="static/icon.svg" alt="" /><h1 class="unseen">${t("page.overview")}</h1><${Figures} cluster=${cluster} gpus=${all} running=${running.length} waiting=${waiting.length} now=${now} /><${Live} now=${now} /></header>
    <main id="main">
      <section class="wall-nodes" aria-label=${t("page.nodes")}>
        <div class="wall-grid">${nodes.map((node, at) => html`<div key=${node.name} class="wall-node">
          <b>${harmless(node.name)}</b>${node.state === "online" && node.drained === null && !node.sick ? null : html`<${NodeState} node=${node} />`}
          <div class="gpu-row">${gpus[at].map((gpu) => html`<${GpuCell} key=${gpu.index} gpu=${gpu} node=${node.name} isPlain=${true} />`)}${gpus[at].length ? null : html`<small>${t("overview.slots", { held: node.slots_held, slots: node.slots ?? 0 })}</small>`}</div>
          ${node.reservation ? html`<small class="dim">${kept(node.reservation)}</small>` : null}
        </div>`)}</div>
        <${GpuLegend} />
      </section>
      <aside>
        <${Tasks} title=${t("overview.running")} tasks=${running} now=${now} empty=${t("wall.idle")} />
        <${Tasks} title=${t("overview.next")} tasks=${waiting} now=${now} empty=${t("overview.none-waiting")} />
        <section><h2>${t("day.title")}</h2><${Day} cluster=${cluster} total=${all.length} now=${now} since=${since} isPlain=${true} /></section>
      </aside>
    </main>
  </div>`;
}

/**
 * For which task GPUs are reserved, by its number: whose it is, the list of tasks shows.
 * @param {NonNullable<import("../core/cluster.js").Node["reservation"]>} it
 */
function kept({ task, gpus, expected_at: at }) {
  const words = { task, gpus: ranges(gpus) };
  return at === null ? t("wall.kept", words) : t("wall.kept-until", { ...words, at: moment(at) });
}

/** Language and theme of a screen stand in its address: nobody can click there. */
function useWishes() {
  const { query } = usePlace();
  const [wanted, theme] = [query.get("lang"), query.get("theme")];
  useEffect(() => {
    const name = /^zh/i.test(wanted ?? "") ? "zh-CN" : /^en/i.test(wanted ?? "") ? "en" : null;
    if (name && name !== language.value) setLanguage(name);
    const look = THEMES.find((one) => one === theme);
    if (look) setTheme(look);
  }, [wanted, theme]);
}

/** @param {{now: number}} props */
function Live({ now }) {
  const state = useSignal(live.state);
  return html`<div class="wall-clock"><time>${moment(now).slice(0, 5)}</time>
    ${state === "live" ? null : html`<span class="banner is-bad" role="alert">${live.lostAt ? t("live.lost.since", { since: moment(live.lostAt / 1000) }) : t(`live.${state}`)}</span>`}</div>`;
}

/** @param {{cluster: import("../core/cluster.js").Cluster, gpus: import("../parts/gpu.js").GpuNow[], running: number, waiting: number, now: number}} props */
function Figures({ cluster, gpus, running, waiting, now }) {
  const held = gpus.filter((gpu) => gpu.heldBy.length).length;
  const failed = [...cluster.ended.values()].filter((task) => (task.ended_at ?? 0) > now - DAY_S && ["failed", "timed_out", "lost"].includes(task.state)).length;
  const figures = [["held", `${held} / ${gpus.length}`], ["running", count(running)], ["waiting", count(waiting)], ["failed", count(failed)]];
  return html`<dl class="wall-figures">${figures.map(([name, value]) => html`<div key=${name} class=${name === "failed" && failed ? "is-bad" : ""}><dt>${t(`overview.${name}`)}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** @param {Task} task */
function gpusOfTask(task) {
  const n = task.gpus * Math.max(1, task.nodes);
  return t("wall.gpus", { count: n, n });
}

/** @param {{title: string, tasks: Task[], now: number, empty: string}} props */
function Tasks({ title, tasks, now, empty }) {
  return html`<section class="wall-tasks"><h2>${title}${tasks.length > LISTED ? html` <small>${t("dialog.more", { count: tasks.length - LISTED })}</small>` : null}</h2>
    ${tasks.length === 0 ? html`<p class="dim">${empty}</p>` : null}
    <ul>${tasks.slice(0, LISTED).map((task) => html`<li key=${task.id}><${State} state=${task.state} short=${true} /><b>${harmless(task.name || `#${task.id}`)}</b><span>${harmless(task.owner)}</span><span class="mono">${placeOf(task) || gpusOfTask(task)}</span><time>${span(timeOf(task, now))}</time></li>`)}</ul>
  </section>`;
}

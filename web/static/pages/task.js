// One task: what it is at, how far, what can be done; its log, why it waits, its folder, everything
// that is known of it, and in what it differs from another.

import { withSignal } from "../core/exit-codes.js";
import { asFailure } from "../core/failure.js";
import { useReturned } from "../core/asked.js";
import { useNow } from "../core/clock.js";
import { ENDED, RUNNING, WAITING } from "../core/cluster.js";
import { live, store } from "../core/context.js";
import { commandLine, placeOf, span, timeOf, titleOf, wholeMoment } from "../core/format.js";
import { harmless } from "../core/harmless.js";
import { html, useEffect, useState } from "../core/html.js";
import { said, saidOfFailure, t, useLanguage } from "../core/i18n.js";
import { useKeys } from "../core/keys.js";
import { standing } from "../core/order.js";
import { goBackTo, setQuery, usePlace } from "../core/route.js";
import { useCluster } from "../core/store.js";
import { Later } from "../parts/later.js";
import { Said } from "../parts/said.js";
import { State } from "../parts/state.js";
import { act, TaskActions } from "../parts/task-actions.js";
import { Waits } from "../parts/waits.js";

/** @typedef {import("../core/cluster.js").Task} Task */
/**
 * Each with its key; small letters are taken by what a log and a folder can do.
 * @type {Record<string, string>}
 */
const TABS = { log: "l", why: "w", details: "d", files: "F", compare: "C" };
/** @type {Record<string, string>} */
const ACTIONS = { c: "cancel", r: "retry", h: "hold", u: "release", p: "pause", P: "resume", M: "edit" };

const loads = {
  log: () => import("../parts/log.js"),
  details: () => import("../parts/task-details.js"),
  compare: () => import("../parts/task-compare.js"),
  files: () => import("../parts/task-files.js"),
  edit: () => import("../parts/task-edit.js"),
};
const opened = new URLSearchParams(location.search).get("tab") ?? "log";
// What is looked at first is asked for beside all else, and not once the task is there.
if (opened in loads) /** @type {Record<string, () => Promise<any>>} */ (loads)[opened]().catch(() => undefined);

/** @param {{parts: string[]}} props */
export function Page({ parts }) {
  const id = Number(parts[0]);
  const { query } = usePlace();
  useLanguage();
  const { task, page, fault } = useTask(id);
  const tab = query.get("tab") ?? (task && WAITING.has(task.state) ? "why" : "log");
  useKeys({
    ...Object.fromEntries(Object.entries(TABS).map(([name, key]) => [key, { does: () => setQuery({ tab: name }), says: `tab.${name}` }])),
    ...(task ? Object.fromEntries(Object.entries(ACTIONS).map(([key, name]) => [key, { does: () => act(name, [task]), says: `action.${name}` }])) : {}),
    Escape: { does: () => goBackTo("queue"), says: "page.queue" },
  });
  if (fault && !task) return html`<div class="empty"><p><${Said} text=${saidOfFailure(asFailure(fault))} /></p><a href="queue?show=all">${t("page.queue")}</a></div>`;
  if (!task) return html`<${Waits} />`;
  return html`<div class="page fills task">
    <${Head} task=${task} page=${page} />
    <div class="tabs is-line" role="tablist" aria-label=${titleOf(task)}>
      ${Object.keys(TABS).map(
        (name) => html`<button key=${name} role="tab" id=${`tab-${name}`} aria-selected=${tab === name} aria-controls="panel"
          onClick=${() => setQuery({ tab: name })}>${t(`tab.${name}`)}</button>`,
      )}
    </div>
    <div class="panel" id="panel" ...${tab in TABS ? { role: "tabpanel", "aria-labelledby": `tab-${tab}` } : { role: "region", "aria-label": t("action.edit") }}>
      <${Panel} tab=${tab} task=${task} page=${page} />
    </div>
  </div>`;
}

/** @param {{tab: string, task: Task, page: any}} props */
function Panel({ tab, task, page }) {
  if (tab === "why") return html`<${Why} task=${task} />`;
  if (tab === "details") return html`<${Later} key="details" load=${loads.details} words=${["fields"]} draw=${(/** @type {any} */ { Details }) => html`<${Details} task=${task} page=${page} />`} />`;
  if (tab === "edit") return html`<${Later} key="edit" load=${loads.edit} words=${["submit", "fields"]} draw=${(/** @type {any} */ { Edit }) => html`<${Edit} key=${task.id} task=${task} />`} />`;
  if (tab === "compare") return html`<${Later} key="compare" load=${loads.compare} words=${["fields"]} draw=${(/** @type {any} */ { Compare }) => html`<${Compare} task=${task} page=${page} />`} />`;
  if (tab === "files") return html`<${Later} key="files" load=${loads.files} words=${["folders"]} draw=${(/** @type {any} */ { TaskFiles }) => html`<${TaskFiles} task=${task} />`} />`;
  const log = { which: { id: task.id }, isBegun: task.started_at !== null, isOver: () => ENDED.has(task.state), path: `tasks/${task.id}/log` };
  return html`<${Later} key="log" load=${loads.log} words=${["log"]} draw=${(/** @type {any} */ { Log }) => html`<${Log} key=${`${task.id}/${task.attempt}`} ...${log} />`} />`;
}

/**
 * The task as it is now, and its page, asked for anew with each change of it.
 * @param {number} id
 */
function useTask(id) {
  const cluster = useCluster(store, ["tasks", "ended"]);
  const [page, setPage] = useState(/** @type {any} */ (null));
  const [fault, setFault] = useState(/** @type {unknown} */ (null));
  const known = cluster.task(id);
  const seq = /** @type {any} */ (known)?.seq;
  const returned = useReturned(fault);
  useEffect(() => {
    let isWanted = true;
    live.call("task.show", { id }).then(
      (it) => isWanted && (setPage(it), setFault(null)),
      (error) => isWanted && setFault(error),
    );
    return () => {
      isWanted = false;
    };
  }, [id, seq, returned]);
  /** @type {Task | null} */
  const task = known ?? (page?.id === id ? page : null);
  return { task, page: page?.id === id ? page : null, fault };
}

/** @param {{task: Task, page: any}} props */
function Head({ task, page }) {
  const now = useNow();
  const isRunning = RUNNING.has(task.state);
  const elapsed = timeOf(task, now);
  return html`<header class="task-head">
    <div class="task-title">
      <span class="task-id">${task.id}</span>
      <h1 title=${titleOf(task)}>${titleOf(task)}</h1>
      <${State} state=${task.state} />
      ${task.cancel_requested && !ENDED.has(task.state) ? html`<span class="chip">${t("task.ending")}</span>` : null}
    </div>
    <div class="task-facts">
      <span>${harmless(task.owner)}</span>
      ${task.project ? html`<span>${harmless(task.project)}</span>` : null}
      ${task.allocation.length ? html`<span class="mono">${placeOf(task)}</span>` : null}
      ${elapsed === null ? null : html`<span title=${wholeMoment(task.started_at ?? task.submitted_at)}>${WAITING.has(task.state) ? t("task.waits", { span: span(elapsed) }) : span(elapsed)}</span>`}
      ${task.exit_code === null ? null : html`<span>${t("task.exit", { code: withSignal(task.exit_code) })}</span>`}
      ${isRunning && page?.expected_s ? html`<${Progress} elapsed=${elapsed ?? 0} expected=${page.expected_s} limit=${task.time_limit_s} />` : null}
    </div>
    ${task.warning ? html`<p class="warned"><${Said} text=${said(task.warning_key, task.warning_args, task.warning)} /></p>` : null}
    ${ENDED.has(task.state) && task.state !== "succeeded" && (task.reason || task.last_line)
      ? html`<p class="ended-why"><${Said} text=${said(task.reason_key, task.reason_args, task.reason)} />${task.last_line ? html`<code class="last-line">${harmless(task.last_line)}</code>` : null}</p>`
      : null}
    <div class="task-actions" role="toolbar" aria-label=${t("queue.actions")}><${TaskActions} tasks=${[task]} only=${fitting(task)} />
      <a class="button" href=${`submit?like=${task.id}`}>${t("task.like")}</a></div>
  </header>`;
}

/**
 * The actions that fit the task's state, and no others: a finished task has no Pause.
 * @param {Task} task
 */
function fitting(task) {
  if (ENDED.has(task.state)) return ["retry", "edit", "remove"];
  if (WAITING.has(task.state)) return [task.state === "held" ? "release" : "hold", "edit", "start", "cancel", "remove"];
  return [task.state === "paused" ? "resume" : "pause", "cancel"];
}

/**
 * How far it may be, by what its like took.
 * @param {{elapsed: number, expected: any, limit: number | null}} props
 */
function Progress({ elapsed, expected, limit }) {
  const part = Math.min(1, elapsed / Math.max(1, expected.high));
  const left = Math.max(0, expected.high - elapsed);
  const words = t("task.expected", { low: span(expected.low), high: span(expected.high), runs: expected.runs });
  return html`<span class="progress" title=${words}>
    <progress value=${part} max="1" aria-label=${words}></progress>
    ${left > 0 ? t("task.left", { span: span(left) }) : t("task.longer")}
    ${limit ? html`<small>${t("task.limit", { span: span(limit) })}</small>` : null}
  </span>`;
}

/**
 * Why it waits, by name: asked anew with each change of the task, and every few seconds while it waits.
 * @param {{task: Task}} props
 */
function Why({ task }) {
  const [why, setWhy] = useState(/** @type {any} */ (null));
  const [fault, setFault] = useState(/** @type {unknown} */ (null));
  const now = useNow();
  const returned = useReturned(fault);
  const tick = WAITING.has(task.state) ? Math.floor(now / 5) : 0;
  useEffect(() => {
    let isWanted = true;
    live.call("task.why", { id: task.id }).then(
      (it) => isWanted && (setWhy(it), setFault(null)),
      (error) => isWanted && setFault(error),
    );
    return () => {
      isWanted = false;
    };
  }, [task.id, /** @type {any} */ (task).seq, tick, returned]);
  if (fault && !why) return html`<div class="empty"><p><${Said} text=${saidOfFailure(asFailure(fault))} /></p></div>`;
  if (!why) return html`<${Waits} />`;
  const details = why.details ?? [];
  const ways = why.would_start ?? [];
  const kind = RUNNING.has(task.state) ? "runs" : ENDED.has(task.state) ? "ended" : "soon";
  return html`<div class="why">
    <p class="why-reason"><${Said} text=${said(why.reason_key, why.reason_args, why.reason) || t(`why.${kind}`)} /></p>
    ${why.blocked_by?.length
      ? html`<p>${t("why.blocked")} ${why.blocked_by.map((/** @type {number} */ id) => html`<a key=${id} class="chip" href=${`tasks/${id}`}>${id}</a>`)}</p>`
      : null}
    <${Lines} texts=${details} messages=${why.detail_messages} />
    ${ways.length ? html`<p>${t("why.would-start")}</p>` : null}
    <${Lines} texts=${ways} messages=${why.would_start_messages} />
    ${WAITING.has(task.state) ? html`<p class="dim">${t("why.position", standing(store.cluster, task))}</p>` : null}
    <p class="dim mono">${commandLine(task.command)}</p>
  </div>`;
}

/** @param {{texts: string[], messages?: any[]}} props */
function Lines({ texts, messages }) {
  if (!texts.length) return null;
  return html`<ul class="list">
    ${texts.map((text, at) => html`<li key=${at}><${Said} text=${said(messages?.[at]?.key, messages?.[at]?.args, text)} /></li>`)}
  </ul>`;
}

// An array of tasks, or a sweep over values: each task a cell, and what failed, put together by what the logs ended with.

import { asFailure } from "../core/failure.js";
import { useReturned } from "../core/asked.js";
import { wholeTasks } from "../core/cluster.js";
import { live, store } from "../core/context.js";
import { commonName, statesOf } from "../core/groups.js";
import { count, titleOf } from "../core/format.js";
import { harmless } from "../core/harmless.js";
import { html, useEffect, useState } from "../core/html.js";
import { saidOfFailure, t, useLanguage } from "../core/i18n.js";
import { useKeys } from "../core/keys.js";
import { goBackTo } from "../core/route.js";
import { useSignal } from "../core/signal.js";
import { useCluster } from "../core/store.js";
import { failuresOf, tableOf } from "../core/sweep-table.js";
import { Said } from "../parts/said.js";
import { State } from "../parts/state.js";
import { TaskActions } from "../parts/task-actions.js";
import { Waits } from "../parts/waits.js";

/** @typedef {import("../core/sweep-table.js").Task} Task */

const ACTIONS = ["retry", "hold", "release", "cancel"];

/** @param {{parts: string[]}} props */
export function Page({ parts }) {
  const id = Number(parts[0]);
  useLanguage();
  const { tasks, fault } = useArray(id);
  useKeys({ Escape: { does: () => goBackTo("queue"), says: "page.queue" } });
  if (fault) return html`<div class="empty"><p><${Said} text=${saidOfFailure(asFailure(fault))} /></p><a href="queue?show=all">${t("page.queue")}</a></div>`;
  if (!tasks?.length) return html`<${Waits} />`;
  return html`<div class="page sweep stack">
    <header class="task-head">
      <div class="task-title"><span class="task-id">${id}/</span><h1>${harmless(commonName(tasks)) || t("page.sweep")}</h1></div>
      <div class="task-facts"><span>${harmless(tasks[0].owner)}</span><span>${t("queue.tasks", { count: count(tasks.length), n: tasks.length })}</span>
        ${statesOf(tasks).map(([state, number]) => html`<span key=${state} class="group-state"><${State} state=${state} />${count(number)}</span>`)}</div>
      <div class="task-actions" role="toolbar" aria-label=${t("queue.actions")}><${TaskActions} tasks=${tasks} only=${ACTIONS} />
        <a class="button" href=${`submit?like=${tasks[0].id}`}>${t("task.like")}</a></div>
    </header>
    <${Matrix} tasks=${tasks} />
    <${Failures} tasks=${tasks} />
  </div>`;
}

/**
 * All tasks of the array: listed once, and as the cluster knows them from then on.
 * @param {number} id of its first task
 */
function useArray(id) {
  const cluster = useCluster(store, ["tasks", "ended"]);
  const [listed, setListed] = useState(/** @type {Task[] | null} */ (null));
  const [fault, setFault] = useState(/** @type {unknown} */ (null));
  const returned = useReturned(fault);
  const isLive = useSignal(live.state) === "live"; // what ends while it is not is not told
  useEffect(() => {
    if (listed && !isLive) return undefined;
    let isWanted = true;
    live.call("task.list", { array: id, ended: true, sparse: true }).then(
      (answer) => isWanted && (setListed(/** @type {Task[]} */ (wholeTasks(answer))), setFault(null)),
      (error) => isWanted && setFault(error),
    );
    return () => {
      isWanted = false;
    };
  }, [id, returned, isLive]);
  const tasks = listed && listed.map((task) => /** @type {Task} */ (newer(cluster.task(task.id), task)));
  return { tasks, fault };
}

/** @param {any} known @param {any} listed */
function newer(known, listed) {
  return known && (known.seq ?? 0) >= (listed.seq ?? 0) ? known : listed;
}

/** @param {{tasks: Task[]}} props */
function Matrix({ tasks }) {
  const { across, down, columns, rows } = tableOf(tasks);
  return html`<section class="card"><div class="scrolls" tabindex="0"><table class="plain matrix">
    <caption class="unseen">${t("sweep.matrix")}</caption>
    <thead><tr><th scope="col">${harmless([down, across].filter(Boolean).join(" ↓  ") + (across ? " →" : ""))}</th>${columns.map((one) => html`<th key=${one} scope="col">${harmless(one)}</th>`)}</tr></thead>
    <tbody>
      ${rows.map((row) => html`<tr key=${row.name}><th scope="row">${harmless(row.name)}</th>
        ${row.cells.map((task, at) => html`<td key=${columns[at]}>${task ? html`<a href=${`tasks/${task.id}`} title=${`${task.id} ${titleOf(task)}${task.last_line ? `\n${harmless(task.last_line)}` : ""}`}><${State} state=${task.state} short=${true} />${task.id}</a>` : null}</td>`)}
      </tr>`)}
    </tbody>
  </table></div></section>`;
}

/** @param {{tasks: Task[]}} props */
function Failures({ tasks }) {
  const alike = failuresOf(tasks);
  if (!alike.length) return null;
  return html`<section class="card"><h2>${t("sweep.failures")}</h2>
    <ul class="list needs">
      ${alike.map((one) => html`<li key=${one.line}><p><b>${count(one.tasks.length)} ×</b> <code>${harmless(one.line) || t("sweep.silent")}</code></p>
        <p>${one.tasks.map((task) => html`<a key=${task.id} class="chip" href=${`tasks/${task.id}`}>${task.id}</a> `)}</p></li>`)}
    </ul>
  </section>`;
}

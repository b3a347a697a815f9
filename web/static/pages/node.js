// One node: its GPUs with their holders, the tasks that are there, what is known of the machine, and the doctor.

import { asFailure } from "../core/failure.js";
import { live, store } from "../core/context.js";
import { memory, percent, quoted } from "../core/format.js";
import { harmless } from "../core/harmless.js";
import { html, useEffect, useState } from "../core/html.js";
import { needMessages, said, saidOfFailure, t, useLanguage } from "../core/i18n.js";
import { useKeys } from "../core/keys.js";
import { goBackTo } from "../core/route.js";
import { hasRole, me } from "../core/session.js";
import { useCluster } from "../core/store.js";
import { Command } from "../parts/command.js";
import { GpuCell, gpusOf } from "../parts/gpu.js";
import { NodeActions, keptOn, reasonsOf, resume } from "../parts/node-actions.js";
import { Said } from "../parts/said.js";
import { NodeState, State } from "../parts/state.js";
import { titleOf } from "../core/format.js";
import { UnknownAttempts } from "../parts/unknown-attempts.js";
import { Waits } from "../parts/waits.js";

/** @typedef {import("../core/cluster.js").Node} Node */

/** @param {{parts: string[]}} props */
export function Page({ parts }) {
  const name = parts[0];
  useLanguage();
  const cluster = useCluster(store, ["nodes", "samples", "tasks"]);
  const node = cluster.nodes.get(name);
  const page = usePage(name, node);
  useKeys({ Escape: { does: () => goBackTo("nodes"), says: "page.nodes" } });
  if (!node && !cluster.arrived.nodes) return html`<${Waits} />`;
  if (!node) return html`<div class="empty"><p>${t("node.none", { name: harmless(name) })}</p><a href="nodes">${t("page.nodes")}</a></div>`;
  return html`<div class="page stack">
    <header class="node-head">
      <div class="task-title"><h1>${harmless(node.name)}</h1><${NodeState} node=${node} /></div>
      ${reasonsOf(node) ? html`<p class="warned"><${Said} text=${reasonsOf(node)} /></p>` : null}
      <div class="task-actions" role="toolbar" aria-label=${t("queue.actions")}><${NodeActions} node=${node} /></div>
    </header>
    ${node.gpus.length ? html`<${Gpus} node=${node} gpus=${gpusOf(cluster, node, me.value?.user)} />` : null}
    <${Tasks} isReady=${cluster.arrived.tasks} tasks=${node.tasks.flatMap((id) => cluster.task(id) ?? [])} />
    <${UnknownAttempts} key=${name} node=${node} />
    <section class="card">
      <h2>${t("node.machine")}</h2>
      <dl class="facts">${facts(node, page, cluster.samples.get(name)).map(([key, value]) => html`<div key=${key}><dt>${t(`machine.${key}`)}</dt><dd>${value}</dd></div>`)}</dl>
    </section>
    <${Doctor} key=${name} name=${name} />
  </div>`;
}

/**
 * What the list leaves out, asked for anew when the node changes.
 * @param {string} name
 * @param {Node | undefined} node
 */
function usePage(name, node) {
  const [page, setPage] = useState(/** @type {any} */ (null));
  useEffect(() => {
    let isWanted = true;
    live.call("node.show", { name }).then((it) => isWanted && setPage(it), () => undefined);
    return () => {
      isWanted = false;
    };
  }, [name, node]);
  return page;
}

/** @param {{node: Node, gpus: import("../parts/gpu.js").GpuNow[]}} props */
function Gpus({ node, gpus }) {
  const kept = node.reservation;
  return html`<section class="card">
    <h2>${t("column.gpus")}</h2>
    ${kept ? html`<p><a href=${`tasks/${kept.task}`}>${keptOn(node)}</a></p>` : null}
    <div class="scrolls" tabindex="0"><table class="plain is-middle">
      <thead><tr>${["gpu", "model", "memory", "temperature", "power", "holder", "health"].map((one) => html`<th key=${one} scope="col">${t(`gpus.${one}`)}</th>`)}</tr></thead>
      <tbody>
        ${gpus.map(
          (gpu) => html`<tr key=${gpu.index}>
            <td><span class="gpu-row is-line"><${GpuCell} gpu=${gpu} node=${node.name} /><span class="dim">${gpu.index}</span></span></td>
            <td class="whole">${harmless(gpu.model)}</td>
            <td class="whole">${gpu.usedMib === null ? "" : memory(gpu.usedMib)}${gpu.totalMib ? ` / ${memory(gpu.totalMib)}` : ""}</td>
            <td class="whole">${gpu.temperature === null ? "" : `${gpu.temperature} °C`}</td>
            <td class="whole">${gpu.power === null ? "" : `${Math.round(gpu.power)} W`}</td>
            <td class="of-holder">${gpu.tasks.map((task) => html`<a key=${task.id} href=${`tasks/${task.id}`}>${task.id} ${titleOf(task)} · ${harmless(task.owner)}</a>`)}${gpu.others.map(harmless).join(", ")}</td>
            <td class="of-health">${gpu.why ? html`<span class="warned"><${Said} text=${gpu.why} /></span>` : t("gpus.well")}
              ${gpu.isReturnable && hasRole("admin") ? html` <button title=${`muster node resume ${quoted(node.name)} --gpu ${gpu.index}`} onClick=${() => resume(node.name, [gpu.index])}>${t("gpus.return")}</button>` : null}</td>
          </tr>`,
        )}
      </tbody>
    </table></div>
  </section>`;
}

/** @param {{isReady: boolean, tasks: import("../core/cluster.js").Task[]}} props */
function Tasks({ isReady, tasks }) {
  return html`<section class="card">
    <h2>${t("node.tasks")}</h2>
    ${!isReady ? html`<${Waits} />` : tasks.length === 0 ? html`<p class="empty">${t("node.no-tasks")}</p>` : null}
    <ul class="list needs">
      ${tasks.map((task) => html`<li key=${task.id}><a href=${`tasks/${task.id}`}><${State} state=${task.state} short=${true} /><b>${task.id} ${titleOf(task)}</b><small>${harmless(task.owner)}</small></a></li>`)}
    </ul>
  </section>`;
}

/**
 * @param {Node} node
 * @param {any} page
 * @param {any} sample
 * @returns {[string, any][]}
 */
function facts(node, page, sample) {
  /** @type {[string, any][]} */
  const all = [
    ["address", harmless(node.address)],
    ["driver", node.driver],
    ["hostname", harmless(node.hostname ?? "")],
    ["cpus", node.cpus === null ? "" : `${node.cpus_held} / ${node.cpus}`],
    ["slots", node.slots === null ? "" : `${node.slots_held} / ${node.slots}`],
    ["memory", memory(node.memory_mib)],
    ["tmp_disk", node.tmp_disk_mib === null ? "" : `${memory(node.tmp_disk_held_mib) || "0"} / ${memory(node.tmp_disk_mib)}`],
    ["cpu", sample ? percent(sample.cpu_percent) : ""],
    ["load", (sample?.load ?? node.load ?? []).map((/** @type {number} */ one) => one.toFixed(2)).join(" ")],
    ["clock", node.clock_offset_s === null ? "" : `${node.clock_offset_s.toFixed(2)} s`],
    ["python", node.python],
    ["agent", node.agent_version],
    ["account", harmless(page?.account ?? "")],
    ["labels", Object.entries(page?.labels ?? {}).map(([name, value]) => harmless(value === true ? name : `${name}=${value}`)).join(", ")],
  ];
  return all.filter(([, value]) => value !== "" && value !== null && value !== undefined);
}

/**
 * Looks closely when it is asked to; it takes up to half a minute.
 * @param {{name: string}} props
 */
function Doctor({ name }) {
  const [told, setTold] = useState(/** @type {any} */ (null));
  const [isBusy, setBusy] = useState(false);
  const [fault, setFault] = useState(/** @type {unknown} */ (null));
  if (!hasRole("admin")) return null;
  const look = async () => {
    setBusy(true);
    setFault(null);
    try {
      const [[examined]] = await Promise.all([live.call("node.doctor", { names: [name] }), needMessages().catch(() => undefined)]);
      setTold(examined);
    } catch (error) {
      setFault(error);
    } finally {
      setBusy(false);
    }
  };
  return html`<section class="card">
    <h2>${t("doctor")}</h2>
    <div class="stack">
      <div class="task-actions"><button disabled=${isBusy} onClick=${look}>${isBusy ? t("doctor.looks") : t("doctor.ask")}</button></div>
      ${fault ? html`<p class="warned"><${Said} text=${saidOfFailure(asFailure(fault))} /></p>` : null}
      ${told
        ? html`<div class="scrolls" tabindex="0"><table class="plain">
            <tbody>
              ${told.findings.map(
                (/** @type {any} */ one) => html`<tr key=${one.check}>
                  <td class=${`verdict is-${one.verdict}`}>${t(`verdict.${one.verdict}`)}</td>
                  <td>${t(`check.${one.check}`)}</td>
                  <td><${Said} text=${said(one.told_message?.key, one.told_message?.args, one.told)} />
                    ${one.cure ? html`<p class="cure"><${Said} text=${said(one.cure_message?.key, one.cure_message?.args, one.cure)} /></p>` : null}</td>
                </tr>`,
              )}
            </tbody>
          </table></div>`
        : html`<${Command} text=${`muster node doctor ${quoted(name)}`} />`}
    </div>
  </section>`;
}

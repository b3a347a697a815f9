// One GPU as a cell: how high it is filled tells its memory, how strongly its use, and its border who holds it.

import { html } from "../core/html.js";
import { memory, percent } from "../core/format.js";
import { harmless } from "../core/harmless.js";
import { said, t } from "../core/i18n.js";

/**
 * @typedef {"mine" | "other" | "foreign" | "aside" | "free" | "away"} Holder
 * @typedef {object} GpuNow
 * @property {number} index
 * @property {Holder} holder
 * @property {string} model
 * @property {number | null} use percent
 * @property {number | null} usedMib
 * @property {number | null} totalMib
 * @property {number | null} temperature
 * @property {number | null} power
 * @property {import("../core/cluster.js").Task[]} tasks
 * @property {number[]} heldBy
 * @property {string[]} others
 * @property {string} why
 * @property {boolean} isReturnable somebody or a fault set it aside, so an admin may return it
 */

/**
 * The GPUs of a node: the registry's word on each, the newest sample, and who has it.
 * @param {import("../core/cluster.js").Cluster} cluster
 * @param {import("../core/cluster.js").Node} node
 * @param {string | null | undefined} user
 * @returns {GpuNow[]}
 */
export function gpusOf(cluster, node, user) {
  const sample = cluster.samples.get(node.name);
  const sampled = new Map((sample?.gpus ?? []).map((/** @type {any} */ gpu) => [gpu.index, gpu]));
  return node.gpus.map((gpu) => {
    const fresh = sampled.get(gpu.index) ?? {};
    const isOnline = node.state === "online";
    const tasks = gpu.held_by.flatMap((id) => cluster.task(id) ?? []);
    const others = (gpu.foreign ?? []).map((process) => process.user || "?");
    const why = gpu.condition === "ok" ? "" : said(gpu.health_message?.key, gpu.health_message?.args, gpu.health);
    return {
      index: gpu.index,
      holder: holderOf({ isOnline, heldBy: gpu.held_by, tasks, others, condition: gpu.condition, user }),
      model: fresh.model || gpu.model || "",
      use: isOnline ? (fresh.utilization ?? gpu.utilization) : null,
      usedMib: isOnline ? (fresh.memory_used_mib ?? gpu.memory_used_mib) : null,
      totalMib: fresh.memory_total_mib || gpu.memory_mib,
      temperature: isOnline ? (fresh.temperature ?? null) : null,
      power: isOnline ? (fresh.power ?? null) : null,
      tasks,
      heldBy: gpu.held_by,
      others: [...new Set(others)],
      why,
      isReturnable: gpu.health_message?.key === "gpu_aside",
    };
  });
}

/**
 * @param {object} of
 * @param {boolean} of.isOnline
 * @param {number[]} of.heldBy
 * @param {import("../core/cluster.js").Task[]} of.tasks
 * @param {string[]} of.others
 * @param {string} of.condition
 * @param {string | null | undefined} of.user
 * @returns {Holder}
 */
function holderOf({ isOnline, heldBy, tasks, others, condition, user }) {
  if (heldBy.length) return tasks.some((task) => task.owner === user) ? "mine" : "other";
  if (!isOnline) return "away";
  if (others.length || condition === "busy") return "foreign"; // who it is, not everybody may see
  return condition === "ok" || condition === "clearing" ? "free" : "aside";
}

/**
 * What a pointer over the cell tells.
 * @param {GpuNow} gpu
 * @param {string} node
 */
function tipOf(gpu, node) {
  const lines = [`${harmless(node)} · GPU ${gpu.index}${gpu.model ? ` · ${harmless(gpu.model)}` : ""}`, t(`gpu.${gpu.holder}`)];
  for (const task of gpu.tasks) lines.push(`${task.id} ${harmless(task.name || task.owner)} · ${harmless(task.owner)}`);
  if (gpu.others.length) lines.push(gpu.others.map(harmless).join(", "));
  if (gpu.use !== null && gpu.use !== undefined) lines.push(t("gpu.use", { use: percent(gpu.use) }));
  if (gpu.usedMib !== null && gpu.totalMib) lines.push(`${memory(gpu.usedMib)} / ${memory(gpu.totalMib)}`);
  if (gpu.why) lines.push(gpu.why);
  return lines.join("\n");
}

/** @param {{gpu: GpuNow, node: string, isPlain?: boolean}} props `isPlain`: it leads nowhere, and tells no more than it shows */
export function GpuCell({ gpu, node, isPlain = false }) {
  const filled = gpu.usedMib !== null && gpu.totalMib ? Math.min(100, (gpu.usedMib / gpu.totalMib) * 100) : 0;
  const strength = gpu.use === null || gpu.use === undefined ? 0.15 : 0.15 + (0.75 * gpu.use) / 100;
  if (isPlain) return html`<span class=${`gpu is-${gpu.holder}`}><${Fill} gpu=${gpu} filled=${filled} strength=${strength} /></span>`;
  const tip = tipOf(gpu, node);
  const href = gpu.heldBy.length ? `tasks/${gpu.heldBy[0]}` : `nodes/${encodeURIComponent(node)}`;
  return html`<a class=${`gpu is-${gpu.holder}`} href=${href} title=${tip} aria-label=${tip}><${Fill} gpu=${gpu} filled=${filled} strength=${strength} /></a>`;
}

/** @param {{gpu: GpuNow, filled: number, strength: number}} props */
function Fill({ gpu, filled, strength }) {
  return html`<i style=${{ height: `${filled}%`, opacity: String(strength) }}></i><b>${gpu.use === null || gpu.use === undefined ? "–" : Math.round(gpu.use)}</b>`;
}

export function GpuLegend() {
  return html`<ul class="legend">
    ${["mine", "other", "foreign", "free", "aside", "away"].map(
      (holder) => html`<li key=${holder}><span class=${`gpu is-${holder} is-small`}></span>${t(`gpu.${holder}`)}</li>`,
    )}
    <li class="legend-note">${t("gpu.legend")}</li>
  </ul>`;
}

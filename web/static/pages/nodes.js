// All nodes in a table: how each is, its GPUs, what is held of it, and what keeps tasks from it.

import { store } from "../core/context.js";
import { classes, html, useMemo } from "../core/html.js";
import { harmless } from "../core/harmless.js";
import { t, useLanguage } from "../core/i18n.js";
import { useKeys } from "../core/keys.js";
import { useNarrow } from "../core/narrow.js";
import { go, setQuery, usePlace } from "../core/route.js";
import { me } from "../core/session.js";
import { useCluster } from "../core/store.js";
import { memory } from "../core/format.js";
import { GpuCell, GpuLegend, gpusOf } from "../parts/gpu.js";
import { Icon } from "../parts/icons.js";
import { keptOn, reasonsOf } from "../parts/node-actions.js";
import { Said } from "../parts/said.js";
import { NodeState } from "../parts/state.js";
import { Table } from "../parts/table.js";
import { Waits } from "../parts/waits.js";

/** @typedef {import("../core/cluster.js").Node} Node */

/** @param {Node} node */
const nameOf = (node) => node.name;
/** @param {Node} node */
const address = (node) => `nodes/${encodeURIComponent(node.name)}`;

export function Page() {
  const { query } = usePlace();
  const words = useLanguage();
  const cluster = useCluster(store, ["nodes", "samples", "tasks"]);
  const isNarrow = useNarrow();
  const filter = (query.get("q") ?? "").toLowerCase();
  const nodes = useMemo(
    () => [...cluster.nodes.values()].filter((node) => `${node.name} ${node.state} ${node.reason ?? ""}`.toLowerCase().includes(filter)),
    [cluster.versions.nodes, filter],
  );
  const columns = useColumns(cluster, isNarrow, words);
  const at = nodes.findIndex((node) => node.name === query.get("at"));
  const move = (/** @type {number} */ by) => {
    const next = nodes[Math.max(0, Math.min(nodes.length - 1, at < 0 ? 0 : at + by))];
    if (next) setQuery({ at: next.name });
  };
  useKeys({
    j: { does: () => move(1), says: "keys.next" },
    k: { does: () => move(-1), says: "keys.before" },
    Enter: { does: () => at >= 0 && go(address(nodes[at])), says: "keys.open" },
  });
  return html`<div class="page fills">
    <h1 class="unseen">${t("page.nodes")}</h1>
    <div class="tools">
      <div class="filter"><div class="field">
        <${Icon} name="search" />
        <input type="search" aria-label=${t("filter.label")} placeholder=${t("nodes.filter")} value=${query.get("q") ?? ""}
          onInput=${(/** @type {any} */ event) => setQuery({ q: event.target.value })} />
      </div></div>
      <${GpuLegend} />
    </div>
    <${Table}
      label=${t("page.nodes")}
      columns=${columns}
      rows=${nodes}
      keyOf=${nameOf}
      now=${cluster.versions.samples}
      cursor=${query.get("at")}
      onOpen=${(/** @type {Node} */ node) => go(address(node))}
      isTall=${true}
      empty=${!cluster.arrived.nodes ? html`<${Waits} isWithin />` : filter ? t("envs.none-like") : html`${t("overview.no-nodes")}<code>muster node add</code>`}
    />
  </div>`;
}

/**
 * @param {import("../core/cluster.js").Cluster} cluster
 * @param {boolean} isNarrow
 * @param {string} words
 */
function useColumns(cluster, isNarrow, words) {
  return useMemo(() => {
    /** @type {import("../parts/table.js").Column<Node>[]} */
    const all = [
      { name: "name", title: t("nodes.name"), width: isNarrow ? 100 : 136, cell: (node) => html`<a href=${address(node)} title=${harmless(node.name)}>${harmless(node.name)}</a>` },
      { name: "state", title: t("column.state"), width: 120, cell: (node) => html`<${NodeState} node=${node} />` },
      { name: "gpus", title: t("column.gpus"), width: 312, cell: (node) => html`<span class="gpu-row is-line">${gpusOf(cluster, node, me.value?.user).map((gpu) => html`<${GpuCell} key=${gpu.index} gpu=${gpu} node=${node.name} />`)}</span>` },
      { name: "cpus", title: t("nodes.cpus"), width: 84, isNumber: true, cell: (node) => (node.cpus === null ? "" : `${node.cpus_held} / ${node.cpus}`) },
      { name: "memory", title: t("nodes.memory"), width: 92, isNumber: true, cell: (node) => memory(node.memory_mib) },
      { name: "load", title: t("nodes.load"), width: 64, isNumber: true, cell: (node) => loadOf(cluster, node) },
      { name: "tasks", title: t("nodes.tasks"), width: 64, isNumber: true, cell: (node) => node.tasks.length || "" },
      { name: "why", title: t("nodes.why"), width: 0, cell: why },
    ];
    return isNarrow ? all.filter((column) => ["name", "state", "why"].includes(column.name)) : all;
  }, [cluster, isNarrow, words]);
}

/**
 * What keeps tasks from it, and for which task GPUs are reserved there.
 * @param {Node} node
 */
function why(node) {
  const told = [reasonsOf(node), keptOn(node)].filter(Boolean).join(" · ");
  return html`<span class=${classes("dim")} title=${told}><${Said} text=${told} /></span>`;
}

/** @param {import("../core/cluster.js").Cluster} cluster @param {Node} node */
function loadOf(cluster, node) {
  const load = cluster.samples.get(node.name)?.load ?? node.load;
  return node.state === "online" && load ? load[0].toFixed(1) : "";
}

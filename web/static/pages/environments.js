// Environments: which there are, and what is in one: its Python, what its framework sees of GPUs, its packages, and in what it
// differs from another. Each question is asked on a node, and may take a while.

import { useAsked } from "../core/asked.js";
import { store } from "../core/context.js";
import { count, quoted } from "../core/format.js";
import { harmless } from "../core/harmless.js";
import { classes, html, useMemo, useState } from "../core/html.js";
import { t, useLanguage } from "../core/i18n.js";
import { useKeys } from "../core/keys.js";
import { comparedPackages } from "../core/packages.js";
import { address, setQuery, usePlace } from "../core/route.js";
import { hasRole } from "../core/session.js";
import { useCluster } from "../core/store.js";
import { Command } from "../parts/command.js";
import { Icon } from "../parts/icons.js";
import { Refusal } from "../parts/refusal.js";
import { Said } from "../parts/said.js";
import { Table } from "../parts/table.js";
import { Waits } from "../parts/waits.js";

/** @typedef {import("@muster/wire").Env} Env */

export function Page() {
  useLanguage();
  const { query } = usePlace();
  const node = query.get("node");
  const told = useAsked("env.list", node ? { node } : {}, true);
  const words = (query.get("q") ?? "").toLowerCase();
  const envs = useMemo(() => (told.answer?.envs ?? []).filter((/** @type {Env} */ env) => `${env.name}\n${env.path}`.toLowerCase().includes(words)), [told.answer, words]);
  const name = query.get("env");
  const at = envs.findIndex((/** @type {Env} */ env) => env.name === name);
  const move = (/** @type {number} */ by) => {
    const next = envs[Math.max(0, Math.min(envs.length - 1, at < 0 ? 0 : at + by))];
    if (next) setQuery({ env: next.name, with: null });
  };
  useKeys({
    j: { does: () => move(1), says: "keys.next" },
    k: { does: () => move(-1), says: "keys.before" },
    "/": { does: () => document.getElementById("env-filter")?.focus(), says: "keys.filter" },
    Escape: { does: () => setQuery({ env: null, with: null }), says: "keys.clear" },
  });
  return html`<div class=${classes("page fills envs", name && "has-one")}>
    <aside class="env-list">
      <div class="tools">
        <h1>${t("page.environments")}</h1><span class="grow"></span>
        <${NodeChoice} node=${node} />
        <div class="field"><${Icon} name="search" /><input id="env-filter" type="search" aria-label=${t("filter.label")} placeholder=${t("envs.filter")} value=${query.get("q") ?? ""} onInput=${(/** @type {any} */ event) => setQuery({ q: event.target.value })} /></div>
      </div>
      <${List} told=${told} envs=${envs} chosen=${name} isFiltered=${Boolean(words)} />
    </aside>
    ${name ? html`<${One} key=${`${name}\n${node}`} name=${name} node=${node} envs=${told.answer?.envs ?? []} other=${query.get("with")} />` : html`<div class="env-one empty">${t("envs.choose")}</div>`}
  </div>`;
}

/**
 * On which node is asked.
 * @param {{node: string | null}} props
 */
function NodeChoice({ node }) {
  const cluster = useCluster(store, ["nodes"]);
  const online = [...cluster.nodes.values()].filter((one) => one.state === "online" || one.name === node);
  return html`<select aria-label=${t("envs.node")} value=${node ?? ""} onChange=${(/** @type {any} */ event) => setQuery({ node: event.target.value || null })}>
    <option value="">${t("envs.any-node")}</option>
    ${online.map((one) => html`<option key=${one.name} value=${one.name}>${harmless(one.name)}</option>`)}
  </select>`;
}

/** @param {{told: ReturnType<typeof useAsked>, envs: Env[], chosen: string | null, isFiltered: boolean}} props */
function List({ told, envs, chosen, isFiltered }) {
  if (told.fault) return html`<${Refusal} fault=${told.fault} again=${told.again} />`;
  if (!told.answer) return html`<${Waits} />`;
  if (!envs.length) return html`<div class="empty"><p>${t(isFiltered ? "envs.none-like" : "envs.none")}</p>${isFiltered ? null : html`<p><${Said} text=${t("envs.none.how")} /></p>`}</div>`;
  return html`<ul>
    ${envs.map((env) => html`<li key=${env.path}>
      <a href=${address("environments", { ...others(), env: env.name })} aria-current=${env.name === chosen ? "true" : undefined}>
        <b>${harmless(env.name)}</b><small title=${harmless(env.path)}>${harmless(env.path)}</small></a>
    </li>`)}
  </ul>`;
}

/** What else stands in the address, but for what belongs to another environment. */
function others() {
  const { with: _, env: __, ...rest } = Object.fromEntries(new URLSearchParams(location.search));
  return rest;
}

/** @param {{name: string, node: string | null, envs: Env[], other: string | null}} props */
function One({ name, node, envs, other }) {
  const where = { env: name, ...(node ? { node } : {}) };
  const option = node ? ` --node ${quoted(node)}` : "";
  if (!hasRole("user")) return html`<section class="env-one stack"><${Head} name=${name} /><p class="dim">${t("not.allowed.viewer")}</p></section>`;
  return html`<section class="env-one stack">
    <${Head} name=${name} />
    <div class="halves"><${Python} where=${where} /><${Cuda} where=${where} option=${option} /></div>
    <${Packages} where=${where} envs=${envs} other=${other} />
    <${Command} text=${harmless(`muster env packages ${quoted(name)}${option}`)} />
  </section>`;
}

/** @param {{name: string}} props */
function Head({ name }) {
  return html`<header class="task-title"><button class="quiet env-back" onClick=${() => setQuery({ env: null, with: null })}>${t("envs.back")}</button><h1>${harmless(name)}</h1><span class="grow"></span>
    ${hasRole("user") ? html`<a class="button" href=${address("submit", { env: name })}>${t("envs.use")}</a>` : null}</header>`;
}

/**
 * Can a task use it, and with which Python?
 * @param {{where: {env: string, node?: string}}} props
 */
function Python({ where }) {
  const told = useAsked("env.check", where, true);
  return html`<section class="card">
    <h2>${t("envs.python")}</h2>
    ${told.fault ? html`<${Refusal} fault=${told.fault} again=${told.again} />` : null}
    ${!told.fault && !told.answer ? html`<p class="dim" role="status">${t("envs.asks")}</p>` : null}
    ${told.answer ? html`<p class="is-good">${t("envs.usable", { node: harmless(told.answer.node) })}</p>
      <${Facts} facts=${[["version", told.answer.version], ["executable", told.answer.executable], ["prefix", told.answer.prefix]]} />` : null}
  </section>`;
}

/**
 * What its framework sees: asked when somebody wants to know, for it takes long.
 * @param {{where: {env: string, node?: string}, option: string}} props
 */
function Cuda({ where, option }) {
  const [framework, setFramework] = useState("torch");
  const [isWanted, setWanted] = useState(false);
  const told = useAsked("env.cuda", { ...where, framework }, isWanted);
  const line = harmless(`muster env cuda ${quoted(where.env)} --framework ${framework}${option}`);
  return html`<section class="card">
    <h2>${t("envs.cuda")}</h2>
    <div class="inline">
      <div class="tabs" role="group" aria-label=${t("envs.framework")}>
        ${["torch", "tensorflow"].map((one) => html`<button key=${one} aria-pressed=${framework === one} onClick=${() => (setFramework(one), setWanted(false))}>${one}</button>`)}
      </div>
      <button title=${line} disabled=${isWanted && !told.answer && !told.fault} onClick=${() => (isWanted ? told.again() : setWanted(true))}>${t("envs.look")}</button>
    </div>
    ${isWanted && told.fault ? html`<${Refusal} fault=${told.fault} again=${told.again} />` : null}
    ${isWanted && !told.fault && !told.answer ? html`<p class="dim" role="status">${t("envs.asks-long")}</p>` : null}
    ${told.answer ? html`<${Framework} told=${told.answer} />` : null}
  </section>`;
}

/** @param {{told: import("@muster/wire").Framework}} props */
function Framework({ told }) {
  if (!told.installed) return html`<p class="warned">${told.error ? harmless(told.error) : t("envs.not-installed")}</p>`;
  return html`<p class=${told.available ? "is-good" : "warned"}>${t(told.available ? "envs.sees" : "envs.sees-none", { count: told.gpus.length, node: harmless(told.node) })}</p>
    <${Facts} facts=${[["version", told.version], ["cuda", told.cuda], ["gpus", told.gpus.join(", ")]]} />`;
}

/** @param {{facts: [string, unknown][]}} props */
function Facts({ facts }) {
  return html`<dl class="facts">${facts.filter(([, value]) => value).map(([name, value]) => html`<div key=${name}><dt>${t(`envs.${name}`)}</dt><dd class="mono">${harmless(value)}</dd></div>`)}</dl>`;
}

/** @param {{where: {env: string, node?: string}, envs: Env[], other: string | null}} props */
function Packages({ where, envs, other }) {
  const [filter, setFilter] = useState("");
  const [onlyDifferent, setOnlyDifferent] = useState(true);
  const told = useAsked("env.packages", where, true);
  const also = useAsked("env.packages", { ...where, env: other ?? "" }, Boolean(other));
  const isCompared = Boolean(other && also.answer);
  const rows = useMemo(() => {
    const all = comparedPackages(told.answer?.packages ?? [], isCompared ? also.answer.packages : null);
    const words = filter.toLowerCase();
    return all.filter((row) => row.name.toLowerCase().includes(words) && (!isCompared || !onlyDifferent || row.isDifferent));
  }, [told.answer, also.answer, isCompared, filter, onlyDifferent]);
  const columns = useMemo(() => packageColumns(where.env, isCompared ? other : null), [where.env, other, isCompared, t("envs.package")]);
  return html`<section class="card env-packages">
    <div class="tools">
      <h2>${t("envs.packages")} ${told.answer ? html`<small>${count(rows.length)}</small>` : null}</h2>
      <div class="field"><${Icon} name="search" /><input type="search" aria-label=${t("filter.label")} placeholder=${t("envs.package")} value=${filter} onInput=${(/** @type {any} */ event) => setFilter(event.target.value)} /></div>
      <select aria-label=${t("envs.with")} value=${other ?? ""} onChange=${(/** @type {any} */ event) => setQuery({ with: event.target.value || null })}>
        <option value="">${t("envs.with")}</option>
        ${envs.filter((env) => env.name !== where.env).map((env) => html`<option key=${env.path} value=${env.name}>${harmless(env.name)}</option>`)}
      </select>
      ${isCompared ? html`<label class="switch"><input type="checkbox" checked=${onlyDifferent} onChange=${() => setOnlyDifferent(!onlyDifferent)} />${t("envs.only-different")}</label>` : null}
    </div>
    ${told.fault || also.fault ? html`<${Refusal} fault=${told.fault ?? also.fault} again=${told.fault ? told.again : also.again} />` : null}
    ${!told.fault && !told.answer ? html`<p class="dim" role="status">${t("envs.asks-long")}</p>` : null}
    ${told.answer ? html`<${Table} label=${t("envs.packages")} columns=${columns} rows=${rows} keyOf=${(/** @type {any} */ row) => row.name} empty=${t(isCompared && onlyDifferent && !filter ? "envs.same" : "envs.none-like")} />` : null}
  </section>`;
}

/** @param {string} env @param {string | null} other */
function packageColumns(env, other) {
  /** @typedef {import("../core/packages.js").PackageRow} Row */
  const missing = html`<span class="dim">${t("envs.missing")}</span>`;
  const own = [
    { name: "package", title: t("envs.package"), width: 0, cell: (/** @type {Row} */ row) => harmless(row.name) },
    { name: "here", title: other === null ? t("envs.version") : harmless(env), width: 200, cell: (/** @type {Row} */ row) => (row.version === null ? missing : html`<code>${harmless(row.version)}</code>`) },
  ];
  if (other === null) return [...own, { name: "from", title: t("envs.from"), width: 120, cell: (/** @type {Row} */ row) => harmless(row.from) }];
  return [...own, { name: "there", title: harmless(other), width: 200, cell: (/** @type {Row} */ row) => (row.other === null ? missing : html`<code class=${row.isDifferent ? "warned" : ""}>${harmless(row.other)}</code>`) }];
}

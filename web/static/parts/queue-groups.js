// Grouping the queue: by what, and the row that stands over a group.

import { count } from "../core/format.js";
import { GROUPINGS } from "../core/groups.js";
import { harmless } from "../core/harmless.js";
import { html } from "../core/html.js";
import { t } from "../core/i18n.js";
import { setQuery } from "../core/route.js";
import { Icon } from "./icons.js";
import { State } from "./state.js";

/** @param {{by: string}} props */
export function GroupBy({ by }) {
  return html`<select name="group" aria-label=${t("queue.group")} title=${t("queue.group")} value=${by} onChange=${(/** @type {any} */ event) => setQuery({ group: event.target.value || null })}>
    <option value="" selected=${!by}>${t("queue.group.none")}</option>
    ${GROUPINGS.map((name) => html`<option key=${name} value=${name} selected=${name === by}>${t(`queue.group.${name}`)}</option>`)}
  </select>`;
}

/**
 * @param {object} props
 * @param {import("../core/groups.js").Group} props.group
 * @param {(key: string) => void} props.toggle
 * @param {Set<string | number>} props.selected
 * @param {(keys: Set<string | number>) => void} props.onSelect
 */
export function GroupHead({ group, toggle, selected, onSelect }) {
  const name = group.name ? harmless(group.name) : t("queue.group.rest");
  const isWhole = group.tasks.every((task) => selected.has(task.id));
  const pick = () => {
    const keys = new Set(selected);
    for (const task of group.tasks) {
      if (isWhole) keys.delete(task.id);
      else keys.add(task.id);
    }
    onSelect(keys);
  };
  return html`<div class="group-head">
    <input type="checkbox" aria-label=${t("queue.group.pick", { name })} checked=${isWhole} onClick=${pick} />
    <button class="quiet" aria-expanded=${group.isOpen} onClick=${() => toggle(group.key)}><${Icon} name=${group.isOpen ? "down" : "right"} /><b>${name}</b></button>
    ${group.array ? html`<a href=${`sweeps/${group.array}`}>${t("page.sweep")}</a>` : null}
    <span class="dim">${t("queue.tasks", { count: count(group.tasks.length), n: group.tasks.length })}</span>
    ${group.states.map(([state, number]) => html`<span key=${state} class="group-state"><${State} state=${state} />${count(number)}</span>`)}
    ${group.gpus ? html`<span class="dim">${t("queue.group.gpus", { count: count(group.gpus), n: group.gpus })}</span>` : null}
  </div>`;
}

// Projects: to which group one belongs, and what its tasks may have.

import { useAsked } from "../../core/asked.js";
import { live } from "../../core/context.js";
import { harmless } from "../../core/harmless.js";
import { html, useMemo } from "../../core/html.js";
import { t } from "../../core/i18n.js";
import { attempt, ChangeForm, QuotaFields, quotaWords, withQuotas } from "../../parts/form.js";
import { MasterDetail } from "../../parts/master-detail.js";
import { askText } from "../../parts/text-question.js";

/** @typedef {import("@muster/wire").Project} Project */

export function Section() {
  const told = useAsked("project.list");
  const columns = useMemo(projectColumns, [t("admin.projects")]);
  const add = async () => {
    const name = await askText({ title: t("admin.add-project"), note: t("admin.add-project.text"), label: t("column.name"), confirm: t("admin.add-project") });
    if (name) await attempt(() => live.call("project.edit", { name, changes: { group: null } }), t("admin.saved"), told.again);
  };
  return html`<${MasterDetail} label=${t("admin.projects")} told=${told} keyOf=${(/** @type {Project} */ project) => project.name}
    words=${(/** @type {Project} */ project) => `${project.name} ${project.group ?? ""}`} columns=${columns} empty="admin.no-projects" choose="admin.choose-project" detail=${Detail}
    tools=${html`<button class="primary" onClick=${add}>${t("admin.add-project")}</button>`} />`;
}

function projectColumns() {
  return [
    { name: "name", title: t("column.name"), width: 0, cell: (/** @type {Project} */ project) => harmless(project.name) },
    { name: "group", title: t("kind.group"), width: 160, cell: (/** @type {Project} */ project) => harmless(project.group ?? "") },
    { name: "tasks", title: t("nodes.tasks"), width: 80, isNumber: true, cell: (/** @type {Project} */ project) => project.tasks || "" },
    { name: "gpus", title: t("column.gpus"), width: 80, isNumber: true, cell: (/** @type {Project} */ project) => `${project.use.gpus} / ${project.quota.max_total_gpus ?? "∞"}` },
  ];
}

/** @param {{row: Project, again: () => Promise<void>}} props */
function Detail({ row: project, again }) {
  const groups = useAsked("group.list").answer ?? [];
  const before = { group: project.group ?? "", ...quotaWords(project.quota) };
  const send = (/** @type {Record<string, string>} */ changes) => {
    const made = /** @type {Record<string, any>} */ (withQuotas(changes));
    return live.call("project.edit", { name: project.name, changes: "group" in made ? { ...made, group: made.group || null } : made });
  };
  return html`<section class="stack"><h2 class="big">${harmless(project.name)}</h2>
    <${ChangeForm} key=${JSON.stringify(before)} before=${before} send=${send} done=${again}>
      <label class="labelled">${t("admin.project-group")}<select name="group"><option value="">–</option>${groups.map((/** @type {any} */ group) => html`<option key=${group.name} value=${group.name} selected=${group.name === project.group}>${harmless(group.name)}</option>`)}</select></label>
      <${QuotaFields} quota=${project.quota} use=${project.use} />
    <//></section>`;
}

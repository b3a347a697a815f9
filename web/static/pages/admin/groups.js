// Groups: who belongs together, who looks after them, and what their tasks may have.

import { useAsked } from "../../core/asked.js";
import { live } from "../../core/context.js";
import { quoted } from "../../core/format.js";
import { harmless } from "../../core/harmless.js";
import { html, useMemo } from "../../core/html.js";
import { t } from "../../core/i18n.js";
import { askFor } from "../../parts/dialog.js";
import { attempt, ChangeForm, QuotaFields, quotaWords, withQuotas } from "../../parts/form.js";
import { Icon } from "../../parts/icons.js";
import { MasterDetail } from "../../parts/master-detail.js";
import { askText } from "../../parts/text-question.js";

/** @typedef {import("@muster/wire").Group} Group */

export function Section() {
  const told = useAsked("group.list");
  const columns = useMemo(groupColumns, [t("admin.groups")]);
  const add = async () => {
    const name = await askText({ title: t("admin.add-group"), label: t("column.name"), confirm: t("admin.add-group"), command: (text) => `muster groups add ${quoted(text)}` });
    if (name) await attempt(() => live.call("group.add", { name }), t("admin.saved"), told.again);
  };
  return html`<${MasterDetail} label=${t("admin.groups")} told=${told} keyOf=${(/** @type {Group} */ group) => group.name}
    words=${(/** @type {Group} */ group) => [group.name, ...group.members, ...group.mentors].join(" ")} columns=${columns} empty="admin.no-groups" choose="admin.choose-group" detail=${Detail}
    tools=${html`<button class="primary" title=${"muster groups add"} onClick=${add}>${t("admin.add-group")}</button>`} />`;
}

function groupColumns() {
  return [
    { name: "name", title: t("column.name"), width: 160, cell: (/** @type {Group} */ group) => harmless(group.name) },
    { name: "members", title: t("admin.members"), width: 0, cell: (/** @type {Group} */ group) => group.members.map(harmless).join(", ") },
    { name: "mentors", title: t("admin.mentors"), width: 180, cell: (/** @type {Group} */ group) => group.mentors.map(harmless).join(", ") },
    { name: "gpus", title: t("column.gpus"), width: 80, isNumber: true, cell: (/** @type {Group} */ group) => `${group.use.gpus} / ${group.quota.max_total_gpus ?? "∞"}` },
  ];
}

/** @param {{row: Group, again: () => Promise<void>}} props */
function Detail({ row: group, again }) {
  const edit = (/** @type {Record<string, any>} */ changes) => attempt(() => live.call("group.edit", { name: group.name, ...changes }), t("admin.saved"), again);
  const send = (/** @type {Record<string, string>} */ changes) => live.call("group.edit", { name: group.name, changes: withQuotas(changes) });
  const remove = async () => {
    const asked = { title: t("admin.remove.ask", { name: harmless(group.name) }), text: t("admin.remove-group.text"), command: `muster groups rm ${quoted(group.name)}`, confirm: t("action.remove"), destroys: true };
    if (await askFor(asked)) await attempt(() => live.call("group.remove", { name: group.name }), t("admin.remove.done", { name: harmless(group.name) }), again);
  };
  const before = quotaWords(group.quota);
  return html`<section class="stack">
    <header class="task-title"><h2 class="big">${harmless(group.name)}</h2><span class="grow"></span><button class="is-danger" onClick=${remove}>${t("action.remove")}</button></header>
    <${People} title=${t("admin.members")} names=${group.members} add=${(/** @type {string} */ name) => edit({ add: [name] })} remove=${(/** @type {string} */ name) => edit({ remove: [name] })} />
    <${People} title=${t("admin.mentors")} names=${group.mentors} add=${(/** @type {string} */ name) => edit({ add_mentors: [name] })} remove=${(/** @type {string} */ name) => edit({ remove_mentors: [name] })} />
    <p class="dim">${t("admin.mentors.how")}</p>
    <${ChangeForm} key=${JSON.stringify(before)} before=${before} send=${send} done=${again}><${QuotaFields} quota=${group.quota} use=${group.use} /><//>
  </section>`;
}

/** @param {{title: string, names: string[], add: (name: string) => void, remove: (name: string) => void}} props */
function People({ title, names, add, remove }) {
  const users = useAsked("user.list").answer ?? [];
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.currentTarget);
    const name = String(new FormData(form).get("name")).trim();
    if (name) add(name);
    form.reset();
  };
  return html`<div><h2>${title}</h2>
    <div class="chips">${names.map((name) => html`<button key=${name} class="chip" title=${t("admin.take-out", { name: harmless(name) })} aria-label=${t("admin.take-out", { name: harmless(name) })} onClick=${() => remove(name)}>${harmless(name)}<${Icon} name="close" /></button>`)}
      <form class="chip-form" onSubmit=${submit}><input name="name" list="user-names" aria-label=${t("admin.put-in", { to: title })} placeholder=${t("sign-in.user")} autocomplete="off" /><button>${t("admin.add")}</button></form></div>
    <datalist id="user-names">${users.map((/** @type {any} */ user) => html`<option key=${user.name} value=${user.name}>${harmless(user.display)}</option>`)}</datalist>
  </div>`;
}

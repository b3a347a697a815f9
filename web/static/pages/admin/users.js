// Users: their roles, quotas and log-ins.

import { useAsked } from "../../core/asked.js";
import { live } from "../../core/context.js";
import { quoted, wholeMoment } from "../../core/format.js";
import { harmless } from "../../core/harmless.js";
import { html, useMemo, useState } from "../../core/html.js";
import { t } from "../../core/i18n.js";
import { me } from "../../core/session.js";
import { Command } from "../../parts/command.js";
import { askFor } from "../../parts/dialog.js";
import { attempt, ChangeForm, QuotaFields, quotaWords, withQuotas } from "../../parts/form.js";
import { MasterDetail } from "../../parts/master-detail.js";
import { askText } from "../../parts/text-question.js";
import { complain, tell } from "../../parts/toast.js";

/** @typedef {import("@muster/wire").User} User */

const ROLES = ["viewer", "user", "admin"];
const DAY_S = 86_400;

export function Section() {
  const told = useAsked("user.list");
  const columns = useMemo(userColumns, [t("admin.users")]);
  return html`<${MasterDetail} label=${t("admin.users")} told=${told} keyOf=${(/** @type {User} */ user) => user.name}
    words=${(/** @type {User} */ user) => [user.name, user.display, user.mail, user.role, ...user.groups].join(" ")}
    columns=${columns} empty="admin.no-users" choose="admin.choose-user" detail=${Detail}
    tools=${html`<button class="primary" title=${"muster users add"} onClick=${() => addUser(told.again)}>${t("admin.add-user")}</button>`} />`;
}

function userColumns() {
  return [
    { name: "name", title: t("sign-in.user"), width: 120, cell: (/** @type {User} */ user) => harmless(user.name) },
    { name: "display", title: t("admin.display"), width: 0, cell: (/** @type {User} */ user) => harmless(user.display) },
    { name: "role", title: t("admin.role"), width: 80, cell: (/** @type {User} */ user) => t(`role.${user.role}`) },
    { name: "groups", title: t("admin.groups"), width: 104, cell: (/** @type {User} */ user) => user.groups.map(harmless).join(", ") },
    { name: "gpus", title: t("column.gpus"), width: 72, isNumber: true, cell: (/** @type {User} */ user) => `${user.use.gpus} / ${user.quota.max_total_gpus ?? "∞"}` },
    { name: "state", title: t("column.state"), width: 132, cell: stateOf },
  ];
}

/** @param {User} user */
function stateOf(user) {
  if (user.disabled !== null) return html`<span class="warned">${t("admin.disabled")}</span>`;
  if (user.is_owner_only) return html`<span class="dim">${t("admin.owner-only")}</span>`;
  if (user.expires_at !== null && user.expires_at < Date.now() / 1000) return html`<span class="warned">${t("admin.expired")}</span>`;
  return user.has_password || user.tokens ? t("admin.active") : html`<span class="dim">${t("admin.no-way-in")}</span>`;
}

/** @param {{row: User, again: () => Promise<void>}} props */
function Detail({ row: user, again }) {
  const [link, setLink] = useState("");
  const before = wordsOf(user);
  const send = (/** @type {Record<string, string>} */ changes) => live.call("user.edit", { name: user.name, changes: changesOf(changes) });
  const makeLink = () => live.call("user.link", { name: user.name }).then((it) => setLink(new URL(`#link=${it.link}`, document.baseURI).href), complain);
  return html`<section class="stack">
    <header><h2 class="big">${harmless(user.name)}</h2>
      <p class="dim">${t("admin.added", { by: harmless(user.added_by), at: wholeMoment(user.added_at) })} · ${t("admin.ways-in", { log_ins: user.log_ins, tokens: user.tokens })}</p>
      ${user.mentors.length ? html`<p class="dim">${t("admin.mentor-of", { groups: user.mentors.map(harmless).join(", ") })}</p>` : null}
      ${user.disabled ? html`<p class="warned">${t("admin.disabled-by", { by: harmless(user.disabled) })}</p>` : null}</header>
    ${user.is_owner_only ? html`<p>${t("admin.owner-only.how")}</p><${ClaimButton} user=${user} again=${again} />` : html`
      <div class="button-row"><button title=${`muster users link ${user.name}`} onClick=${makeLink}>${t("admin.link")}</button>
        <button title=${`muster users passwd ${user.name}`} onClick=${() => setPassword(user)}>${t("me.set")}</button><${Disable} user=${user} again=${again} />
        <button class="is-danger" title=${`muster users rm ${user.name}`} onClick=${() => remove(user, again)}>${t("action.remove")}</button></div>
      ${link ? html`<div><p>${t("admin.link.how")}</p><${Command} text=${link} /></div>` : null}
      <${ChangeForm} key=${JSON.stringify(before)} before=${before} send=${send} done=${again}>
        <div class="fields">
          <label class="labelled">${t("admin.role")}<select name="role">${ROLES.map((role) => html`<option key=${role} value=${role} selected=${role === user.role}>${t(`role.${role}`)}</option>`)}</select></label>
          <label class="labelled">${t("admin.display")}<input name="display" value=${before.display} autocomplete="off" /></label>
          <label class="labelled">${t("admin.mail")}<input name="mail" value=${before.mail} autocomplete="off" /></label>
          <label class="labelled">${t("me.language")}<select name="language">${["", "en", "zh"].map((one) => html`<option key=${one} value=${one} selected=${one === user.language}>${one || "–"}</option>`)}</select></label>
          <label class="labelled">${t("admin.until")}<input name="expires_at" type="date" value=${before.expires_at} /></label>
        </div>
        <${QuotaFields} quota=${user.quota} use=${user.use} />
      <//>
      <a href=${`admin/tokens?q=${encodeURIComponent(user.name)}`}>${t("admin.his-tokens")}</a>`}
  </section>`;
}

/** @param {User} user @returns {Record<string, string>} */
function wordsOf(user) {
  return { role: user.role, display: user.display, mail: user.mail, language: user.language, expires_at: day(user.expires_at), ...quotaWords(user.quota) };
}

/**
 * The day in this browser's time.
 * @param {number | null} at
 */
function day(at) {
  return at === null ? "" : wholeMoment(at).slice(0, 10);
}

/** @param {Record<string, string>} changes */
function changesOf(changes) {
  const { expires_at, ...others } = changes;
  const made = withQuotas(others);
  if (expires_at === undefined) return made;
  return { ...made, expires_at: expires_at ? new Date(`${expires_at}T00:00:00`).getTime() / 1000 + DAY_S - 1 : null }; // the whole day
}

/** @param {{user: User, again: () => Promise<void>}} props */
function Disable({ user, again }) {
  if (user.disabled !== null) return html`<button title=${`muster users enable ${user.name}`} onClick=${() => attempt(() => live.call("user.enable", { name: user.name }), t("admin.enabled", { name: harmless(user.name) }), again)}>${t("admin.enable")}</button>`;
  const isSelf = me.value?.user === user.name;
  return html`<button class="is-danger" aria-disabled=${isSelf} title=${isSelf ? t("not.yourself") : `muster users disable ${user.name}`} onClick=${() => !isSelf && disable(user, again)}>${t("admin.disable")}</button>`;
}

/** @param {User} user @param {() => void} again */
async function disable(user, again) {
  const asked = { title: t("admin.disable.ask", { name: harmless(user.name) }), text: t("admin.disable.text"), command: `muster users disable ${user.name}`, confirm: t("admin.disable"), destroys: true };
  if (await askFor(asked)) await attempt(() => live.call("user.disable", { name: user.name }), t("admin.disable.done", { name: harmless(user.name) }), again);
}

/** @param {User} user @param {() => void} again */
async function remove(user, again) {
  const asked = { title: t("admin.remove.ask", { name: harmless(user.name) }), text: t("admin.remove.text"), command: `muster users rm ${user.name}`, confirm: t("action.remove"), destroys: true };
  if (await askFor(asked)) await attempt(() => live.call("user.remove", { name: user.name }), t("admin.remove.done", { name: harmless(user.name) }), again);
}

/** @param {User} user */
async function setPassword(user) {
  const password = await askFor({ title: t("admin.password.ask", { name: harmless(user.name) }), text: t("admin.password.text"), confirm: "", content: Password });
  if (password) await attempt(() => live.call("user.password", { name: user.name, password }), t("admin.password.done", { name: harmless(user.name) }), () => undefined);
}

/** @param {{done: (password: string | null) => void}} props */
function Password({ done }) {
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    done(String(new FormData(/** @type {HTMLFormElement} */ (event.currentTarget)).get("password")));
  };
  return html`<form class="stack" onSubmit=${submit}>
    <label class="labelled">${t("sign-in.new-password")}<input name="password" type="password" autocomplete="new-password" required autofocus /></label>
    <div class="dialog-actions"><button type="button" onClick=${() => done(null)}>${t("dialog.leave")}</button><button class="primary">${t("me.set")}</button></div>
  </form>`;
}

/**
 * Who owned tasks before there were users: they are given to a user.
 * @param {{user: User, again: () => Promise<void>}} props
 */
function ClaimButton({ user, again }) {
  const claim = async () => {
    const to = await askText({ title: t("admin.claim.ask", { name: harmless(user.name) }), label: t("sign-in.user"), confirm: t("admin.claim"), command: (text) => `muster users claim ${quoted(user.name)} ${quoted(text)}` });
    if (!to) return;
    await live.call("user.claim", { name: user.name, to }).then((it) => (tell(t("admin.claim.done", { count: it.count, to: harmless(to) })), again()), complain);
  };
  return html`<div><button onClick=${claim}>${t("admin.claim")}</button></div>`;
}

/** @param {() => void} again */
async function addUser(again) {
  const made = await askFor({ title: t("admin.add-user"), text: t("admin.add-user.text"), confirm: "", content: NewUser });
  if (made) again();
}

/** @param {{done: (made: boolean | null) => void}} props */
function NewUser({ done }) {
  const [words, setWords] = useState(/** @type {Record<string, string>} */ ({ role: "user" }));
  const [link, setLink] = useState("");
  const change = (/** @type {any} */ event) => setWords({ ...words, [event.target.name]: event.target.value });
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      await live.call("user.add", { name: words.name.trim(), role: words.role, display: words.display?.trim() ?? "" });
      const told = await live.call("user.link", { name: words.name.trim() });
      setLink(new URL(`#link=${told.link}`, document.baseURI).href);
    } catch (error) {
      complain(error);
    }
  };
  if (link) {
    return html`<div class="stack"><p>${t("admin.link.how")}</p><${Command} text=${link} /><div class="dialog-actions"><button class="primary" autofocus onClick=${() => done(true)}>${t("close")}</button></div></div>`;
  }
  return html`<form class="stack" onSubmit=${submit} onInput=${change}>
    <div class="fields">
      <label class="labelled">${t("sign-in.user")}<input name="name" required autofocus autocomplete="off" autocapitalize="none" /></label>
      <label class="labelled">${t("admin.display")}<input name="display" autocomplete="off" /></label>
      <label class="labelled">${t("admin.role")}<select name="role" value=${words.role}>${ROLES.map((role) => html`<option key=${role} value=${role}>${t(`role.${role}`)}</option>`)}</select></label>
    </div>
    <${Command} text=${harmless(`muster users add ${quoted(words.name?.trim() || "NAME")}${words.role === "admin" ? " --admin" : words.role === "viewer" ? " --role viewer" : ""}${words.display ? ` --display ${quoted(words.display.trim())}` : ""} --links`)} />
    <div class="dialog-actions"><button type="button" onClick=${() => done(null)}>${t("dialog.leave")}</button><button class="primary">${t("admin.add-user")}</button></div>
  </form>`;
}

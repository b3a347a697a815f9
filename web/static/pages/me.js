// Oneself: language and theme of this browser, password, log-ins and tokens, what one may have.

import { useAsked } from "../core/asked.js";
import { asFailure } from "../core/failure.js";
import { live } from "../core/context.js";
import { wholeMoment } from "../core/format.js";
import { harmless } from "../core/harmless.js";
import { html, useEffect, useState } from "../core/html.js";
import { saidOfFailure, t, useLanguage } from "../core/i18n.js";
import { me, signOut } from "../core/session.js";
import { useSignal } from "../core/signal.js";
import { setTheme, theme, THEMES } from "../core/theme.js";
import { Command } from "../parts/command.js";
import { askFor } from "../parts/dialog.js";
import { Languages } from "../parts/languages.js";
import { Refusal } from "../parts/refusal.js";
import { Said } from "../parts/said.js";
import { complain, tell } from "../parts/toast.js";
import { Waits } from "../parts/waits.js";

/** So often the share of the queue is asked for: it depends on others' tasks. */
const ASKED_EVERY_MS = 10_000;

/** That do the same as the buttons. */
const COMMANDS = { signOut: "muster logout", password: "muster users passwd", token: "muster tokens new" };

export function Page() {
  useLanguage();
  const who = useSignal(me);
  const shown = useSignal(theme);
  if (!who) return null;
  return html`<div class="page stack">
    <section class="card">
      <header class="task-title"><h1>${harmless(who.display || who.user)}</h1><span class="chip">${t(`role.${who.role}`)}</span>
        <span class="grow"></span><button title=${COMMANDS.signOut} onClick=${() => signOut().catch(complain)}>${t("me.sign-out")}</button></header>
      ${who.groups.length ? html`<p class="dim">${t("me.groups", { groups: who.groups.map(harmless).join(", ") })}</p>` : null}
    </section>
    <div class="halves">
      <section class="card stack">
        <h2>${t("me.browser")}</h2>
        <div class="labelled">${t("me.language")}<${Languages} /></div>
        <div class="labelled">${t("me.theme")}
          <div class="tabs" role="group" aria-label=${t("me.theme")}>
            ${THEMES.map((name) => html`<button key=${name} aria-pressed=${shown === name} onClick=${() => setTheme(name)}>${t(`theme.${name}`)}</button>`)}
          </div>
        </div>
      </section>
      <${Password} />
    </div>
    <${Quotas} quotas=${who.quotas ?? []} />
    <${Share} />
    <${Tokens} />
  </div>`;
}

function Password() {
  const [fault, setFault] = useState(/** @type {string | null} */ (null));
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.currentTarget);
    const words = new FormData(form);
    setFault(null);
    try {
      await live.call("user.password", { old: words.get("old"), password: words.get("new") });
      form.reset();
      tell(t("me.password-set"));
    } catch (error) {
      setFault(saidOfFailure(asFailure(error)));
    }
  };
  return html`<section class="card">
    <h2>${t("sign-in.password")}</h2>
    <form class="stack" onSubmit=${submit}>
      <label class="labelled">${t("me.old")}<input name="old" type="password" autocomplete="current-password" required /></label>
      <label class="labelled">${t("sign-in.new-password")}<input name="new" type="password" autocomplete="new-password" required /></label>
      ${fault ? html`<p class="refusal" role="alert"><span><${Said} text=${fault} /></span></p>` : null}
      <div class="dialog-actions"><button class="primary" title=${COMMANDS.password}>${t("me.set")}</button></div>
    </form>
  </section>`;
}

/** @param {{quotas: any[]}} props */
function Quotas({ quotas }) {
  if (!quotas.length) return null;
  return html`<section class="card">
    <h2>${t("me.quotas")}</h2>
    <div class="scrolls" tabindex="0"><table class="plain is-middle">
      <thead><tr>${["whose", "gpus", "manual", "each", "running"].map((name) => html`<th key=${name} scope="col">${t(`quota.${name}`)}</th>`)}</tr></thead>
      <tbody>
        ${quotas.map(
          (one) => html`<tr key=${`${one.kind} ${one.name}`}>
            <td>${t(`kind.${one.kind}`)} ${harmless(one.name)}</td>
            <td>${one.use.gpus} / ${one.quota.max_total_gpus ?? "∞"}</td>
            <td>${one.use.manual} / ${one.quota.max_manual_gpus ?? "∞"}</td>
            <td>${one.quota.max_gpus_per_task ?? "∞"}</td>
            <td>${one.use.running} / ${one.quota.max_running ?? "∞"}</td>
          </tr>`,
        )}
      </tbody>
    </table></div>
  </section>`;
}

/** How much of the queue one's tasks take, where that is half of what they may or more; asked anew as tasks change. */
function Share() {
  const told = useAsked("auth.whoami");
  useEffect(() => {
    const timer = setInterval(told.again, ASKED_EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  const share = told.answer?.share;
  if (!share) return null;
  const lines = [
    share.waiting && 2 * share.waiting >= share.most_waiting ? t("me.share.waiting", { waiting: share.waiting, most: share.most_waiting }) : null,
    share.bytes && 2 * share.bytes >= share.most_bytes ? t("me.share.bytes", { size: share.bytes, most: share.most_bytes }) : null,
  ].filter(Boolean);
  if (!lines.length) return null;
  return html`<section class="card stack" id="share">
    <h2>${t("me.share")}</h2>
    ${lines.map((line) => html`<p key=${line}>${line}</p>`)}
    <p class="dim">${t("me.share.do")}</p>
  </section>`;
}

function Tokens() {
  const told = useAsked("token.list");
  const [made, setMade] = useState(/** @type {string | null} */ (null));
  const revoke = async (/** @type {any} */ token) => {
    const asked = { title: t("me.revoke.ask"), text: t("me.revoke.text"), hits: [`${token.id}  ${harmless(token.label)}`], command: `muster tokens revoke ${token.id}`, confirm: t("me.revoke"), destroys: true };
    if (!(await askFor(asked))) return;
    await live.call("token.revoke", { tokens: [token.id] }).then(told.again, complain);
  };
  const make = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.currentTarget);
    try {
      const answer = await live.call("token.new", { label: String(new FormData(form).get("label")) });
      setMade(answer.token);
      form.reset();
      await told.again();
    } catch (error) {
      complain(error);
    }
  };
  return html`<section class="card stack">
    <h2>${t("me.tokens")}</h2>
    <div class="scrolls" tabindex="0"><table class="plain is-middle">
      <thead><tr>${["id", "kind", "label", "from", "made", "used", "expires", "end"].map((name) => html`<th key=${name} scope="col">${t(`token.${name}`)}</th>`)}</tr></thead>
      <tbody>
        ${(told.answer ?? []).map(
          (/** @type {any} */ one) => html`<tr key=${one.id}>
            <td class="mono">${one.id}</td><td class="whole">${t(`token.kind.${one.kind}`)}</td><td>${harmless(one.label)}</td><td class="mono">${harmless(one.from)}</td>
            <td class="whole">${wholeMoment(one.made_at)}</td><td class="whole">${wholeMoment(one.used_on).slice(0, 10)}</td><td class="whole">${wholeMoment(one.expires_at)}</td>
            <td>${one.is_this ? html`<span class="chip">${t("me.this")}</span>` : html`<button class="is-danger" onClick=${() => revoke(one)}>${t("me.revoke")}</button>`}</td>
          </tr>`,
        )}
      </tbody>
    </table></div>
    ${told.fault ? html`<${Refusal} fault=${told.fault} again=${told.again} />` : told.answer ? null : html`<${Waits} />`}
    ${made ? html`<div><p>${t("me.token-made")}</p><${Command} text=${made} /></div>` : null}
    <form class="inline" onSubmit=${make}>
      <label class="labelled">${t("token.label")}<input name="label" required /></label><button title=${COMMANDS.token}>${t("me.token-new")}</button>
    </form>
  </section>`;
}

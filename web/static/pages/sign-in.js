// Signing in: a password, a token, or a link that works once. Where there are no users yet, the one command to type.

import { asFailure } from "../core/failure.js";
import { html, useState } from "../core/html.js";
import { saidOfFailure, t } from "../core/i18n.js";
import { signIn } from "../core/session.js";
import { Command } from "../parts/command.js";
import { Icon } from "../parts/icons.js";
import { Languages } from "../parts/languages.js";
import { Said } from "../parts/said.js";

/** The secret of a one-time link stands behind `#`, which no server and no previewer of links gets to see. */
function linkHere() {
  const found = /(?:^#|[#&])link=([^&]+)/.exec(location.hash);
  return found ? decodeURIComponent(found[1]) : "";
}

export function SignIn() {
  const link = linkHere();
  const [way, setWay] = useState(link ? "link" : "password");
  const [isBusy, setBusy] = useState(false);
  const [fault, setFault] = useState(/** @type {import("../core/failure.js").Failure | null} */ (null));
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.currentTarget));
    const text = (/** @type {string} */ name) => String(form.get(name) ?? "");
    setBusy(true);
    setFault(null);
    try {
      if (way === "token") await signIn({ token: text("token").trim() });
      else if (way === "link") await signIn({ link, password: text("password") });
      else await signIn({ user: text("user").trim(), password: text("password") });
      if (link) history.replaceState(null, "", location.pathname + location.search);
    } catch (error) {
      setFault(asFailure(error));
      setBusy(false);
    }
  };
  return html`<main class="sign-in">
    <form onSubmit=${submit}>
      <h1><img src="static/icon.svg" alt="" width="28" height="28" />Muster</h1>
      <${Fields} way=${way} />
      ${fault ? html`<p class="refusal" role="alert"><${Icon} name="warn" /><span><${Said} text=${saidOfFailure(fault)} /></span></p>` : null}
      ${fault?.key === "no_log_ins" ? html`<${Command} text="muster users add NAME --admin --links" />` : null}
      <button class="primary" type="submit" disabled=${isBusy}>
        ${isBusy ? t("sign-in.busy") : way === "link" ? t("sign-in.choose") : t("sign-in.do")}
      </button>
      ${link
        ? null
        : html`<button class="link" type="button" onClick=${() => setWay(way === "token" ? "password" : "token")}>
            ${way === "token" ? t("sign-in.with-password") : t("sign-in.with-token")}
          </button>`}
      <details>
        <summary>${t("sign-in.first")}</summary>
        <p>${t("sign-in.first.how")}</p>
        <${Command} text="muster users add NAME --admin --links" />
      </details>
    </form>
    <${Languages} />
  </main>`;
}

/** @param {{way: string}} props */
function Fields({ way }) {
  if (way === "token") {
    return html`<label>${t("sign-in.token")}<input name="token" type="password" autocomplete="off" required autofocus /></label>`;
  }
  if (way === "link") {
    return html`<p>${t("sign-in.link.how")}</p>
      <label>${t("sign-in.new-password")}<input name="password" type="password" autocomplete="new-password" required autofocus /></label>`;
  }
  return html`<label>${t("sign-in.user")}<input name="user" autocomplete="username" autocapitalize="none" required autofocus /></label>
    <label>${t("sign-in.password")}<input name="password" type="password" autocomplete="current-password" required /></label>`;
}

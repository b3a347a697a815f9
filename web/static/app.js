// Where the console begins: theme, language, who is here; then either the page to sign in, or the frame with its pages.

import "./core/theme.js";
import { live, store } from "./core/context.js";
import { asFailure } from "./core/failure.js";
import { html, render, useEffect } from "./core/html.js";
import { firstLanguage, inWords, setLanguage, t, useLanguage } from "./core/i18n.js";
import { isOutdated, watchForNewer } from "./core/newer.js";
import { sendFormsOnce } from "./core/once.js";
import { reloadOnceThere } from "./core/reload.js";
import { followLinks, loadWholeWhere, place, usePlace } from "./core/route.js";
import { lookWhoIsHere, me, sessionKey, signIn } from "./core/session.js";
import { Signal, useSignal } from "./core/signal.js";
import { loadPage, pageAt } from "./pages/index.js";
import { Dialogs } from "./parts/dialog.js";
import { Frame } from "./parts/frame.js";
import { Later } from "./parts/later.js";
import { Refusal } from "./parts/refusal.js";
import { complain, Toasts } from "./parts/toast.js";
import { Waits } from "./parts/waits.js";

/** What stands without the frame: a screen on a wall, and the page to sign in, of which whoever is signed in needs nothing. */
const WALL = { key: "wall", load: () => import("./pages/wall.js"), words: ["wall", "overview"], styles: ["overview", "wall"], draw: (/** @type {any} */ { Wall }) => html`<${Wall} />` };
const SIGN_IN = { key: "sign-in", load: () => import("./pages/sign-in.js"), words: [], styles: ["sign-in"], draw: (/** @type {any} */ { SignIn }) => html`<${SignIn} />` };

/**
 * Why nobody can tell who is here.
 * @type {Signal<import("./core/failure.js").Failure | null>}
 */
const fault = new Signal(/** @type {import("./core/failure.js").Failure | null} */ (null));

function App() {
  const who = useSignal(me);
  const why = useSignal(fault);
  useLanguage();
  useEffect(() => {
    if (who) live.start();
    else if (who === null) live.stop();
  }, [who?.user, who === null]);
  const { path } = usePlace();
  if (who === undefined) return why ? html`<main class="empty"><${Refusal} fault=${why} /><p>${t("ui.again")}</p></main>` : html`<${Waits} />`;
  if (who && (path === "wall" || isScreen(who))) return html`<${Later} ...${WALL} /><${Toasts} />`;
  return html`${who ? html`<${Frame} />` : html`<${Later} ...${SIGN_IN} />`}<${Dialogs} /><${Toasts} />`;
}

/**
 * A log-in of a token for a screen sees no other page.
 * @param {import("./core/session.js").Me} who
 */
function isScreen(who) {
  return who.scopes.length === 1 && who.scopes[0] === "wall";
}

/**
 * Who is here. A screen shows the token that stands behind `#` in its address, which no server gets to see: it comes in again by itself
 * when its log-in has ended, for nobody stands before it with a keyboard.
 */
async function comeIn() {
  await lookWhoIsHere();
  const token = /(?:^#|[#&])token=([^&]+)/.exec(location.hash)?.[1];
  if (!me.value && token) await signIn({ token: decodeURIComponent(token) });
}

/** What the first page needs is asked for side by side: its words, its module, its style, who is here, and the cluster. */
async function begin() {
  followLinks();
  loadWholeWhere(isOutdated);
  watchForNewer();
  sendFormsOnce();
  store.holdStill();
  const here = comeIn();
  here.catch(() => undefined); // it is awaited below, when there are words for it
  const isKnown = sessionKey() !== null; // most likely: a log-in that has ended ends the connection, too
  if (isKnown) live.start();
  const { path } = place.value;
  const page = path === "wall" ? WALL : isKnown ? pageAt(path)?.page : SIGN_IN;
  if (page) loadPage(page).catch(() => undefined); // asked for again where it is drawn
  await setLanguage(firstLanguage(null), page?.words);
  const app = /** @type {HTMLElement} */ (document.getElementById("app"));
  app.replaceChildren();
  render(html`<${App} />`, app);
  try {
    await here;
  } catch (error) {
    if (me.value === null) return complain(error); // the token of a screen opens nothing
    fault.set(await inWords(asFailure(error)));
    reloadOnceThere("readyz"); // the master is away: it is looked for until it is back
  }
}

begin().catch(() => reloadOnceThere()); // the words of the language did not come

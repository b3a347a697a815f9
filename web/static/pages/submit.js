// Submitting: a form, and beside it, while one writes, where the task would go or why it would wait, what would keep it
// from starting well, and the command line and the Python call that do the same. The draft is kept.

import { asFailure } from "../core/failure.js";
import { live, store } from "../core/context.js";
import { arrayOf, commandsOf, commandLineOf, filled, isBatch, isSweep, pointCount, points, pythonOf, specOf, sweepOf } from "../core/submit-spec.js";
import { ranges } from "../core/format.js";
import { harmless } from "../core/harmless.js";
import { html, useEffect, useRef, useState } from "../core/html.js";
import { said, saidOfFailure, t, useLanguage } from "../core/i18n.js";
import { keep, kept } from "../core/kept.js";
import { useNarrow } from "../core/narrow.js";
import { go, usePlace } from "../core/route.js";
import { hasRole } from "../core/session.js";
import { useCluster } from "../core/store.js";
import { draftOf, fieldOf, typedCommand } from "../core/wish.js";
import { Command } from "../parts/command.js";
import { Icon } from "../parts/icons.js";
import { Said } from "../parts/said.js";
import { Batch, Sweep } from "../parts/submit-fields.js";
import { complain, tell } from "../parts/toast.js";
import { sendsAtOnce, WishFields, written } from "../parts/wish-fields.js";

/** @typedef {import("../core/submit-spec.js").Draft} Draft */

const PAUSE_MS = 350;
const EXAMPLE = "python train.py --lr 1e-3";

export function Page() {
  useLanguage();
  const { query } = usePlace();
  const [draft, setDraft] = useState(/** @type {Draft} */ (kept("draft") ?? {}));
  const command = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const isNarrow = useNarrow();
  const [isBusy, setBusy] = useState(false);
  const { nodes } = useCluster(store, ["nodes"]);
  const judged = useJudged(draft, [...nodes.values()].map((node) => `${node.name} ${node.state}`).join());
  const [like, wantedEnv] = [query.get("like"), query.get("env")];
  useEffect(() => {
    if (like) takeOver(Number(like)).then((it) => it && setDraft(it), complain);
  }, [like]);
  useEffect(() => {
    if (wantedEnv) setDraft((/** @type {Draft} */ before) => ({ ...before, env: wantedEnv }));
  }, [wantedEnv]);
  useEffect(() => keepDraft(draft), [draft]);
  useEffect(() => {
    if (!isNarrow) command.current?.focus(); // who comes here comes to write a command; a phone would open its keyboard over the form
  }, []);
  const change = (/** @type {string} */ name, /** @type {string} */ text) => setDraft((/** @type {Draft} */ before) => ({ ...before, [name]: text }));
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await send(draft);
    } catch (error) {
      complain(error);
    } finally {
      setBusy(false);
    }
  };
  const faultOf = (/** @type {string} */ name) => (judged.field === name ? judged.fault : null);
  const why = hasRole("user") ? null : t("not.allowed.viewer");
  return html`<div class="page submit">
    <form class="card stack" onSubmit=${submit} onInput=${(/** @type {any} */ event) => change(...written(event))} onKeyDown=${sendsAtOnce}>
      <h1>${t("page.submit")}</h1>
      <label class="labelled">${t("submit.command")}
        <textarea ref=${command} name="command" rows="5" class="mono" spellcheck=${false} required placeholder=${EXAMPLE} value=${draft.command ?? ""}></textarea>
      </label>
      <label class="switch"><input type="checkbox" name="many" checked=${draft.many === "on"} />${t("submit.many", { count: commandsOf(draft).length })}</label>
      <${Batch} draft=${draft} />
      <${Sweep} draft=${draft} />
      <${WishFields} draft=${draft} change=${change} faultOf=${faultOf} />
      <label class="switch"><input type="checkbox" name="hold" checked=${draft.hold === "on"} />${t("submit.hold")}</label>
      <div class="dialog-actions">
        <button type="button" onClick=${() => setDraft({})}>${t("submit.empty")}</button>
        <button class="primary" disabled=${isBusy || Boolean(why)} title=${why ?? ""}>${howMany(draft) > 1 ? t("submit.all", { count: howMany(draft) }) : t("page.submit")}</button>
      </div>
    </form>
    <aside class="stack">
      <${Placement} judged=${judged} />
      <section class="card"><h2>${t("submit.line")}</h2><${Command} text=${commandLineOf(draft)} /></section>
      <section class="card"><h2>${t("submit.python")}</h2><${Command} text=${pythonOf(draft)} /></section>
    </aside>
  </div>`;
}

/**
 * In this browser, but for what may be a secret.
 * @param {Draft} draft
 */
function keepDraft({ variables, ...rest }) {
  keep("draft", rest);
}

/**
 * How many tasks a draft is.
 * @param {Draft} draft
 */
function howMany(draft) {
  if (isSweep(draft)) return pointCount(sweepOf(draft).values);
  return isBatch(draft) ? commandsOf(draft).length : 1;
}

/** @param {{judged: ReturnType<typeof useJudged>}} props */
function Placement({ judged }) {
  const { preview, fault, notes } = judged;
  return html`<section class="card placement" aria-live="polite">
    <h2>${t("submit.where")}</h2>
    ${fault ? html`<p class="refusal"><${Icon} name="warn" /><span><${Said} text=${fault} /></span></p>` : null}
    ${!fault && preview?.placements?.length
      ? html`<p class="is-good">${t("submit.now")}</p><ul class="list">${preview.placements.map((/** @type {any} */ part) => html`<li key=${part.node} class="mono">${harmless(part.node)}${part.gpus.length ? ` · GPU ${ranges(part.gpus)}` : ""}</li>`)}</ul>`
      : null}
    ${!fault && preview && !preview.placements.length ? html`<p><${Said} text=${said(preview.reason_key, preview.reason_args, preview.reason)} /></p>` : null}
    ${!fault && !preview ? html`<p class="dim">${t("submit.write")}</p>` : null}
    ${notes.length ? html`<ul class="list">${notes.map((one) => html`<li key=${one.text} class="warned"><${Said} text=${said(one.key, one.args, one.text)} /></li>`)}</ul>` : null}
  </section>`;
}

/** @typedef {{text: string, key?: string, args?: Record<string, any>}} Note */

/**
 * What the master says of the draft, asked a moment after the last letter; what is refused is told at its field, where
 * the refusal names one.
 * @param {Draft} draft
 * @param {string} there nodes and how they are: with them the answer changes
 */
function useJudged(draft, there) {
  const [judged, setJudged] = useState({ preview: /** @type {any} */ (null), fault: /** @type {string | null} */ (null), field: "", notes: /** @type {Note[]} */ ([]) });
  const text = JSON.stringify(draft);
  const asked = useRef(0);
  useEffect(() => {
    asked.current += 1;
    const mine = asked.current;
    const sweep = sweepOf(draft).values;
    const command = isBatch(draft) ? commandsOf(draft)[0] : filled(draft.command?.trim() ?? "", points(sweep, 1)[0]);
    if (!command) {
      setJudged({ preview: null, fault: null, field: "", notes: [] });
      return undefined;
    }
    const timer = setTimeout(async () => {
      const spec = { ...specOf(draft), command };
      const next = { preview: /** @type {any} */ (null), fault: /** @type {string | null} */ (null), field: "", notes: /** @type {Note[]} */ ([]) };
      try {
        next.preview = await live.call("task.submit", { ...spec, dry_run: true });
        const told = await live.call("task.places", spec);
        next.notes = told.missing.map((/** @type {string} */ text, /** @type {number} */ at) => ({ text, ...told.missing_messages[at] }));
      } catch (error) {
        const failure = asFailure(error);
        next.fault = saidOfFailure(failure);
        next.field = fieldOf(failure);
      }
      if (asked.current === mine) setJudged(next);
    }, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text, there]);
  return judged;
}

/** @param {Draft} draft */
async function send(draft) {
  const request_id = crypto.randomUUID();
  const spec = specOf(draft);
  const rest = { ...draft, command: "", log: "" }; // two tasks that write into one file would be no help
  if (isSweep(draft) || isBatch(draft)) {
    const made = isSweep(draft)
      ? await live.call("task.submit_array", { ...spec, ...arrayOf(draft), command: draft.command.trim(), request_id })
      : await live.call("task.submit_batch", { ...spec, commands: commandsOf(draft), request_id });
    keepDraft(rest);
    tell(t("submit.done-many", { count: made.count, first: made.first }));
    go("queue");
    return;
  }
  const made = await live.call("task.submit", { ...spec, command: draft.command.trim(), request_id });
  keepDraft(rest);
  tell(t("submit.done", { id: made.id }));
  go(`tasks/${made.id}`);
}

/**
 * A draft that is like a task that there is.
 * @param {number} id
 * @returns {Promise<Draft | null>}
 */
async function takeOver(id) {
  const task = store.cluster.task(id) ?? (await live.call("task.show", { id }));
  return { ...draftOf(task), command: typedCommand(task.command) };
}

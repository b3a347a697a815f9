// The last 24 hours: how many GPUs tasks held, of all that there are, as a curve, and in words where that does not help.

import { live, store } from "../core/context.js";
import { heldOver } from "../core/held.js";
import { html, useEffect, useMemo, useState } from "../core/html.js";
import { t } from "../core/i18n.js";
import { useSignal } from "../core/signal.js";
import { Chart, clock } from "./chart.js";

const DAY_S = 86_400;
const STEPS = 96;
const STEP_S = DAY_S / STEPS;
/** So many steps are a row of the table. */
const ROW = 4;
const ASKED = 1_000;
const ASKED_AGAIN_MS = 600_000;
/** The first step began before the day did, and the clocks of two machines differ. */
const SPARE_S = 3_600;

/**
 * Have those tasks there that ended within a day, also after the connection was lost.
 * @returns {number | null} since when all of them are known, seconds since the epoch; null: that is not known yet
 */
export function useEndedOfDay() {
  const [since, setSince] = useState(/** @type {number | null} */ (null));
  const isLive = useSignal(live.state) === "live";
  useEffect(() => {
    if (!isLive) return undefined;
    let isThere = true;
    const ask = () => {
      const from = Date.now() / 1000 - DAY_S - SPARE_S;
      store.askEnded({ limit: ASKED, offset: 0, since: from }).then(
        ({ tasks, total }) => isThere && setSince(total > tasks.length ? tasks.at(-1).ended_at : from),
        () => isThere && setSince((/** @type {number | null} */ before) => before ?? Infinity),
      );
    };
    ask();
    const timer = setInterval(ask, ASKED_AGAIN_MS);
    return () => {
      isThere = false;
      clearInterval(timer);
    };
  }, [isLive]);
  return since;
}

/** @param {{cluster: import("../core/cluster.js").Cluster, total: number, now: number, since: number | null, isPlain?: boolean}} props */
export function Day({ cluster, total, now, since, isPlain = false }) {
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const from = Math.floor(now / 60) * 60 - DAY_S;
  const times = useMemo(() => Array.from({ length: STEPS }, (_, step) => from + (step + 0.5) * STEP_S), [from]);
  const values = useMemo(
    () => heldOver([...cluster.tasks.values(), ...cluster.ended.values()], from + DAY_S, DAY_S, STEPS, since ?? Infinity),
    [cluster.versions.tasks, cluster.versions.ended, from, since],
  );
  const known = /** @type {number[]} */ (values.filter((one) => one !== null));
  const all = known.reduce((sum, one) => sum + one, 0);
  if (!total && known.length && !all) return html`<p class="empty">${t("day.none")}</p>`;
  const label = known.length ? t("day.label", { mean: Math.round((all / known.length / Math.max(1, total)) * 100) }) : since === null ? "" : t("day.unknown");
  const say = (/** @type {number} */ step) => `${between(times[step], STEP_S)} · ${heldIn(values[step])}`;
  return html`<figure class="day">
    <${Chart} times=${times} values=${values} top=${Math.ceil(Math.max(total, ...known, 1))} at=${at} onAt=${setAt} say=${say} label=${label || t("day.title")} isPlain=${isPlain} />
    <figcaption>${at === null ? label : say(at)}</figcaption>
    ${isPlain ? null : html`<${Hours} times=${times} values=${values} />`}
  </figure>`;
}

/** @param {number} middle @param {number} length of a span of time, both in seconds */
const between = (middle, length) => `${clock(middle - length / 2)}–${clock(middle + length / 2)}`;

/** @param {number | null} held */
const heldIn = (held) => (held === null ? t("day.unknown") : t("day.held", { held: Math.round(held * 10) / 10 }));

/**
 * The same hour by hour, for whoever does not see the curve, or wants its figures.
 * @param {{times: number[], values: (number | null)[]}} props
 */
function Hours({ times, values }) {
  const [isOpen, setOpen] = useState(false);
  const rows = [];
  for (let step = STEPS - ROW; isOpen && step >= 0; step -= ROW) {
    const mean = values.slice(step, step + ROW).reduce((sum, one) => (sum === null || one === null ? null : sum + one / ROW), 0);
    const hour = between(times[step] + ((ROW - 1) / 2) * STEP_S, ROW * STEP_S);
    rows.push(html`<tr key=${step}><th scope="row">${hour}</th><td>${heldIn(mean)}</td></tr>`);
  }
  return html`<details onToggle=${(/** @type {any} */ event) => setOpen(event.currentTarget.open)}><summary>${t("day.hours")}</summary>
    ${isOpen ? html`<table aria-label=${t("day.title")}><tbody>${rows}</tbody></table>` : null}</details>`;
}

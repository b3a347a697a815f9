// The last 24 hours as a curve: how many GPUs tasks held, of all that there are.

import { ENDED } from "../core/cluster.js";
import { heldOver } from "../core/held.js";
import { html } from "../core/html.js";
import { t } from "../core/i18n.js";

const DAY_S = 86_400;
const STEPS = 96;
const [WIDTH, HEIGHT] = [960, 200];

/** @param {{cluster: import("../core/cluster.js").Cluster, total: number, now: number}} props */
export function Day({ cluster, total, now }) {
  const until = Math.floor(now / 60) * 60;
  const running = [...cluster.tasks.values()].filter((task) => !ENDED.has(task.state));
  const held = heldOver([...running, ...cluster.ended.values()], until, DAY_S, STEPS);
  const top = Math.max(total, ...held, 1);
  const mean = Math.round((held.reduce((sum, one) => sum + one, 0) / STEPS / Math.max(1, total)) * 100);
  const points = held.map((one, at) => `${((at + 0.5) * WIDTH) / STEPS} ${HEIGHT - (one / top) * HEIGHT}`);
  return html`<figure class="day">
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${t("day.label", { mean })}>
      <path class="day-area" d=${`M0 ${HEIGHT} L${points.join(" L")} L${WIDTH} ${HEIGHT}z`} /><path class="day-line" d=${`M${points.join(" L")}`} />
    </svg>
    <figcaption><span>${t("day.before")}</span><span>${t("day.label", { mean })}</span><span>${t("day.now")}</span></figcaption>
  </figure>`;
}

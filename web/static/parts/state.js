// The state of a task or a node: a shape, a colour and a word, so that none of the three is needed alone.

import { html } from "../core/html.js";
import { t } from "../core/i18n.js";

const SHAPES = /** @type {Record<string, string>} */ ({
  waiting: "M8 3a5 5 0 100 10A5 5 0 008 3z",
  held: "M4 3h3v10H4zM9 3h3v10H9z",
  starting: "M8 3a5 5 0 100 10A5 5 0 008 3zM8 8V3",
  running: "M4 2.500l9 5.500-9 5.500z",
  paused: "M4 3h3v10H4zM9 3h3v10H9z",
  succeeded: "M3 8.500l3.500 3.500L13 4.500",
  failed: "M4 4l8 8M12 4l-8 8",
  cancelled: "M3.500 8h9",
  timed_out: "M8 3a5 5 0 100 10A5 5 0 008 3zM8 5v3l2 1",
  lost: "M6 6a2 2 0 113 1.700C8.300 8.200 8 8.500 8 9.500M8 12h.01",
});

/** @param {{state: string, short?: boolean}} props */
export function State({ state, short = false }) {
  const word = t(`state.${state}`);
  return html`<span class=${`state is-${state}`} title=${short ? word : undefined}>
    <svg viewBox="0 0 16 16" aria-hidden="true"><path d=${SHAPES[state] ?? SHAPES.lost} /></svg>
    <span class=${short ? "unseen" : ""}>${word}</span>
  </span>`;
}

/** @param {{node: import("../core/cluster.js").Node}} props */
export function NodeState({ node }) {
  const state = node.state === "online" && (node.drained !== null || !node.schedulable) ? "drained" : node.sick ? "sick" : node.state;
  return html`<span class=${`node-state is-${state}`}><i aria-hidden="true"></i>${t(`node.${state}`)}</span>`;
}

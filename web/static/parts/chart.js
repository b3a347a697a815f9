// A curve over time, drawn by uPlot, which comes once the curve is in sight; where it did not come it is asked for again.
// Owns the canvas, and the pointer and the keys that move over it; its caller puts a point into words.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../core/html.js";
import { t } from "../core/i18n.js";
import { two } from "../core/sizes.js";
import { needSheet } from "../core/styles.js";

/** @typedef {typeof import("../vendor/uplot.js").default} Library */

/**
 * @typedef {object} Curve
 * @property {number[]} times seconds since the epoch, in order
 * @property {(number | null)[]} values null: a gap. Others are other arrays
 * @property {number} top where the axis of the values ends
 * @property {number | null} at the point that is pointed at
 * @property {(at: number | null) => void} onAt
 * @property {(at: number) => string} say what is read aloud of a point
 * @property {string} label what is read aloud of the whole
 * @property {boolean} isPlain nobody points at it
 */

const AGAIN_MS = 10_000;
/** @type {Record<string, number>} */
const STEPS = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };

/** @type {Library | null} */
let library = null;
/** How often it did not come: a browser asks for no module twice by the same address. */
let losses = 0;

/** @param {number} at seconds since the epoch; by the reader's own clock */
export function clock(at) {
  const date = new Date(at * 1000);
  return `${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** @param {Curve} props */
export function Chart(props) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null));
  const { made, isLost } = useLibrary(place);
  const lost = isLost ? html`<p class="empty" role="status">${t("chart.lost")}</p>` : null;
  return html`<div class="chart" ref=${place}>${made ? html`<${Plot} ...${props} made=${made} />` : lost}</div>`;
}

/** @param {{current: Element | null}} place */
function useLibrary(place) {
  const [made, setMade] = useState(() => library);
  const [isLost, setLost] = useState(false);
  useEffect(() => {
    if (library) return undefined;
    let isThere = true;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let again;
    const ask = () => load().then(
      (it) => isThere && setMade(() => it),
      () => {
        if (!isThere) return;
        setLost(true);
        again = setTimeout(ask, AGAIN_MS);
      },
    );
    const observer = new IntersectionObserver((seen) => {
      if (!seen.some((one) => one.isIntersecting)) return;
      observer.disconnect();
      ask();
    });
    if (place.current) observer.observe(place.current);
    return () => {
      isThere = false;
      observer.disconnect();
      clearTimeout(again);
    };
  }, []);
  return { made, isLost };
}

async function load() {
  try {
    const [module] = await Promise.all([losses ? import(`../vendor/uplot.js?${losses}`) : import("../vendor/uplot.js"), needSheet(new URL("../vendor/uplot.css", import.meta.url).href)]);
    return (library = /** @type {Library} */ (module.default));
  } catch (error) {
    losses += 1;
    throw error;
  }
}

/** @param {Curve & {made: Library}} props */
function Plot(props) {
  const { times, values, top, at, say, label, isPlain } = props;
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const plot = useRef(/** @type {InstanceType<Library> | null} */ (null));
  const newest = useRef(props);
  newest.current = props;
  const { width, height } = useSize(box);
  useLayoutEffect(() => {
    if (!box.current || !width || !height) return undefined;
    const one = new props.made(optionsOf(box.current, newest, { width, height }), [times, values], box.current);
    plot.current = one;
    const observer = new MutationObserver(() => one.redraw(false)); // the colours are other ones
    observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      observer.disconnect();
      one.destroy();
      plot.current = null;
    };
  }, [width, height]);
  useLayoutEffect(() => plot.current?.setData([times, values]), [times, values, top]);
  if (isPlain || !times.length) return html`<div ref=${box} role="img" aria-label=${label}></div>`;
  const last = times.length - 1;
  // Half a pixel behind the last point uPlot shows no line.
  const point = (/** @type {number} */ to) => plot.current?.setCursor({ left: Math.floor(plot.current.valToPos(times[to], "x")), top: 0 });
  const press = (/** @type {KeyboardEvent} */ event) => {
    const step = STEPS[event.key];
    if (step === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    point(Math.max(0, Math.min(last, (at ?? last) + step)));
  };
  return html`<div ref=${box} tabindex="0" role="slider" aria-readonly="true" aria-label=${label} aria-valuemin="0" aria-valuemax=${last}
    aria-valuenow=${at ?? last} aria-valuetext=${say(at ?? last)} onKeyDown=${press} onFocus=${() => at === null && point(last)} onBlur=${() => plot.current?.setCursor({ left: -10, top: -10 })}></div>`;
}

/** @param {{current: Element | null}} box */
function useSize(box) {
  const [size, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([{ contentRect: { width, height } }]) => setSize({ width: Math.floor(width), height: Math.floor(height) }));
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return size;
}

/**
 * @param {Element} box
 * @param {{current: Curve}} newest
 * @param {{width: number, height: number}} size
 */
function optionsOf(box, newest, size) {
  const style = getComputedStyle(box); // it follows the theme
  const colour = (/** @type {string} */ name) => () => style.getPropertyValue(name);
  const em = Math.round(Number.parseFloat(style.fontSize) * 0.85);
  const axis = { stroke: colour("--text-soft"), font: `${em}px ${style.fontFamily}`, grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, gap: em / 2 };
  return {
    ...size,
    padding: [em * 0.7, em * 1.6, 0, 0],
    legend: { show: false },
    cursor: { show: !newest.current.isPlain, y: false, drag: { x: false, y: false } },
    scales: { y: { range: () => [0, newest.current.top] } },
    axes: [
      { ...axis, size: em * 2, space: em * 5, values: (/** @type {any} */ _, /** @type {number[]} */ splits) => splits.map(clock) },
      { ...axis, size: (/** @type {any} */ _, /** @type {string[] | null} */ texts) => em * (1 + 0.65 * Math.max(1, ...(texts ?? []).map((one) => one.length))), splits: () => marks(newest.current.top) },
    ],
    series: [{}, { stroke: colour("--accent"), fill: colour("--accent-soft"), width: 2, points: { show: false, size: 6, fill: colour("--accent"), filter: () => lone(newest.current.values) } }],
    hooks: { setCursor: [(/** @type {InstanceType<Library>} */ one) => newest.current.onAt(one.cursor.idx ?? null)] },
  };
}

/** @param {number} top of an axis that counts */
const marks = (top) => (top % 2 ? [0, top] : [0, top / 2, top]);

/**
 * Points between gaps, of which no line tells.
 * @param {(number | null)[]} values
 */
function lone(values) {
  const isGap = (/** @type {number} */ at) => (values[at] ?? null) === null;
  return values.flatMap((_, at) => (!isGap(at) && isGap(at - 1) && isGap(at + 1) ? [at] : []));
}

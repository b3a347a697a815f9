// A log of any length: the end first, what stands before as one scrolls up, and what is written while one looks on.

import { asFailure } from "../core/failure.js";
import { collapsed, segments } from "../core/ansi.js";
import { live } from "../core/context.js";
import { count, size } from "../core/format.js";
import { html, useCallback, useEffect, useLayoutEffect, useReducer, useRef, useState } from "../core/html.js";
import { saidOfFailure, t } from "../core/i18n.js";
import { useKeys } from "../core/keys.js";
import { LogWindow } from "../core/log-window.js";
import { setQuery, place } from "../core/route.js";
import { download } from "./download.js";
import { Icon } from "./icons.js";
import { LogSearch, search, Searching } from "./log-search.js";
import { Said } from "./said.js";
import { complain, tell } from "./toast.js";
import { Waits } from "./waits.js";

const LINE = 18;
const SPARE = 20;
/** Wrapped lines have no one height: so many of them are in the document, and others take their place as one scrolls. */
const WRAPPED = 600;
const WRAPPED_STEP = 300;
const WAIT_S = 25;
const AGAIN_MS = 2_000;
/** What looks like the tale of a fault, for us and, as the same words, for the server. */
const FAULT_PATTERN =
  "(Error|Exception)\\b\\s*[:(]|Traceback \\(most recent|\\b(ERROR|FATAL|CRITICAL|Killed)\\b|\\b[Ee]rror:|[Ss]egmentation fault|out of memory";
const FAULT = new RegExp(FAULT_PATTERN);

/** @typedef {{id: number} | {server: true}} Which of a task, or the master's own */

/**
 * @param {object} props
 * @param {Which} props.which
 * @param {boolean} [props.isBegun] something was to be written into it already
 * @param {() => boolean} [props.isOver] nothing will be
 * @param {string} [props.path] where it is downloaded from
 */
export function Log({ which, isBegun = true, isOver = () => false, path }) {
  const log = useLog(which, isOver);
  const { file, fault, isReady } = log;
  useKeys({
    f: { does: log.follow, says: "log.follow" },
    e: { does: () => goToFault(which, log, false), says: "log.first" },
    E: { does: () => goToFault(which, log, true), says: "log.last" },
    "/": { does: () => document.getElementById("log-search")?.focus(), says: "log.search" },
    G: { does: log.follow, says: "log.end" },
  });
  if (fault && !isReady) {
    const isNone = fault.code === "not_found" || !isBegun;
    return html`<div class="empty"><p><${Said} text=${isNone ? t("log.none") : saidOfFailure(fault)} /></p></div>`;
  }
  if (!isReady) return html`<${Waits} />`;
  return html`<div class="log">
    <div class="log-tools" role="toolbar" aria-label=${t("tab.log")}>
      ${log.isFollowing
        ? html`<span class="chip is-live">${t(file.ended ? "log.at-end" : "log.following")}</span>`
        : html`<button class="chip is-held" onClick=${log.follow}>${log.news ? t("log.paused-new", { count: count(log.news) }) : t("log.paused")}</button>`}
      <button onClick=${() => goToFault(which, log, false)}>${t("log.first")}</button>
      <button onClick=${() => goToFault(which, log, true)}>${t("log.last")}</button>
      <${Searching} percent=${log.sought ? log.percent : null} />
      <button onClick=${() => log.jump(0)}>${t("log.start")}</button>
      <button onClick=${log.follow}>${t("log.end")}</button>
      <label class="switch"><input type="checkbox" checked=${log.isWrapped} onChange=${log.wrap} />${t("log.wrap")}</label>
      <${LogSearch} which=${which} jump=${log.jump} />
      <span class="grow"></span>
      <span class="dim">${size(file.size)}</span>
      ${path ? html`<button class="quiet" title=${t("log.download")} aria-label=${t("log.download")} onClick=${() => download(path)}><${Icon} name="download" /></button>` : null}
    </div>
    <${Lines} log=${log} />
  </div>`;
}

/**
 * The stretch of the log that is held, and where somebody stands in it.
 * @param {Which} which
 * @param {() => boolean} isOver
 */
function useLog(which, isOver) {
  const [, again] = useReducer((/** @type {number} */ number) => number + 1, 0);
  const [fault, setFault] = useState(/** @type {import("../core/failure.js").Failure | null} */ (null));
  const at = place.value.query.get("at");
  const of = useRef({ isFollowing: at === null, isReady: false, isGone: false, news: 0, marked: at === null ? null : Number(at), isWrapped: false, isBusy: false, hasJumped: at !== null, isJumping: false, shownAt: -1, sought: "", percent: 0 });
  const file = useRef(/** @type {LogWindow | null} */ (null));
  file.current ??= new LogWindow((asked) => live.call("log.read", { ...which, ...asked }));
  const log = file.current;
  useEffect(() => {
    of.current.isGone = false;
    keepUp(log, of.current, { again: () => again(undefined), setFault, isOver });
    return () => {
      of.current.isGone = true;
    };
  }, []);
  const jump = useCallback(async (/** @type {number} */ offset) => {
    Object.assign(of.current, { isFollowing: false, marked: offset, isJumping: true, sought: "" });
    await log.toOffset(offset).catch(complain);
    of.current.hasJumped = true;
    setQuery({ at: offset });
    again(undefined);
  }, []);
  const follow = useCallback(async () => {
    Object.assign(of.current, { isFollowing: true, marked: null, news: 0, sought: "" });
    if (!log.isAtEnd) await log.toEnd().catch(complain);
    setQuery({ at: null });
    again(undefined);
  }, []);
  const wrap = useCallback(() => {
    of.current.isWrapped = !of.current.isWrapped;
    again(undefined);
  }, []);
  return { ...of.current, of: of.current, file: log, fault, jump, follow, wrap, again: () => again(undefined) };
}

/**
 * Read on as long as the log is shown. A user who has scrolled up sees how much there is below, and is not moved.
 * @param {LogWindow} log
 * @param {any} of
 * @param {{again: () => void, setFault: (fault: any) => void, isOver: () => boolean}} page
 */
async function keepUp(log, of, page) {
  while (!of.isGone) {
    try {
      if (!of.isReady) {
        await (of.marked === null ? log.toEnd() : log.toOffset(of.marked));
        of.isReady = true;
      } else if (log.isAtEnd || of.isFollowing) {
        const { added } = await log.later(log.isAtEnd ? WAIT_S : 0);
        of.news = of.isFollowing ? 0 : of.news + added;
      } else {
        await pause(AGAIN_MS);
        continue;
      }
      page.setFault(null);
      page.again();
      if (log.ended && log.isAtEnd) return;
    } catch (error) {
      page.setFault(asFailure(error));
      if (page.isOver() && !of.isReady) return;
      await pause(AGAIN_MS);
    }
  }
}

/** @param {number} ms */
function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** @param {{log: ReturnType<typeof useLog>}} props */
function Lines({ log }) {
  const { file } = log;
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [sight, setSight] = useState({ top: 0, height: 600 });
  const wrapped = useWrapped(box, log);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    if (log.isFollowing) element.scrollTop = element.scrollHeight;
    else if (log.of.marked !== null && log.of.hasJumped) {
      log.of.hasJumped = log.of.isJumping = false;
      if (log.isWrapped) wrapped.show(log.of.marked);
      else log.of.shownAt = showLine(element, file, log.of.marked);
    }
  });
  useEffect(() => {
    const element = /** @type {HTMLDivElement} */ (box.current);
    const observer = new ResizeObserver(() => setSight({ top: element.scrollTop, height: element.clientHeight }));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const scrolled = async () => {
    const element = /** @type {HTMLDivElement} */ (box.current);
    setSight({ top: element.scrollTop, height: element.clientHeight });
    if (log.of.isJumping) return; // word of where it was scrolled before, and is to be no more
    if (element.scrollTop === log.of.shownAt) return; // nobody scrolled: it was brought here, though here may be the end
    log.of.shownAt = -1;
    const isAtEnd = element.scrollTop + element.clientHeight >= element.scrollHeight - LINE * 2;
    if (log.of.isFollowing && !isAtEnd) {
      log.of.isFollowing = false;
      log.again();
    } else if (!log.of.isFollowing && isAtEnd && file.isAtEnd) {
      await log.follow();
    }
    if (log.isWrapped && wrapped.turn()) return;
    if (!log.of.isBusy) await more(element, log, isAtEnd, log.isWrapped ? wrapped.hold : null);
  };
  const { lines } = file;
  const from = log.isWrapped ? wrapped.from : Math.max(0, Math.floor(sight.top / LINE) - SPARE);
  const to = log.isWrapped ? Math.min(lines.length, from + WRAPPED) : Math.min(lines.length, Math.ceil((sight.top + sight.height) / LINE) + SPARE);
  return html`<div class=${log.isWrapped ? "log-lines is-wrapped" : "log-lines"} ref=${box} onScroll=${scrolled} tabindex="0" role="log" aria-label=${t("tab.log")} aria-live="off">
    <div class="log-sheet" style=${{ paddingTop: log.isWrapped ? "0" : `${from * LINE}px`, height: log.isWrapped ? "auto" : `${lines.length * LINE}px` }}>
      ${lines.slice(from, to).map((line) => html`<${Line} key=${line.at} line=${line} isMarked=${line.at === log.of.marked} />`)}
    </div>
    ${lines.length === 0 ? html`<div class="empty">${t("log.empty")}</div>` : null}
  </div>`;
}

/**
 * Which lines are in the document while they are wrapped. When others take their place, the line that is looked at stays where it is.
 * @param {{current: HTMLDivElement | null}} box
 * @param {ReturnType<typeof useLog>} log
 */
function useWrapped(box, log) {
  const { file } = log;
  /** The first line that is shown, by its offset; null: the last ones. */
  const begin = useRef(/** @type {number | null} */ (null));
  const held = useRef(/** @type {{at: number, top: number} | null} */ (null));
  const wanted = useRef(/** @type {number | null} */ (null));
  const last = Math.max(0, file.lines.length - WRAPPED);
  if (log.isFollowing) begin.current = null;
  const found = begin.current === null ? last : file.lines.findIndex((line) => line.at >= /** @type {number} */ (begin.current));
  const from = found < 0 ? last : Math.min(found, last);
  const lineAt = (/** @type {number} */ offset) => /** @type {HTMLElement | null} */ (box.current?.querySelector(`[data-at="${offset}"]`) ?? null);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || !log.isWrapped) return;
    const target = wanted.current === null ? null : lineAt(wanted.current);
    if (target) element.scrollTop += target.getBoundingClientRect().top - element.getBoundingClientRect().top - element.clientHeight / 4;
    const line = held.current && lineAt(held.current.at);
    if (line && held.current) element.scrollTop += line.getBoundingClientRect().top - held.current.top;
    wanted.current = null;
    held.current = null;
  });
  /** Remember which line stands where. */
  const hold = () => {
    const element = /** @type {HTMLElement} */ (box.current);
    const edge = element.getBoundingClientRect().top;
    const line = [.../** @type {NodeListOf<HTMLElement>} */ (element.querySelectorAll(".log-line"))].find((one) => one.getBoundingClientRect().bottom > edge);
    if (line) held.current = { at: Number(line.dataset.at), top: line.getBoundingClientRect().top };
    if (begin.current === null) begin.current = file.lines[from]?.at ?? null;
  };
  return {
    from,
    hold,
    /**
     * Go to the line at this offset.
     * @param {number} offset
     */
    show(offset) {
      const at = file.lines.findIndex((line) => line.at >= offset);
      if (at < 0) return;
      begin.current = file.lines[Math.max(0, at - WRAPPED / 2)].at;
      wanted.current = file.lines[at].at;
      log.again();
    },
    /** Take others into the document where the edge of these is near; whether that was done. */
    turn() {
      const element = /** @type {HTMLElement} */ (box.current);
      const spare = element.clientHeight;
      const isTop = element.scrollTop < spare && from > 0;
      const isBottom = element.scrollTop + element.clientHeight > element.scrollHeight - spare && from < last;
      if (log.of.isFollowing || isTop === isBottom) return false;
      hold();
      begin.current = file.lines[isTop ? Math.max(0, from - WRAPPED_STEP) : Math.min(last, from + WRAPPED_STEP)].at;
      log.again();
      return true;
    },
  };
}

/**
 * The piece before the first line, or behind the last, when it comes into sight; what is looked at stays where it is.
 * @param {HTMLElement} element
 * @param {ReturnType<typeof useLog>} log
 * @param {boolean} isAtEnd
 * @param {(() => void) | null} hold where lines are wrapped: remembers what is looked at, which a count of lines does not tell
 */
async function more(element, log, isAtEnd, hold) {
  const { file } = log;
  log.of.isBusy = true;
  try {
    if (element.scrollTop < 40 * LINE && !file.isAtStart && !log.of.isFollowing) {
      const added = await file.earlier();
      log.of.marked = null;
      hold?.();
      log.again();
      if (!hold) element.scrollTop += added * LINE;
    } else if (isAtEnd && !file.isAtEnd) {
      const { dropped } = await file.later();
      log.of.marked = null;
      hold?.();
      log.again();
      if (!hold) element.scrollTop -= dropped * LINE;
    }
  } catch (error) {
    complain(error);
  } finally {
    log.of.isBusy = false;
  }
}

/**
 * Where it stands then.
 * @param {HTMLElement} element
 * @param {LogWindow} file
 * @param {number} offset
 */
function showLine(element, file, offset) {
  const at = file.lines.findIndex((line) => line.at >= offset);
  element.scrollTop = Math.max(0, (at - 4) * LINE);
  return element.scrollTop;
}

/** @param {{line: import("../core/log-window.js").Line, isMarked: boolean}} props */
function Line({ line, isMarked }) {
  const text = collapsed(line.text);
  return html`<div data-at=${line.at} class=${isMarked ? "log-line is-marked" : FAULT.test(text) ? "log-line is-fault" : "log-line"}><i class="log-link" title=${t("log.link")} onClick=${() => setQuery({ at: line.at })}></i>${segments(text).map(
      (one) => html`<span class=${one.style} style=${one.colour || one.ground ? { color: one.colour, backgroundColor: one.ground } : undefined}>${one.text}</span>`,
    )}
  </div>`;
}

/**
 * Go to the first line that tells of a fault, or to the last traceback. A user who scrolls meanwhile stays there.
 * @param {Which} which
 * @param {ReturnType<typeof useLog>} log
 * @param {boolean} isLast
 */
async function goToFault(which, log, isLast) {
  const pattern = isLast ? "Traceback (most recent call last)" : FAULT_PATTERN;
  if (log.of.sought === pattern) return;
  const isOver = () => log.of.isGone || log.of.sought !== pattern;
  const told = (/** @type {number} */ percent) => {
    log.of.percent = percent;
    log.again();
  };
  log.of.sought = pattern;
  told(0);
  try {
    const [found] = await search({ ...which, pattern, regex: !isLast, backwards: isLast, limit: 1 }, isOver, told);
    if (isOver()) return;
    if (found) await log.jump(found.offset);
    else tell(t("log.no-fault"));
  } catch (error) {
    complain(error);
  } finally {
    if (!isOver()) {
      log.of.sought = "";
      log.again();
    }
  }
}

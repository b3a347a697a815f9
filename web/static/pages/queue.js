// The queue: tasks in one scrolling list, filtered, ordered, chosen and acted upon. The address holds the shown view.

import { useNow } from "../core/clock.js";
import { live, store } from "../core/context.js";
import { matches, parseFilter } from "../core/filter.js";
import { count } from "../core/format.js";
import { GROUPINGS, groupsOf, rowsOf } from "../core/groups.js";
import { classes, html, useCallback, useEffect, useMemo, useRef, useState } from "../core/html.js";
import { t, useLanguage } from "../core/i18n.js";
import { useKeys } from "../core/keys.js";
import { before } from "../core/order.js";
import { useNarrow } from "../core/narrow.js";
import { go, setQuery, usePlace } from "../core/route.js";
import { IDS, useSelection } from "../core/selection.js";
import { me } from "../core/session.js";
import { RUNNING, WAITING } from "../core/cluster.js";
import { useSignal } from "../core/signal.js";
import { useCluster } from "../core/store.js";
import { askFor } from "../parts/dialog.js";
import { FilterBar } from "../parts/filter-bar.js";
import { GroupBy, GroupHead } from "../parts/queue-groups.js";
import { Icon } from "../parts/icons.js";
import { COLUMN_NAMES, sorted, useColumns, USUAL } from "../parts/queue-columns.js";
import { Table } from "../parts/table.js";
import { move as moveTasks, moveTo, QueueMoves, raise } from "../parts/queue-moves.js";
import { act, TaskActions } from "../parts/task-actions.js";
import { complain } from "../parts/toast.js";
import { Waits } from "../parts/waits.js";

/** @typedef {import("../core/cluster.js").Task} Task */

const SHOWS = /** @type {const} */ (["now", "active", "waiting", "ended", "all"]);
const PAGE = 1_000;
const SORTS_AGAIN_S = 5;

/** @param {any} row a task, or a group of them */
const keyOf = (row) => row.isGroup ? row.key : row.id;
/** @param {Task} task */
const open = (task) => go(`tasks/${task.id}`);

export function Page() {
  const { query } = usePlace();
  useLanguage();
  const cluster = useCluster(store, ["tasks", "ended"]);
  const now = useNow();
  const isNarrow = useNarrow();
  const show = query.get("show") ?? "now";
  const columns = useColumns(query.get("columns")?.split(",") ?? USUAL, isNarrow);
  const ended = useEnded(show === "ended" || show === "all");
  const alive = useMemo(() => countsOf(cluster), [cluster, cluster.versions.tasks]);
  const listed = useShown(cluster, { show, filter: query.get("q") ?? "", sort: query.get("sort") ?? "", now });
  const { rows, tasks, heading } = useGrouped(listed, query.get("group") ?? "");
  const [selected, setSelected] = useSelection(IDS);
  const [cursor, setCursor] = useState(/** @type {number | null} */ (null));
  const chosen = useMemo(() => listed.filter((task) => selected.has(task.id)), [listed, selected]);
  useQueueKeys({ tasks, chosen, cursor, setCursor, selected, setSelected });
  const drop = useCallback((/** @type {Task} */ task, /** @type {Task} */ target, /** @type {boolean} */ isBehind) => {
    moveTo(selected.has(task.id) ? chosen : [task], target, isBehind);
  }, [chosen, selected]);
  const onSort = useCallback((/** @type {string} */ sort) => setQuery({ sort }), []);
  return html`<div class="page fills">
    <h1 class="unseen">${t("page.queue")}</h1>
    <div class="tools">
      <div class="tabs" role="group" aria-label=${t("queue.show")}>
        ${SHOWS.map(
          (one) => html`<button key=${one} aria-pressed=${show === one} onClick=${() => setQuery({ show: one === "now" ? null : one })}>
            ${t(`queue.${one}`)}<small>${countOf(alive, one, ended)}</small>
          </button>`,
        )}
      </div>
      <${FilterBar} value=${query.get("q") ?? ""} onChange=${(/** @type {string} */ q) => setQuery({ q })} />
      ${isNarrow ? null : html`<${GroupBy} by=${query.get("group") ?? ""} />`}
      <button class="quiet" title=${t("queue.columns")} aria-label=${t("queue.columns")} onClick=${chooseColumns}><${Icon} name="columns" /></button>
    </div>
    <${Bar} chosen=${chosen} total=${listed.length} clear=${() => setSelected(new Set())} />
    <${Table}
      label=${t("page.queue")}
      columns=${columns}
      rows=${rows}
      keyOf=${keyOf}
      heading=${heading ? (/** @type {any} */ row) => (row.isGroup ? html`<${GroupHead} group=${row} toggle=${heading} selected=${selected} onSelect=${setSelected} />` : null) : undefined}
      now=${now}
      selected=${isNarrow && selected.size === 0 ? undefined : selected}
      onSelect=${setSelected}
      cursor=${cursor}
      onCursor=${setCursor}
      onOpen=${open}
      sort=${query.get("sort")}
      onSort=${onSort}
      onEnd=${ended.more}
      onDrop=${isNarrow || query.get("sort") || heading ? undefined : drop}
      empty=${html`<${Empty} isReady=${cluster.arrived.tasks} isFiltered=${query.has("q")} show=${show} />`}
      isTall=${isNarrow}
    />
  </div>`;
}

/**
 * The rows as they are shown: tasks alone, or in groups, of which those are open that were opened; and the tasks among them.
 * @param {Task[]} listed
 * @param {string} by
 * @returns {{rows: any[], tasks: Task[], heading: ((key: string) => void) | null}}
 */
function useGrouped(listed, by) {
  const [open, setOpen] = useState(/** @type {Set<string>} */ (new Set()));
  const toggle = useCallback((/** @type {string} */ key) => {
    setOpen((/** @type {Set<string>} */ before) => {
      const keys = new Set(before);
      if (!keys.delete(key)) keys.add(key);
      return keys;
    });
  }, []);
  return useMemo(() => {
    if (!GROUPINGS.includes(by)) return { rows: listed, tasks: listed, heading: null };
    const groups = groupsOf(listed, by, open);
    return { rows: rowsOf(groups), tasks: groups.flatMap((group) => (group.isOpen ? group.tasks : [])), heading: toggle };
  }, [listed, by, open]);
}

/** @param {{chosen: Task[], total: number, clear: () => void}} props */
function Bar({ chosen, total, clear }) {
  const hasChosen = chosen.length > 0;
  return html`<div class=${classes("action-bar", hasChosen && "is-on")} role="toolbar" aria-label=${t("queue.actions")}>
    <span class="action-count">${hasChosen ? t("queue.selected", { count: count(chosen.length) }) : t("queue.tasks", { count: count(total), n: total })}</span>
    ${hasChosen
      ? html`<${TaskActions} tasks=${chosen} /><${QueueMoves} tasks=${chosen} />
          ${chosen.length === 2 ? html`<a class="button" href=${besides(chosen)}>${t("tab.compare")}</a>` : null}<button class="quiet" onClick=${clear}>${t("queue.clear")}</button>`
      : html`<span class="hint">${t("queue.hint")}</span>`}
  </div>`;
}

/**
 * Where two tasks are compared.
 * @param {Task[]} two
 */
const besides = ([one, other]) => `tasks/${one.id}?tab=compare&with=${other.id}`;

/** @param {{isReady: boolean, isFiltered: boolean, show: string}} props */
function Empty({ isReady, isFiltered, show }) {
  if (!isReady) return html`<${Waits} isWithin />`;
  if (isFiltered) {
    return html`<p>${t("queue.none-like")}</p><button onClick=${() => setQuery({ q: null, show: "all" })}>${t("queue.show-all")}</button>`;
  }
  return html`<p>${t(show === "ended" ? "queue.none-ended" : "queue.none")}</p><code>muster submit -- python train.py</code>`;
}

/**
 * Finished tasks, requested when they are to be shown: a page, and the next when its end comes into sight.
 * @param {boolean} isWanted
 */
function useEnded(isWanted) {
  const [total, setTotal] = useState(/** @type {number | null} */ (null));
  const asked = useRef(0);
  const more = useCallback(() => {
    if (!isWanted || (asked.current && total !== null && asked.current >= total)) return;
    const offset = asked.current;
    asked.current += PAGE;
    store.askEnded({ limit: PAGE, offset }).then((answer) => setTotal(answer.total), complain);
  }, [isWanted, total]);
  const isLive = useSignal(live.state) === "live";
  useEffect(() => {
    if (!isLive) asked.current = 0; // what ends meanwhile is not told
    else if (isWanted && asked.current === 0) more();
  }, [isWanted, isLive]);
  return { total, more };
}

/**
 * How many there are of what is alive; null before the first list has come.
 * @param {import("../core/cluster.js").Cluster} cluster
 */
function countsOf({ tasks, arrived }) {
  if (!arrived.tasks) return null;
  let [active, waiting] = [0, 0];
  for (const { state } of tasks.values()) {
    if (RUNNING.has(state)) active += 1;
    else if (WAITING.has(state)) waiting += 1;
  }
  return { now: tasks.size, active, waiting };
}

/**
 * @param {ReturnType<typeof countsOf>} alive
 * @param {(typeof SHOWS)[number]} show
 * @param {{total: number | null}} ended
 */
function countOf(alive, show, ended) {
  if (!alive) return "";
  if (show !== "ended" && show !== "all") return count(alive[show]);
  return ended.total === null ? "" : count(ended.total + (show === "all" ? alive.now : 0));
}

/**
 * What is shown, in its order. Orders that go by the time are looked at anew every few seconds, not with each tick.
 * @param {import("../core/cluster.js").Cluster} cluster
 * @param {{show: string, filter: string, sort: string, now: number}} asked
 * @returns {Task[]}
 */
function useShown(cluster, { show, filter, sort, now }) {
  const tick = sort.endsWith("time") ? Math.floor(now / SORTS_AGAIN_S) : 0;
  return useMemo(() => {
    const terms = parseFilter(filter, me.value?.user ?? null);
    const found = candidates(cluster, show).filter((task) => matches(terms, task));
    return sort ? sorted(found, sort, now) : found;
  }, [cluster.versions.tasks, cluster.versions.ended, show, filter, sort, tick]);
}

/**
 * In the order of the queue: what runs, then what waits as it stands, then what ended, the newest first.
 * @param {import("../core/cluster.js").Cluster} cluster
 * @param {string} show
 */
function candidates(cluster, show) {
  const tasks = show === "ended" ? [] : [...cluster.tasks.values()];
  const running = show === "waiting" ? [] : tasks.filter((task) => RUNNING.has(task.state)).sort((a, b) => a.id - b.id);
  const waiting = show === "active" ? [] : tasks.filter((task) => WAITING.has(task.state)).sort(before);
  const ended = show === "ended" || show === "all" ? [...cluster.ended.values()] : [];
  ended.sort((a, b) => (b.ended_at ?? 0) - (a.ended_at ?? 0) || b.id - a.id);
  return [...running, ...waiting, ...ended];
}

/** @param {{tasks: Task[], chosen: Task[], cursor: number | null, setCursor: any, selected: Set<string | number>, setSelected: any}} of */
function useQueueKeys({ tasks, chosen, cursor, setCursor, selected, setSelected }) {
  const at = tasks.findIndex((task) => task.id === cursor);
  const move = (/** @type {number} */ by) => {
    const next = tasks[Math.max(0, Math.min(tasks.length - 1, at < 0 ? 0 : at + by))];
    if (next) setCursor(next.id);
  };
  const meant = () => (chosen.length ? chosen : at >= 0 ? [tasks[at]] : []);
  const does = (/** @type {string} */ name) => ({ does: () => act(name, meant()), says: `action.${name}` });
  const goes = (/** @type {string} */ where, /** @type {string} */ says) => ({
    does: () => at >= 0 && go(`tasks/${tasks[at].id}${where}`),
    says,
  });
  useKeys({
    j: { does: () => move(1), says: "keys.down" },
    k: { does: () => move(-1), says: "keys.up" },
    ArrowDown: { does: () => move(1), says: "keys.down" },
    ArrowUp: { does: () => move(-1), says: "keys.up" },
    x: {
      does: () => {
        if (at < 0) return;
        const keys = new Set(selected);
        if (!keys.delete(tasks[at].id)) keys.add(tasks[at].id);
        setSelected(keys);
      },
      says: "keys.select",
    },
    Escape: { does: () => setSelected(new Set()), says: "keys.clear" },
    Enter: goes("", "keys.open"),
    l: goes("?tab=log", "tab.log"),
    w: goes("?tab=why", "tab.why"),
    d: { does: () => (chosen.length === 2 ? go(besides(chosen)) : at >= 0 && go(`tasks/${tasks[at].id}?tab=compare`)), says: "tab.compare" },
    c: does("cancel"),
    h: does("hold"),
    u: does("release"),
    r: does("retry"),
    p: does("pause"),
    P: does("resume"),
    M: does("edit"),
    S: does("start"),
    D: does("remove"),
    T: { does: () => moveTasks(meant(), "first"), says: "move.first" },
    K: { does: () => moveTasks(meant(), "up"), says: "move.up" },
    J: { does: () => moveTasks(meant(), "down"), says: "move.down" },
    "+": { does: () => raise(meant(), 1), says: "move.raise" },
    "-": { does: () => raise(meant(), -1), says: "move.lower" },
  });
}

async function chooseColumns() {
  const names = await askFor({ title: t("queue.columns"), confirm: "", content: Columns });
  if (names) setQuery({ columns: names.join() === USUAL.join() ? null : names.join(",") });
}

/** @param {{done: (names: string[] | null) => void}} props */
function Columns({ done }) {
  const shown = new URLSearchParams(location.search).get("columns")?.split(",") ?? USUAL;
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    done(new FormData(/** @type {HTMLFormElement} */ (event.currentTarget)).getAll("column").map(String));
  };
  return html`<form onSubmit=${submit}>
    <div class="choices">
      ${COLUMN_NAMES.map(
        (name) => html`<label key=${name}><input type="checkbox" name="column" value=${name} checked=${shown.includes(name)} />${t(`column.${name}`)}</label>`,
      )}
    </div>
    <div class="dialog-actions">
      <button type="button" onClick=${() => done(USUAL)}>${t("queue.usual")}</button>
      <button class="primary">${t("apply")}</button>
    </div>
  </form>`;
}

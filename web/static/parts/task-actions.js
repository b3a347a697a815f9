// The actions on one task or on many: buttons that say why they cannot be pressed, a question where something is
// destroyed, and a word about what was done.

import { ACTIONS, actionNamed, commandFor, obstacle, obstacleToAll, perform } from "../core/actions.js";
import { live } from "../core/context.js";
import { Failure } from "../core/failure.js";
import { titleOf } from "../core/format.js";
import { html, useMemo } from "../core/html.js";
import { t } from "../core/i18n.js";
import { go } from "../core/route.js";
import { me } from "../core/session.js";
import { useSignal } from "../core/signal.js";
import { askFor } from "./dialog.js";
import { complain, tell } from "./toast.js";

/**
 * @typedef {import("../core/cluster.js").Task} Task
 * @typedef {import("../core/actions.js").Action} Action
 */

const MOST_LISTED = 12;
const LONGEST_TIP = 300;

/**
 * Do something to those of the tasks that it can be done to; what destroys asks first, and lists them.
 * @param {string} name of the action
 * @param {Task[]} tasks
 */
export async function act(name, tasks) {
  const action = actionNamed(name);
  const fit = tasks.filter((task) => obstacle(action, task) === null);
  const why = obstacleToAll(action, tasks);
  if (why) tell(t(why));
  if (why || fit.length === 0) return;
  if (action.opens) {
    go(`tasks/${fit[0].id}?tab=${action.opens}`);
    return;
  }
  if (action.destroys && !(await askFor(question(action, fit)))) return;
  try {
    const { done, refused } = await perform(live, action, fit);
    if (done) tell(t(`done.${name}`, { count: done, id: fit[0].id }));
    for (const { failure } of refused.slice(0, 3)) {
      complain(new Failure("conflict", failure.message, failure.key, failure.args));
    }
  } catch (error) {
    complain(error);
  }
}

/**
 * @param {Action} action
 * @param {Task[]} tasks
 */
function question(action, tasks) {
  const hits = tasks.slice(0, MOST_LISTED).map((task) => `${task.id}  ${titleOf(task)}  ·  ${t(`state.${task.state}`)}`);
  if (tasks.length > MOST_LISTED) hits.push(t("dialog.more", { count: tasks.length - MOST_LISTED }));
  return {
    title: t(`ask.${action.name}`, { count: tasks.length }),
    text: t(`ask.${action.name}.text`),
    hits,
    command: commandFor(action, tasks),
    confirm: t(`action.${action.name}`),
    destroys: true,
  };
}

/**
 * @param {object} props
 * @param {Task[]} props.tasks
 * @param {string[]} [props.only] names of actions; all where it is not said
 */
export function TaskActions({ tasks, only }) {
  const who = useSignal(me);
  const names = only?.join();
  const found = useMemo(() => (only ? only.map(actionNamed) : ACTIONS).map((action) => whatFits(action, tasks)), [tasks, names, who]);
  return html`${found.map(({ action, blocked, command }) => html`<button
      key=${action.name}
      class=${action.destroys ? "is-danger" : ""}
      aria-disabled=${Boolean(blocked)}
      title=${blocked ? t(blocked) : `${command}  [${action.key}]`}
      onClick=${() => act(action.name, tasks)}
    >
      ${t(`action.${action.name}`)}
    </button>`)}`;
}

/**
 * Why it can be done to none of them, or the command that does it to those that it can be done to.
 * @param {Action} action
 * @param {Task[]} tasks
 */
function whatFits(action, tasks) {
  const blocked = obstacleToAll(action, tasks);
  const fit = tasks.filter((task) => obstacle(action, task) === null);
  return { action, blocked, command: fit.length ? shortened(commandFor(action, fit)) : "" };
}

/**
 * A tip has room for so much.
 * @param {string} text
 */
function shortened(text) {
  return text.length > LONGEST_TIP ? `${text.slice(0, LONGEST_TIP)}…` : text;
}

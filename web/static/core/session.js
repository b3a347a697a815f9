// Who sits here: signing in and out, and what this person may do. Half of a session is a cookie that no script sees;
// the other half is the key that is kept here, and sent with every question.

import { Failure } from "./failure.js";
import { inWords } from "./i18n.js";
import { keep, kept } from "./kept.js";
import { Signal } from "./signal.js";

/**
 * @typedef {object} Me
 * @property {string | null} user
 * @property {string} display
 * @property {"viewer" | "user" | "admin"} role
 * @property {string[]} scopes
 * @property {string[]} groups
 * @property {boolean} is_shared were users ever added?
 * @property {string} [version]
 * @property {string} [privacy]
 * @property {any[]} [quotas]
 * @property {number | null} [until]
 */

/**
 * Undefined until it is known; null for nobody.
 * @type {Signal<Me | null | undefined>}
 */
export const me = new Signal(/** @type {Me | null | undefined} */ (undefined));

export function sessionKey() {
  return /** @type {string | null} */ (kept("key"));
}

/**
 * A request to the console's own server, with our half of the session. Raises a Failure for what is refused.
 * @param {string} method
 * @param {string} path below the base
 * @param {{headers?: Record<string, string>, body?: BodyInit, takes?: number[], signal?: AbortSignal}} more `takes`: what
 *   is no refusal, beside success
 */
export async function send(method, path, { headers = {}, body, takes = [], signal }) {
  const key = sessionKey();
  const all = key ? { "X-Muster-Key": key, ...headers } : headers;
  let answer;
  try {
    answer = await fetch(new URL(path, document.baseURI), { method, headers: all, body, signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Failure("unreachable", "the console's server cannot be reached", "ui.unreachable", {});
  }
  if (!answer.ok && !takes.includes(answer.status)) throw await inWords(refusal(answer.status, await answer.json().catch(() => null)));
  return answer;
}

/**
 * A question to it whose answer is JSON.
 * @param {string} method
 * @param {string} path below the base
 * @param {unknown} [body] as JSON
 * @returns {Promise<any>}
 */
export async function ask(method, path, body) {
  const headers = /** @type {Record<string, string>} */ (body === undefined ? {} : { "Content-Type": "application/json" });
  const answer = await send(method, path, { headers, body: body === undefined ? undefined : JSON.stringify(body) });
  return answer.status === 204 ? null : answer.json().catch(() => null);
}

/**
 * @param {number} status
 * @param {any} problem
 */
function refusal(status, problem) {
  const code = problem?.code ?? (status === 401 ? "unauthenticated" : "internal");
  const text = problem?.detail ?? problem?.title ?? String(status);
  return new Failure(code, text, problem?.key ?? null, problem?.args ?? null);
}

/** Find out who is here. Raises a Failure where the server does not answer. */
export async function lookWhoIsHere() {
  if (!sessionKey()) {
    me.set(null);
    return;
  }
  try {
    me.set(await ask("GET", "api/v1/me"));
  } catch (error) {
    if (!(error instanceof Failure) || !["unauthenticated", "forbidden"].includes(error.code)) throw error;
    keep("key", null);
    me.set(null);
  }
}

/** @param {{user: string, password: string} | {token: string} | {link: string, password: string}} proof */
export async function signIn(proof) {
  const told = await ask("POST", "session", proof);
  keep("key", told.key);
  me.set(await ask("GET", "api/v1/me"));
}

export async function signOut() {
  try {
    await ask("DELETE", "session");
  } finally {
    forgetSession();
  }
}

/** The session is over: it was ended elsewhere, or its time has come. */
export function forgetSession() {
  keep("key", null);
  me.set(null);
}

/**
 * May this person do what needs the role?
 * @param {"viewer" | "user" | "admin"} role
 */
export function hasRole(role) {
  const ranks = { viewer: 0, user: 1, admin: 2 };
  return me.value ? ranks[me.value.role] >= ranks[role] : false;
}

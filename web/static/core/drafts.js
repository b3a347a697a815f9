// Texts that somebody wrote and has not saved, kept in this page alone while they look elsewhere; with what they began from, so that a
// save tells of what another wrote meanwhile. By who wrote them: another may sign in at the same window.

import { me } from "./session.js";

/** @type {Map<string, {from: any, text: string}>} */
const drafts = new Map();

/** @param {string} name */
function keyOf(name) {
  return `${me.value?.user ?? ""}\n${name}`;
}

/** @param {string} name of what it is a draft */
export function draftOf(name) {
  return drafts.get(keyOf(name)) ?? null;
}

/**
 * @param {string} name
 * @param {any} from what the user read before they wrote
 * @param {string} text
 */
export function keepDraft(name, from, text) {
  drafts.set(keyOf(name), { from, text });
}

/** @param {string} name */
export function forgetDraft(name) {
  drafts.delete(keyOf(name));
}

// All pages: where each lies, who may see it, and the module that draws it, which is loaded when somebody goes there.
// A page is one module here, one line below, its words, and its style.

import { needStyles } from "../core/styles.js";

/**
 * @typedef {object} Page
 * @property {string} name its title is `page.NAME`
 * @property {string} path `*` is one part of it, which the page gets as `parts`; `#` one that is the id of a task
 * @property {() => Promise<{Page: any}>} load
 * @property {string[]} [words] the parts of the interface's words (`words/en/`) that it needs, beside what all share
 * @property {string[]} [styles] its style sheets (`style/`), beside those of index.html; without: `pages`
 * @property {string} [icon] it is in the navigation
 * @property {string} [key] the letter behind `g`
 * @property {"viewer" | "user" | "admin"} [role] the least that may see it
 */

/** @type {Page[]} */
export const PAGES = [
  { name: "overview", path: "", load: () => import("./overview.js"), icon: "overview", key: "o", words: ["overview"], styles: ["overview"] },
  { name: "queue", path: "queue", load: () => import("./queue.js"), icon: "queue", key: "q", words: ["queue"] },
  { name: "submit", path: "submit", load: () => import("./submit.js"), icon: "submit", key: "s", role: "user", words: ["submit", "fields"] },
  { name: "nodes", path: "nodes", load: () => import("./nodes.js"), icon: "nodes", key: "n", words: ["machines"], styles: ["overview", "pages"] },
  { name: "node", path: "nodes/*", load: () => import("./node.js"), words: ["machines"], styles: ["overview", "pages"] },
  { name: "files", path: "files", load: () => import("./files.js"), icon: "files", key: "f", words: ["folders"] },
  { name: "files", path: "files/**", load: () => import("./files.js"), words: ["folders"] },
  { name: "environments", path: "environments", load: () => import("./environments.js"), icon: "environments", key: "e", words: ["envs"] },
  { name: "admin", path: "admin", load: () => import("./admin.js"), icon: "admin", key: "a", role: "admin", words: ["admin", "me", "machines", "log"] },
  { name: "admin", path: "admin/*", load: () => import("./admin.js"), role: "admin", words: ["admin", "me", "machines", "log"] },
  { name: "me", path: "me", load: () => import("./me.js"), icon: "me", key: "m", words: ["me"] },
  { name: "sweep", path: "sweeps/#", load: () => import("./sweep.js"), words: ["queue"] },
  { name: "task", path: "tasks/#", load: () => import("./task.js"), words: ["task"] },
];

/**
 * The module of a page, once its style has come, too.
 * @param {Pick<Page, "load" | "styles"> | {load: () => Promise<any>, styles: string[]}} page
 * @returns {Promise<any>}
 */
export async function loadPage(page) {
  const [module] = await Promise.all([page.load(), needStyles(page.styles ?? ["pages"])]);
  return module;
}

const ID = /^[1-9]\d{0,14}$/;

/**
 * @param {string} path
 * @returns {{page: Page, parts: string[]} | null}
 */
export function pageAt(path) {
  const words = path.split("/");
  for (const page of PAGES) {
    const pattern = page.path.split("/");
    if (pattern.length !== words.length && pattern.at(-1) !== "**") continue;
    if (!pattern.every((one, at) => one === "*" || one === "**" || (one === "#" ? ID.test(words[at]) : one === words[at]))) continue;
    const parts = pattern.flatMap((one, at) =>
      one === "*" || one === "#" ? [decoded(words[at])] : one === "**" ? [words.slice(at).map(decoded).join("/")] : [],
    );
    return { page, parts };
  }
  return null;
}

/** @param {string} word of an address that somebody may have typed */
function decoded(word) {
  try {
    return decodeURIComponent(word);
  } catch {
    return word;
  }
}

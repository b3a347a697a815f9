// Files on their way to the master: one at a time, in pieces, each going on where it broke off, also after the page was
// left and the same file is chosen again. Owns their list; what it looks like is its page's.

import { live } from "./context.js";
import { asFailure, Failure } from "./failure.js";
import { keep, kept } from "./kept.js";
import { encoded } from "./paths.js";
import { send } from "./session.js";
import { Signal } from "./signal.js";

/**
 * @typedef {object} Upload
 * @property {number} id
 * @property {string} path where it is to lie
 * @property {File} file
 * @property {"waiting" | "sending" | "broken" | "done" | "exists" | "refused"} state `broken`: the line is, and it is tried again
 * @property {number} sent bytes
 * @property {boolean} overwrite
 * @property {Failure | null} failure
 */

const PIECE = 8 << 20;
const AGAIN_MS = 2_000;
const MOST_KEPT = 50;

/** @type {Signal<Upload[]>} the newest last */
export const uploads = new Signal(/** @type {Upload[]} */ ([]));
/** Grows when a file has arrived. */
export const arrived = new Signal(0);
let last = 0;
let isAtWork = false;
/** @type {AbortController | null} */
let current = null;

addEventListener("beforeunload", (event) => {
  if (isAtWork) event.preventDefault();
});

/**
 * @param {string} folder
 * @param {Iterable<File>} files
 */
export function addUploads(folder, files) {
  const more = [...files].map((file) => {
    last += 1;
    return /** @type {Upload} */ ({ id: last, path: `${folder}/${file.name}`, file, state: "waiting", sent: 0, overwrite: false, failure: null });
  });
  uploads.set([...uploads.value, ...more]);
  work();
}

/**
 * Over the one that is there.
 * @param {Upload} upload
 */
export function replace(upload) {
  change(upload, { state: "waiting", overwrite: true, failure: null });
  work();
}

/**
 * Try again what was refused.
 * @param {Upload} upload
 */
export function tryAgain(upload) {
  change(upload, { state: "waiting", failure: null });
  work();
}

/**
 * Send it no further, and keep nothing of it.
 * @param {Upload} upload
 */
export function drop(upload) {
  const begun = begunBefore(upload);
  uploads.set(uploads.value.filter((one) => one.id !== upload.id));
  if (upload.state === "sending" || upload.state === "broken") current?.abort();
  forget(upload);
  if (begun && upload.state !== "done") live.call("file.upload_cancel", { path: upload.path, upload: begun }).catch(() => undefined);
}

/** Those that have arrived are told no longer. */
export function clearDone() {
  uploads.set(uploads.value.filter((one) => one.state !== "done"));
}

/** @param {Upload} upload @param {Partial<Upload>} changes */
function change(upload, changes) {
  uploads.set(uploads.value.map((one) => (one.id === upload.id ? { ...one, ...changes } : one)));
}

async function work() {
  if (isAtWork) return;
  isAtWork = true;
  try {
    for (;;) {
      const next = uploads.value.find((one) => one.state === "waiting");
      if (!next) return;
      await carry(next);
    }
  } finally {
    isAtWork = false;
  }
}

/** @param {Upload} upload */
async function carry(upload) {
  current = new AbortController();
  const { signal } = current;
  change(upload, { state: "sending" });
  while (!signal.aborted) {
    try {
      await sendWhole(upload, signal);
      forget(upload);
      change(upload, { state: "done", sent: upload.file.size });
      arrived.set(arrived.value + 1);
      return;
    } catch (error) {
      if (signal.aborted) return;
      const failure = error instanceof DOMException ? new Failure("bad_request", error.message, "ui.file-gone", {}) : asFailure(error);
      if (failure.code === "not_found" && begunBefore(upload)) {
        forget(upload); // nothing is left of what was begun: it begins anew
      } else if (failure.code === "unreachable") {
        change(upload, { state: "broken" });
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      } else {
        change(upload, { state: failure.key === "file_is_there" ? "exists" : "refused", failure });
        return;
      }
    }
  }
}

/** @param {Upload} upload @param {AbortSignal} signal */
async function sendWhole(upload, signal) {
  const { file } = upload;
  await file.slice(0, 1).arrayBuffer(); // one that is gone, or is a folder, says so here, and looks like a broken line there
  if (!upload.overwrite && !begunBefore(upload) && (await isThere(upload.path))) throw new Failure("conflict", "there is such a file", "file_is_there", {});
  if (file.size <= PIECE) {
    await put(upload, file, {}, signal);
    return;
  }
  let sent = begunBefore(upload) ? received(await put(upload, null, { "Content-Range": `bytes */${file.size}` }, signal)) : 0;
  while (sent < file.size) {
    change(upload, { state: "sending", sent });
    const end = Math.min(sent + PIECE, file.size);
    const answer = await put(upload, file.slice(sent, end), { "Content-Range": `bytes ${sent}-${end - 1}/${file.size}` }, signal);
    if (answer.status !== 308) return;
    remember(upload, answer.headers.get("x-muster-upload"));
    sent = received(answer);
  }
}

/**
 * Asked before bytes are sent in vain; whoever comes between is seen when they arrive.
 * @param {string} path
 */
function isThere(path) {
  return live.call("file.stat", { path }).then(() => true, (failure) => (failure.code === "not_found" ? false : Promise.reject(failure)));
}

/**
 * @param {Upload} upload
 * @param {Blob | null} body
 * @param {Record<string, string>} headers
 * @param {AbortSignal} signal
 */
function put(upload, body, headers, signal) {
  const begun = begunBefore(upload);
  const more = { ...headers, ...(begun ? { "X-Muster-Upload": begun } : {}), ...(upload.overwrite ? {} : { "If-None-Match": "*" }) };
  return send("PUT", `api/v1/files/${encoded(upload.path)}`, { headers: more, body: body ?? undefined, takes: [308], signal });
}

/**
 * How far it came: `bytes=0-1048575`.
 * @param {Response} answer
 */
function received(answer) {
  const found = /-(\d+)$/.exec(answer.headers.get("range") ?? "");
  return found ? Number(found[1]) + 1 : 0;
}

/**
 * The same file for the same place, as far as a browser can tell.
 * @param {Upload} upload
 */
function keyOf({ path, file }) {
  return [path, file.size, file.lastModified].join("\n");
}

/**
 * Which of the master's uploads it is.
 * @param {Upload} upload
 * @returns {string | undefined}
 */
function begunBefore(upload) {
  return (kept("uploads") ?? {})[keyOf(upload)];
}

/** @param {Upload} upload @param {string | null} begun */
function remember(upload, begun) {
  if (!begun || begunBefore(upload) === begun) return;
  const all = Object.entries({ ...(kept("uploads") ?? {}), [keyOf(upload)]: begun });
  keep("uploads", Object.fromEntries(all.slice(-MOST_KEPT)));
}

/** @param {Upload} upload */
function forget(upload) {
  const { [keyOf(upload)]: _, ...others } = kept("uploads") ?? {};
  keep("uploads", Object.keys(others).length ? others : null);
}

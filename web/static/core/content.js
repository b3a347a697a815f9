// What is in a file: the beginning of one with its version, and a new version put in its place. Version is the server's
// ETag: what was written meanwhile by somebody else is not overwritten.

import { encoded } from "./paths.js";
import { send } from "./session.js";

/**
 * @typedef {object} Beginning
 * @property {Uint8Array} bytes
 * @property {number} size of the whole file
 * @property {string} tag its version
 */

const PNG = [0x89, 0x50, 0x4e, 0x47];
const JPEG = [0xff, 0xd8, 0xff];

/**
 * The first bytes of a file.
 * @param {string} path
 * @param {number} most
 * @returns {Promise<Beginning>}
 */
export async function readBeginning(path, most) {
  const answer = await send("GET", `api/v1/files/${encoded(path)}`, { headers: { Range: `bytes=0-${most - 1}` }, takes: [416] });
  const bytes = answer.status === 416 ? new Uint8Array(0) : new Uint8Array(await answer.arrayBuffer());
  const size = Number(answer.headers.get("content-range")?.split("/")[1] ?? bytes.length);
  return { bytes, size, tag: answer.headers.get("etag") ?? "" };
}

/**
 * Put a text in the place of the version that was read. Raises a Failure with the key `file_changed` where another stands there.
 * @param {string} path
 * @param {string} text
 * @param {string | null} tag null: over whatever is there
 * @returns {Promise<string>} the new version
 */
export async function saveText(path, text, tag) {
  const headers = /** @type {Record<string, string>} */ (tag === null ? {} : { "If-Match": tag });
  const answer = await send("PUT", `api/v1/files/${encoded(path)}`, { headers, body: new TextEncoder().encode(text) });
  return answer.headers.get("etag") ?? "";
}

/**
 * The bytes as text; null if they are not text. Bytes that are cut off within a character are text all the same.
 * @param {Uint8Array} bytes
 * @param {boolean} isCut more of the file follows
 */
export function textOf(bytes, isCut) {
  if (bytes.includes(0)) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes, { stream: isCut });
  } catch {
    return null;
  }
}

/**
 * Is it a picture that we show?
 * @param {Uint8Array} bytes
 */
export function isPicture(bytes) {
  return [PNG, JPEG].some((sign) => sign.every((byte, at) => bytes[at] === byte));
}

/**
 * How its lines end; null where they end differently, so that a field of text, which knows one end of line only, would
 * change more than was written into it.
 * @param {string} text
 */
export function lineEnd(text) {
  const both = text.split("\r\n").length - 1;
  const [feeds, returns] = [text.split("\n").length - 1, text.split("\r").length - 1];
  if (both === 0) return returns === 0 ? "\n" : null;
  return both === feeds && both === returns ? "\r\n" : null;
}

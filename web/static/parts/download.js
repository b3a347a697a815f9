// A file or a log, given to the browser to keep: by a ticket that opens it once, for no key may stand in an address.

import { ask } from "../core/session.js";
import { complain } from "./toast.js";

/** @param {string} path `files/…`, `tasks/12/log` or `server/log` */
export async function download(path) {
  try {
    const { url } = await ask("POST", "tickets", { path });
    const link = document.createElement("a");
    link.href = new URL(url, document.baseURI).href;
    link.download = "";
    link.click();
  } catch (error) {
    complain(error);
  }
}

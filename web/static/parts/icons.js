// Pictures that stand beside words, drawn as paths; each is hidden from who has them read aloud.

import { html } from "../core/html.js";

const PATHS = {
  overview: "M3 3h7v7H3zM14 3h7v7h-7zM3 14h7v7H3zM14 14h7v7h-7z",
  queue: "M4 6h16M4 12h16M4 18h10",
  submit: "M12 5v14M5 12h14",
  nodes: "M4 4h16v6H4zM4 14h16v6H4zM8 7h.01M8 17h.01",
  files: "M3 6h6l2 3h10v10H3z",
  environments: "M12 3l8 4.5v9L12 21l-8-4.5v-9zM12 12l8-4.5M12 12v9M12 12L4 7.5",
  admin: "M12 3l8 3v6c0 5-3.5 8-8 9-4.5-1-8-4-8-9V6z",
  me: "M12 12a4 4 0 100-8 4 4 0 000 8zM4 21c0-4 3.6-6 8-6s8 2 8 6",
  search: "M11 18a7 7 0 100-14 7 7 0 000 14zM16 16l5 5",
  close: "M6 6l12 12M18 6L6 18",
  columns: "M4 4h16v16H4zM10 4v16M15 4v16",
  menu: "M4 7h16M4 12h16M4 17h16",
  help: "M9 9a3 3 0 115 2c-1.5 1-2 1.500-2 3M12 18h.01",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  download: "M12 4v11M7 11l5 5 5-5M4 20h16",
  first: "M6 5h12M6 17l6-6 6 6",
  up: "M6 15l6-6 6 6",
  down: "M6 9l6 6 6-6",
  right: "M9 6l6 6-6 6",
  warn: "M12 3l10 18H2zM12 10v5M12 18h.01",
  wall: "M3 4h18v12H3zM8 20h8",
  wrap: "M4 6h16M4 12h13a3 3 0 010 6h-4M15 15l-3 3 3 3M4 18h4",
  folder: "M3 6h6l2 3h10v10H3z",
  file: "M6 3h8l5 5v13H6zM14 3v5h5",
};

/** @param {{name: keyof typeof PATHS}} props */
export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;
}

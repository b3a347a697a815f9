// Is this as narrow as a phone? Told again when the window changes.

import { Signal, useSignal } from "./signal.js";

const query = matchMedia("(max-width: 640px)");
const narrow = new Signal(query.matches);
query.addEventListener("change", () => narrow.set(query.matches));

export function useNarrow() {
  return useSignal(narrow);
}

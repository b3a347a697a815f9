// The one connection and the one store of this page: made once, when somebody has signed in.

import { Live } from "./live.js";
import { forgetSession, lookWhoIsHere, sessionKey } from "./session.js";
import { Store } from "./store.js";

export const live = new Live(sessionKey);
export const store = new Store(live);
live.refused = forgetSession;

const LOOKED_AGAIN_MS = 5_000;
let lookedAt = -LOOKED_AGAIN_MS;

/** Who is refused something may have another role by now: what the pages offer follows. */
live.forbidden = () => {
  if (performance.now() - lookedAt < LOOKED_AGAIN_MS) return;
  lookedAt = performance.now();
  lookWhoIsHere().catch(() => undefined); // without a connection everybody is told anyway
};

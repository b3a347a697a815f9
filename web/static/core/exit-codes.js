// The names of the signals that exit codes above 128 stand for, as `wire/exit_codes.py` has them. Pure.

/** @type {Record<number, string>} */
const SIGNALS = {
  1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
  10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 16: "SIGSTKFLT",
  24: "SIGXCPU", 25: "SIGXFSZ", 26: "SIGVTALRM", 27: "SIGPROF", 29: "SIGIO", 30: "SIGPWR", 31: "SIGSYS",
};

/**
 * `SIGKILL` for 137; "" for a code that stands for no signal.
 * @param {number} code
 */
export function signalOf(code) {
  return SIGNALS[code - 128] ?? "";
}

/**
 * `137 (SIGKILL)`, `3`.
 * @param {number} code
 */
export function withSignal(code) {
  const name = signalOf(code);
  return name ? `${code} (${name})` : `${code}`;
}

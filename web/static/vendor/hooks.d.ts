// What the pages use of Preact's hooks, as `tsc` is told it.

type Inputs = readonly unknown[];
type Effect = () => void | (() => void);

export function useCallback<F extends (...args: any[]) => any>(callback: F, inputs: Inputs): F;
export function useEffect(effect: Effect, inputs?: Inputs): void;
export function useLayoutEffect(effect: Effect, inputs?: Inputs): void;
export function useMemo<T>(make: () => T, inputs: Inputs): T;
export function useReducer<S, A>(next: (before: S, action: A) => S, first: S): [S, (action: A) => void];
export function useRef<T>(first: T): { current: T };
export function useState<S>(first: S | (() => S)): [S, (next: S | ((before: S) => S)) => void];

// What the pages use of uPlot, as `tsc` is told it.

type Data = [number[], (number | null)[]];

export default class uPlot {
  constructor(options: Record<string, any>, data: Data, where: Element);
  readonly cursor: { readonly idx?: number | null };
  destroy(): void;
  redraw(isMadeAnew?: boolean): void;
  setCursor(at: { left: number; top: number }): void;
  setData(data: Data): void;
  valToPos(value: number, scale: "x" | "y"): number;
}

// What the pages use of Preact, as `tsc` is told it. Which elements and attributes there are it need not know: templates are htm's.

type Props = Record<string, any>;

export class Component {
  constructor(props?: Props);
  props: Readonly<Props>;
}
export const Fragment: (props: Props) => any;
export function h(type: any, props: Props | null, ...children: any[]): any;
export function render(what: any, where: Element): void;

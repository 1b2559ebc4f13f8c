import type { ComponentType } from "preact";
import { Component, h } from "preact";

/** A component that is drawn again only if one of its properties is another. */
export function memo<P extends object>(inner: ComponentType<P>): ComponentType<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const [before, after] = [this.props as Record<string, unknown>, next as Record<string, unknown>];
      return Object.keys(after).some((name) => after[name] !== before[name]);
    }
    override render() {
      return h(inner, this.props as P);
    }
  };
}

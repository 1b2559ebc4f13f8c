import type { ComponentChildren } from "preact";
import { useId, useRef } from "preact/hooks";
import { Icon, type IconName } from "../look/icons.tsx";
import { forbidden, type Role } from "../me.ts";
import "./menu.css";

export interface MenuItem {
  label: string;
  hint?: string;
  href?: string;
  role?: Role;
  reason?: string | null;
  checked?: boolean;
  onChoose?: () => void;
}

/** A button that opens a list of actions, on the native popover. */
export function Menu({
  label,
  icon,
  children,
  items,
}: {
  label: string;
  icon?: IconName;
  children?: ComponentChildren;
  items: MenuItem[];
}) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const place = () => {
    const [box, menu] = [button.current?.getBoundingClientRect(), list.current];
    if (!box || !menu) return;
    const left = box.right - menu.offsetWidth;
    menu.style.left = `${Math.max(8, Math.min(left, window.innerWidth - menu.offsetWidth - 8))}px`;
    const below = box.bottom + 4;
    const fits = below + menu.offsetHeight < window.innerHeight - 8;
    menu.style.top = `${fits ? below : Math.max(8, box.top - 4 - menu.offsetHeight)}px`;
  };
  return (
    <>
      <button
        ref={button}
        type="button"
        class={children ? "button quiet" : "button quiet icon-only"}
        popovertarget={id}
        aria-haspopup="menu"
        aria-label={children ? undefined : label}
        title={label}
      >
        {icon && <Icon name={icon} />}
        {children}
        {children && <Icon name="down" />}
      </button>
      <div
        ref={list}
        id={id}
        popover="auto"
        role="menu"
        aria-label={label}
        class="menu"
        tabIndex={-1}
        onToggle={(event) => {
          if (event.newState !== "open") return;
          place();
          list.current?.querySelector<HTMLElement>("[role^=menuitem]")?.focus();
        }}
        onKeyDown={(event) => move(event, list.current)}
      >
        {items.map((item) => (
          <Item key={item.label} item={item} close={() => list.current?.hidePopover()} />
        ))}
      </div>
    </>
  );
}

function Item({ item, close }: { item: MenuItem; close: () => void }) {
  const why = (item.role && forbidden(item.role)) || item.reason || null;
  const text = (
    <>
      <span>
        {item.label}
        {item.checked && <Icon name="check" />}
      </span>
      {(why || item.hint) && <small>{why ?? item.hint}</small>}
    </>
  );
  if (item.href && !why)
    return (
      <a role="menuitem" tabIndex={-1} href={item.href} onClick={close}>
        {text}
      </a>
    );
  return (
    <button
      type="button"
      role={item.checked === undefined ? "menuitem" : "menuitemradio"}
      {...(item.checked === undefined ? {} : { "aria-checked": item.checked })}
      tabIndex={-1}
      aria-disabled={why ? true : undefined}
      onClick={() => {
        if (why) return;
        close();
        item.onChoose?.();
      }}
    >
      {text}
    </button>
  );
}

function move(event: KeyboardEvent, list: HTMLElement | null): void {
  const items = [...(list?.querySelectorAll<HTMLElement>("[role^=menuitem]") ?? [])];
  const place = items.indexOf(document.activeElement as HTMLElement);
  const next: Record<string, number> = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: items.length - 1 };
  const target = next[event.key];
  if (target === undefined || !items.length) return;
  event.preventDefault();
  event.stopPropagation();
  items[(target + items.length) % items.length]?.focus();
}

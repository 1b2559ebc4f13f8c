import type { ComponentChildren } from "preact";
import { Icon, type IconName } from "../look/icons.tsx";
import { forbidden, type Role } from "../me.ts";
import "./button.css";

interface ButtonProps {
  children?: ComponentChildren;
  icon?: IconName;
  label?: string; // the name of a button that shows an icon only; also its tooltip
  kind?: "plain" | "primary" | "danger" | "quiet";
  role?: Role; // the least role that may press it
  reason?: string | null; // why it is disabled, beside the role
  busy?: boolean;
  pressed?: boolean;
  type?: "button" | "submit";
  onClick?: (event: MouseEvent) => void;
}

/** A button. A disabled one stays visible and shows the reason. */
export function Button({
  children,
  icon,
  label,
  kind = "plain",
  role,
  reason,
  busy,
  pressed,
  type = "button",
  onClick,
}: ButtonProps) {
  const why = (role && forbidden(role)) || reason || null;
  const classes = ["button", kind, children ? "" : "icon-only", busy ? "busy" : ""].filter(Boolean).join(" ");
  return (
    <button
      type={type}
      class={classes}
      aria-label={children ? undefined : label}
      aria-disabled={why || busy ? true : undefined}
      aria-pressed={pressed}
      title={why ?? label}
      onClick={(event) => {
        if (why || busy) event.preventDefault();
        else onClick?.(event);
      }}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

/** A link that looks like a button: it opens a view, so it can be opened in another tab; disabled, it is a button. */
export function LinkButton({ href, ...props }: ButtonProps & { href: string }) {
  const { children, icon, kind = "plain", role, reason } = props;
  if (reason || (role && forbidden(role))) return <Button {...props} />;
  return (
    <a class={`button ${kind}`} href={href}>
      {icon && <Icon name={icon} />}
      {children}
    </a>
  );
}

import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { Button } from "./button.tsx";
import { focusFirstField, rememberFocus } from "./focus.ts";
import "./dialog.css";

interface DialogProps {
  title: string;
  children: ComponentChildren;
  footer?: ComponentChildren;
  wide?: boolean;
  onClose: () => void;
  onSubmit?: () => void; // Enter in a field, or the button of type submit
}

/** A modal dialog on the native element: it holds the focus and restores it when it closes. */
export function Dialog({ title, children, footer, wide, onClose, onSubmit }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useLayoutEffect(() => {
    const [dialog, giveBack] = [element.current, rememberFocus()];
    dialog?.showModal(); // the button that closes it has the focus
    focusFirstField(dialog);
    return () => {
      dialog?.close(); // while it is open, nothing outside of it can have the focus
      giveBack();
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={wide ? "dialog wide" : "dialog"}
      aria-labelledby={heading}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === element.current) onClose();
      }}
    >
      <form
        class="dialog-form"
        onSubmit={(event) => {
          event.preventDefault();
          onSubmit?.();
        }}
      >
        <header>
          <h2 id={heading}>{title}</h2>
          <Button kind="quiet" icon="close" label="Close" onClick={onClose} />
        </header>
        <div class="dialog-body">{children}</div>
        {footer && <footer>{footer}</footer>}
      </form>
    </dialog>
  );
}

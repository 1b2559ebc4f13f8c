/** Keeps the focus through a dialog. */

/** The first field of a form has the focus: nothing that is typed at once gets lost. */
export function focusFirstField(form: HTMLElement | null): void {
  form?.querySelector<HTMLElement>("input, select, textarea")?.focus();
}

/** Remembers the focused element, also inside a shadow root; call the result to restore the focus. */
export function rememberFocus(): () => void {
  let before = document.activeElement;
  while (before?.shadowRoot?.activeElement) before = before.shadowRoot.activeElement;
  return () => {
    // The element may be gone: an action that does not apply to the new status has no button.
    const next = before?.isConnected ? before : document.getElementById("main");
    if (next instanceof HTMLElement) next.focus();
  };
}

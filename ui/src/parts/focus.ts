/** Keeps the focus through a dialog. */

/** Remembers what has the focus, also inside of a shadow root; call the answer to give it back. */
export function rememberFocus(): () => void {
  let before = document.activeElement;
  while (before?.shadowRoot?.activeElement) before = before.shadowRoot.activeElement;
  return () => {
    // What had it may be gone: an action that does not suit the new status has no button.
    const next = before?.isConnected ? before : document.getElementById("main");
    if (next instanceof HTMLElement) next.focus();
  };
}

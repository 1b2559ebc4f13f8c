/** The look of the editor, with the colours of the page: custom properties reach into the shadow root. */

import { HighlightStyle } from "@codemirror/language";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";

export const theme = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "var(--paper)", fontSize: "12px" },
  "&.cm-focused": { outline: "none" }, // the host shows the focus
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "20px", fontVariantLigatures: "none" },
  ".cm-content": { caretColor: "var(--ink)", padding: "8px 0" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--paper)", color: "var(--ink-3)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--sunken) 60%, transparent)" },
  ".cm-activeLineGutter": { backgroundColor: "var(--sunken)", color: "var(--ink)" },
  "& > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground":
    { backgroundColor: "color-mix(in srgb, var(--accent) 26%, transparent)" },
  ".cm-matchingBracket": { backgroundColor: "var(--accent-soft)", outline: "1px solid var(--accent)" },
  ".cm-searchMatch": { backgroundColor: "var(--waiting-soft)", outline: "1px solid var(--waiting)" },
  ".cm-tooltip": {
    border: "1px solid var(--line)",
    borderRadius: "8px",
    backgroundColor: "var(--raised)",
    color: "var(--ink)",
    boxShadow: "var(--shadow)",
    overflow: "hidden",
    maxWidth: "min(480px, 90vw)",
  },
  ".cm-tooltip-hover > div": { padding: "8px 12px", whiteSpace: "pre-wrap", font: "400 12px/18px var(--text)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "3px 10px", lineHeight: "18px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionInfo": { padding: "8px 12px", whiteSpace: "pre-wrap", font: "400 12px/18px var(--text)" },
  ".cm-diagnostic": { padding: "6px 12px", font: "400 12px/18px var(--text)", whiteSpace: "pre-wrap" },
  ".cm-diagnostic-error": { borderLeft: "3px solid var(--failed)" },
  ".cm-diagnostic-warning": { borderLeft: "3px solid var(--waiting)" },
  ".cm-diagnosticAction": {
    marginLeft: "8px",
    padding: "2px 8px",
    border: "1px solid var(--strong)",
    borderRadius: "6px",
    backgroundColor: "var(--paper)",
    color: "var(--ink)",
    font: "inherit",
    cursor: "pointer",
  },
  ".cm-lintRange": { backgroundImage: "none", paddingBottom: "1px" },
  ".cm-lintRange-error": { borderBottom: "2px dotted var(--failed)" },
  ".cm-lintRange-warning": { borderBottom: "2px dotted var(--waiting)" },
  ".cm-lintRange-active": { backgroundColor: "var(--waiting-soft)" },
  ".cm-lint-marker": { content: "none", width: "8px", height: "8px", margin: "6px 2px" },
  ".cm-lint-marker-error": { backgroundColor: "var(--failed)", borderRadius: "1px" },
  ".cm-lint-marker-warning": { backgroundColor: "var(--waiting)", borderRadius: "50%" },
  ".cm-panels": { backgroundColor: "var(--sunken)", color: "var(--ink)", borderColor: "var(--line)" },
  ".cm-panels input, .cm-panels button": {
    font: "400 13px/18px var(--text)",
    border: "1px solid var(--strong)",
    borderRadius: "6px",
    background: "var(--paper)",
    color: "var(--ink)",
  },
});

export const highlighting = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
  { tag: [tags.string, tags.special(tags.string), tags.attributeValue], color: "var(--succeeded)" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: "var(--held)" },
  { tag: tags.comment, color: "var(--ink-3)", fontStyle: "italic" },
  { tag: [tags.meta, tags.labelName, tags.typeName], color: "var(--waiting)" },
  { tag: [tags.punctuation, tags.separator, tags.squareBracket, tags.brace], color: "var(--ink-2)" },
]);

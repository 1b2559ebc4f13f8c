/** Untrusted text for one line of the page: invisible and bidirectional characters are written as escapes. */

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to write out
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u202a-\u202e\u2066-\u2069\ufeff]/g;
const NAMES: Record<string, string> = { "\r": "\\r", "\b": "\\b", "\f": "\\f" };

export function printable(text: string): string {
  return text.replace(
    INVISIBLE,
    (character) => NAMES[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** The same for a text that has one line only. */
export function oneLine(text: string): string {
  return printable(text.replaceAll("\n", "\\n").replaceAll("\t", "\\t"));
}

/** The beginning of a text; a pair of surrogates stays together. */
export function cut(text: string, most: number): string {
  if (text.length <= most) return text;
  const last = text.charCodeAt(most - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? most - 1 : most);
}

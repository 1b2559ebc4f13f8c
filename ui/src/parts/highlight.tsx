import type { ComponentChildren } from "preact";

/** A text with the places marked where another text is in it; upper and lower case are the same. */
export function Highlight({ text, found }: { text: string; found: string }): ComponentChildren {
  if (!found) return text;
  const [low, wanted] = [text.toLowerCase(), found.toLowerCase()];
  if (low.length !== text.length) return text; // some letters change their length: the places would not fit
  const parts: ComponentChildren[] = [];
  let end = 0;
  for (let at = low.indexOf(wanted); at >= 0; at = low.indexOf(wanted, end)) {
    parts.push(text.slice(end, at), <mark key={at}>{text.slice(at, at + wanted.length)}</mark>);
    end = at + wanted.length;
  }
  return end ? [...parts, text.slice(end)] : text;
}

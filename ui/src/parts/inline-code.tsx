/** A text of the server whose names are between backticks. */
export function inlineCode(text: string) {
  return text.split("`").map((part, place) => (place % 2 ? <code key={place}>{part}</code> : part));
}

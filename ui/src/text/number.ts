/** Numbers as people read them. Unknown values are "-", never 0. */

const WHOLE = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });

export const UNKNOWN = "-";

export function count(value: number | null | undefined): string {
  return value == null ? UNKNOWN : WHOLE.format(value);
}

/** "1 run", "12 runs": the plural is the word with an s unless given. */
export function counted(value: number, word: string, plural = `${word}s`): string {
  return `${count(value)} ${value === 1 ? word : plural}`;
}

export function bytes(value: number | null | undefined): string {
  if (value == null) return UNKNOWN;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return unit === 0 ? `${size} B` : `${size < 10 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

/** An id shortened in the middle; its copy button gives all of it. */
export function shortId(id: string): string {
  return id.length <= 12 ? id : `${id.slice(0, 4)}..${id.slice(-4)}`;
}

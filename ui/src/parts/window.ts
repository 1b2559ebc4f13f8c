/** Which rows of a long list are in view. Pure; browsers stop at 17 to 33 million pixels, so long lists are scaled. */

export const MAX_HEIGHT_PX = 10_000_000;

interface ListWindow {
  first: number; // the first row to render
  last: number; // one past the last row to render
  offset: number; // where the first row is, in pixels from the top of the scrolled content
  height: number; // of the scrolled content
}

export function listWindow(
  total: number,
  rowHeight: number,
  scrollTop: number,
  viewport: number,
  extra = 6,
): ListWindow {
  const real = total * rowHeight;
  const height = Math.min(real, MAX_HEIGHT_PX);
  const room = Math.max(1, height - viewport);
  // Of the real list, as many pixels are above as the share of the scaled list that is scrolled away.
  const above = real <= MAX_HEIGHT_PX ? scrollTop : Math.min(1, Math.max(0, scrollTop / room)) * (real - viewport);
  const first = Math.max(0, Math.min(total, Math.floor(above / rowHeight) - extra));
  const last = Math.min(total, Math.ceil((above + viewport) / rowHeight) + extra);
  return { first, last, offset: scrollTop + first * rowHeight - above, height };
}

/** The scroll position that shows a row, unchanged if it is in view already. */
export function scrollToRow(
  row: number,
  total: number,
  rowHeight: number,
  scrollTop: number,
  viewport: number,
): number {
  const real = total * rowHeight;
  const scale = real <= MAX_HEIGHT_PX ? 1 : (MAX_HEIGHT_PX - viewport) / (real - viewport);
  const above = scrollTop / scale;
  if (row * rowHeight < above) return row * rowHeight * scale;
  if ((row + 1) * rowHeight > above + viewport) return ((row + 1) * rowHeight - viewport) * scale;
  return scrollTop;
}

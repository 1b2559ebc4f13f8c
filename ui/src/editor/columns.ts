/** The server counts columns in characters, the editor in UTF-16 units. Pure. */

/** The UTF-16 index in a line of a column that counts characters from 1. */
export function indexOfColumn(line: string, column: number): number {
  let index = 0;
  for (let place = 1; place < column && index < line.length; place += 1)
    index += (line.codePointAt(index) ?? 0) > 0xffff ? 2 : 1;
  return index;
}

/** The column, in characters from 1, of a UTF-16 index in a line. */
export function columnOfIndex(line: string, index: number): number {
  return [...line.slice(0, index)].length + 1;
}

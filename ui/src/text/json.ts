/** JSON values. Whole numbers keep all their digits: one that a number cannot hold is a bigint. Pure. */

declare global {
  interface JSON {
    rawJSON?: (text: string) => unknown; // missing in browsers from before 2025, which round such numbers
  }
  interface BigInt {
    toJSON: () => unknown;
  }
}

/** How JSON.stringify writes a bigint. */
BigInt.prototype.toJSON = function () {
  return JSON.rawJSON ? JSON.rawJSON(`${this}`) : Number(this);
};

export function exactNumber(digits: string): number | bigint {
  const number = Number(digits);
  return Number.isSafeInteger(number) ? number : BigInt(digits);
}

export function parseJson(text: string): unknown {
  // The reviver is slow, and recurses where values are deep.
  if (/\d{16}/.test(text))
    try {
      return JSON.parse(text, (_, value: unknown, { source = "" } = {}) =>
        /^-?\d+$/.test(source) ? exactNumber(source) : value,
      );
    } catch {}
  return JSON.parse(text);
}

export function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

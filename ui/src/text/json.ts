/** JSON values. Numbers keep their text where JavaScript would write another number: 20.0, or 9007199254740993. Pure. */

declare global {
  interface JSON {
    rawJSON?: (text: string) => unknown; // missing in browsers from before 2025, which write such numbers differently
  }
}

/** A number that is written as its text. */
export class ExactNumber extends Number {
  readonly text: string;

  constructor(text: string) {
    super(text);
    this.text = text;
  }

  override toString(): string {
    return this.text;
  }

  toJSON(): unknown {
    return JSON.rawJSON ? JSON.rawJSON(this.text) : Number(this);
  }
}

const INTEGER = /^-?\d+$/;
const NUMBER = /^-?\d+(\.\d+)?(e[-+]?\d+)?$/i;

/** The number of a text: a float stays a float, and an integer keeps its digits. Null if it is none or too large. */
export function exactNumber(text: string): number | ExactNumber | null {
  const digits = text.replace(/^\+/, "").replace(/\.(?!\d)/, ".0");
  const plain = digits.replace(/^(-?)\./, "$10.").replace(/^(-?)0+(?=\d)/, "$1");
  const number = Number(plain);
  if (INTEGER.test(plain)) return plain === String(number) ? number : new ExactNumber(plain);
  if (!NUMBER.test(plain) || !Number.isFinite(number)) return null;
  return INTEGER.test(String(number)) ? new ExactNumber(plain) : number;
}

/** The value of a JSON text. JSON has no infinity: 1e400 would be sent as null, so it is an error. */
export function parseJson(text: string): unknown {
  // The reviver is slow, and recurses where values are deep.
  if (/\d{16}|\d(\.0+|e[-+]?\d+)\s*([,\]}]|$)/i.test(text))
    try {
      return JSON.parse(text, exact);
    } catch (error) {
      if (error === TOO_LARGE) throw error;
    }
  return JSON.parse(text);
}

const TOO_LARGE = new Error("a number is too large");

function exact(_: string, value: unknown, { source = "" } = {}): unknown {
  if (typeof value !== "number") return value;
  const number = exactNumber(source || String(value));
  if (number === null) throw TOO_LARGE;
  return number;
}

export function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber);
}

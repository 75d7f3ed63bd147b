/** Reads single fields of messages from data planes and reports which one is invalid. */

export class BadField extends Error {
  constructor(
    readonly field: string,
    readonly reason: string,
  ) {
    super(`${field} ${reason}`);
  }
}

const WHOLE = "must be a whole number from 0 to 9007199254740991";

export function asObject(value: unknown, field: string): Record<string, unknown> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new BadField(field, "must be an object");
}

export function asList(value: unknown, most: number, field: string): unknown[] {
  if (Array.isArray(value) && value.length <= most) return value;
  throw new BadField(field, `must be a list of at most ${most}`);
}

export function asText(value: unknown, field: string): string {
  if (typeof value === "string") return value;
  throw new BadField(field, value === undefined ? "is missing" : "must be a string");
}

export function asWhole(value: unknown, field: string): number {
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
  throw new BadField(field, value === undefined ? "is missing" : WHOLE);
}

export function readWhole(text: string | undefined, field: string): number {
  if (text === undefined) throw new BadField(field, "is missing");
  const value = /^[0-9]{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(value)) return value;
  throw new BadField(field, WHOLE);
}

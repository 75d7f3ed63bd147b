/** Types of messages: the fields that are read, from bytes or from the JSON encoding of proto3. */
import { FIXED64, LENGTH, Reader, tag, VARINT } from "./protobuf.js";

/** One field: how its value is read. */
export interface Field<T> {
  tag: number;
  /** The value if the field is not there. */
  initial(): T;
  /** `before` is the value so far: lists grow, and parts of a message are merged. */
  read(reader: Reader, before: T): T;
  /** Throws a WrongField. `at` is the path of the field. */
  fromJson(value: unknown, at: string): T;
}

/** A value that the JSON encoding does not allow. */
export class WrongField extends Error {
  constructor(field: string, wanted: string) {
    super(`${field} must be ${wanted}`);
  }
}

export class MessageType<T extends object> {
  private readonly names: (keyof T & string)[];
  private readonly namesByTag = new Map<number, keyof T & string>();

  constructor(private readonly fields: { readonly [K in keyof T]: Field<T[K]> }) {
    this.names = Object.keys(fields) as (keyof T & string)[];
    for (const name of this.names) this.namesByTag.set(fields[name].tag, name);
  }

  decode(bytes: Uint8Array): T {
    return this.read(new Reader(bytes));
  }

  /** Skips unknown fields. */
  read(reader: Reader, message = this.empty()): T {
    while (reader.next()) {
      const name = this.namesByTag.get(reader.tag);
      if (name === undefined) reader.skip();
      else message[name] = this.fields[name].read(reader, message[name]);
    }
    return message;
  }

  /** Names as in the protocol or in camel case. Other names are rejected, as the JSON encoding requires. */
  fromJson(value: unknown, at = ""): T {
    const path = at === "" ? "the body" : at;
    if (typeof value !== "object" || value === null || Array.isArray(value)) throw new WrongField(path, "an object");
    const message = this.empty();
    for (const [given, inner] of Object.entries(value)) {
      const name = this.names.find((one) => one === given || camelCase(one) === given);
      if (name === undefined) throw new WrongField(path, `an object with ${this.names.join(", ")} only`);
      // null means that the field is missing.
      if (inner !== null) message[name] = this.fields[name].fromJson(inner, at === "" ? name : `${at}.${name}`);
    }
    return message;
  }

  private empty(): T {
    const message = {} as T;
    for (const name of this.names) message[name] = this.fields[name].initial();
    return message;
  }
}

const camelCase = (name: string) => name.replace(/_([a-z])/g, (_all, letter: string) => letter.toUpperCase());

// Kinds of fields. Each takes the number of the field.

export const text = scalar(LENGTH, "", (reader) => reader.text(), ofType<string>("string", "a text"));
export const bool = scalar(VARINT, false, (reader) => reader.uint() !== 0, ofType<boolean>("boolean", "true or false"));
export const double = scalar(FIXED64, 0, (reader) => reader.double(), ofType<number>("number", "a number"));
export const uint32 = scalar(VARINT, 0, (reader) => reader.uint32(), wholeNumber(32));
export const uint64 = scalar(VARINT, 0, (reader) => reader.uint(), wholeNumber(64));

function scalar<T>(wire: number, initial: T, read: (reader: Reader) => T, fromJson: Field<T>["fromJson"]) {
  return (number: number): Field<T> => ({ tag: tag(number, wire), initial: () => initial, read, fromJson });
}

function ofType<T>(type: string, wanted: string) {
  return (value: unknown, at: string): T => {
    if (typeof value !== type) throw new WrongField(at, wanted);
    return value as T;
  };
}

export const nested = <T extends object>(number: number, type: MessageType<T>): Field<T | undefined> => ({
  tag: tag(number, LENGTH),
  initial: () => undefined,
  read: (reader, before) => type.read(reader.message(), before),
  fromJson: (value, at) => type.fromJson(value, at),
});

export const list = <T extends object>(number: number, type: MessageType<T>): Field<T[]> => ({
  tag: tag(number, LENGTH),
  initial: () => [],
  read(reader, before) {
    before.push(type.read(reader.message()));
    return before;
  },
  fromJson(value, at) {
    if (!Array.isArray(value)) throw new WrongField(at, "a list");
    return value.map((item, i) => type.fromJson(item, `${at}[${i}]`));
  },
});

/** A message that is read later, if at all. */
export const unread = (number: number): Field<Reader | undefined> => ({
  tag: tag(number, LENGTH),
  initial: () => undefined,
  read: (reader) => reader.message(),
  fromJson: () => undefined,
});

/** UInt32Value or UInt64Value: a message with a number, so that 0 differs from nothing. In JSON it is the number. */
export function wrapped(number: number, kind: (number: number) => Field<number>): Field<number | undefined> {
  const value = kind(1);
  const type = new MessageType({ value });
  return {
    tag: tag(number, LENGTH),
    initial: () => undefined,
    read: (reader) => type.read(reader.message()).value,
    fromJson: value.fromJson,
  };
}

/** A number, or a string of digits. Values above 2^53 - 1 are read as 2^53 - 1, as in the binary encoding. */
function wholeNumber(bits: 32 | 64) {
  const most = bits === 32 ? 2 ** 32 - 1 : 2 ** 64;
  return (value: unknown, at: string): number => {
    const number = typeof value === "string" && /^[0-9]{1,20}$/.test(value) ? Number(value) : value;
    if (typeof number !== "number" || !Number.isInteger(number) || number < 0 || number > most) {
      throw new WrongField(at, `a whole number from 0 to 2^${bits} - 1`);
    }
    return Math.min(number, Number.MAX_SAFE_INTEGER);
  };
}

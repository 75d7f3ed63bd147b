/** The kinds of values that options have. Each says in one sentence what it wants, whatever is wrong with what it got. */
import { isIP } from "node:net";
import * as z from "zod";
import { isRedisUrl, parseRedisUrl } from "../store/redis/redis-url.js";
import { nearest } from "./nearest.js";

type Shape = Record<string, z.ZodType>;

/** What documents and editors are told of a kind, beyond what its schema shows. */
export interface KindNote {
  /** In words, for a table. */
  kind?: string;
  /** A regular expression; the schema's own check may be stricter. */
  pattern?: string;
  /** Names that may stand for the whole section. */
  names?: readonly string[];
  /** The section whose options it has as well. */
  likeSection?: string;
  /** What holds where the option is not given and no default can be written down. */
  otherwise?: string;
}

export const kindNotes = z.registry<KindNote>();

/** Says in words what holds where the option is not given. */
export function otherwise<T extends z.ZodType>(words: string, option: T): T {
  kindNotes.add(option, { otherwise: words });
  return option;
}

/** Several unknown keys make one complaint of zod's; ours has a line for each of them, in their order. */
export function section<S extends Shape>(shape: S) {
  const names = Object.keys(shape);
  const object = z.strictObject(shape, {
    error: (issue) => {
      if (issue.code === "unrecognized_keys") return issue.keys.map((key) => unknownName(key, names)).join("\n");
      return `must be a section with ${names.join(", ")}`;
    },
  });
  // A section whose lines are all comments is null in YAML.
  return z.preprocess((value) => (value === null ? {} : value), object);
}

export function unknownName(name: string, known: string[]): string {
  const likely = nearest(name, known);
  return likely === undefined
    ? `there is no such option; there are ${known.join(", ")}`
    : `there is no such option; did you mean ${likely}?`;
}

/** Numbers may come as text: from the environment, or from a ${VARIABLE}. */
function numeric(value: unknown): unknown {
  return typeof value === "string" && /^-?[0-9]+(\.[0-9]+)?$/.test(value) ? Number(value) : value;
}

const shown = (value: number) => (Number.isInteger(value) ? value.toFixed(0) : String(value));

export function whole(least: number, most: number) {
  const wanted = `must be a whole number from ${shown(least)} to ${shown(most)}`;
  const number = z.int(wanted).min(least, wanted).max(most, wanted);
  return noted(z.preprocess(numeric, number), wanted);
}

/** Fractions are fine. `least` itself is the smallest that is. */
export function amount(least: number, most: number) {
  const wanted = `must be a number from ${shown(least)} to ${shown(most)}`;
  const number = z.number(wanted).min(least, wanted).max(most, wanted);
  return noted(z.preprocess(numeric, number), wanted);
}

/** 0 stands for no limit. */
export function zeroOr(least: number, most: number) {
  const wanted = `must be 0 or a number from ${shown(least)} to ${shown(most)}`;
  const isGood = (value: number) => value === 0 || value >= least;
  const number = z.number(wanted).min(0, wanted).max(most, wanted).refine(isGood, wanted);
  return noted(z.preprocess(numeric, number), wanted);
}

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

export const milliseconds = (least: number, most: number) => whole(least, most);

export function flag() {
  const wanted = "must be true or false";
  const read = (value: unknown) => (value === "true" ? true : value === "false" ? false : value);
  return noted(z.preprocess(read, z.boolean(wanted)), wanted);
}

export function oneOf<T extends string>(...names: [T, ...T[]]) {
  const wanted = `must be ${names.join(" or ")}`;
  const kind = z.enum(names, {
    error: ({ input }) => {
      const likely = typeof input === "string" ? nearest(input, names) : undefined;
      return `${wanted}${likely === undefined ? "" : `; did you mean ${likely}?`}`;
    },
  });
  return noted(kind, wanted);
}

/** A section for which one of its names may stand: `profile: iops` is `profile: { based_on: iops }`. */
export function sectionOrName<S extends Shape>(option: string, names: readonly string[], shape: S) {
  const read = (value: unknown) => (typeof value === "string" ? { [option]: value } : value);
  const kind = z.preprocess(read, section(shape));
  kindNotes.add(kind, { names });
  return kind;
}

function text(wanted: string, isGood: RegExp | ((value: string) => boolean)) {
  const isRight = isGood instanceof RegExp ? (value: string) => isGood.test(value) : isGood;
  const kind = noted(z.string(wanted).refine(isRight, wanted), wanted);
  if (isGood instanceof RegExp) kindNotes.add(kind, { ...kindNotes.get(kind), pattern: isGood.source });
  return kind;
}

function noted<T extends z.ZodType>(kind: T, wanted: string): T {
  kindNotes.add(kind, { kind: wanted.replace(/^must be /, "") });
  return kind;
}

const IDENTIFIER = "must be 1 to 128 of A–Z a–z 0–9 . _ : -";

/** The same as isIdentifier of the core, in a form that a JSON Schema can have. */
export const identifier = () => text(IDENTIFIER, /^[A-Za-z0-9._:-]{1,128}$/);

/** Leaves room for the number of a worker. */
export const nodeName = () => text("must be 1 to 100 of A–Z a–z 0–9 . _ : -", /^[A-Za-z0-9._:-]{1,100}$/);

/** A cluster's name stands in braces in keys, where braces of its own would change the slot; an id has none. */
export const clusterName = identifier;

export interface Address {
  host: string;
  port: number;
}

export function parseAddress(value: string): Address | undefined {
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):([0-9]{1,5})$/.exec(value);
  const port = Number(match?.[3]);
  if (match === null || port > 65535) return undefined;
  if (match[1] !== undefined) return isIP(match[1]) === 6 ? { host: match[1], port } : undefined;
  return { host: match[2] ?? "", port };
}

export const address = () =>
  text("must be host:port, for example 0.0.0.0:8080 or [::]:8080", (value) => parseAddress(value) !== undefined);

export const network = () =>
  text("must be an address or a network, for example 10.0.0.0/8 or ::1/128", (value) => {
    const [ip = "", prefix, ...rest] = value.split("/");
    const bits = { 0: -1, 4: 32, 6: 128 }[isIP(ip)] ?? -1;
    if (bits < 0 || rest.length > 0) return false;
    return prefix === undefined || (/^[0-9]{1,3}$/.test(prefix) && Number(prefix) <= bits);
  });

export const hostName = () =>
  text("must be a host name without a port", /^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$/);

export const headerName = () => text("must be the name of a header", /^[A-Za-z0-9_-]{1,64}$/);

/** As in the header Upgrade, without a version. */
export const protocol = () =>
  text("must be a protocol to upgrade to, in lower case, for example websocket", /^[a-z0-9!#$%&'*+.^_`|~-]{1,64}$/);

export const routePath = () =>
  text("must be a path that begins with / and has no spaces, ?, # or control characters", /^\/[!"$->@-~]*$/);

export const target = () =>
  text("must be host:port, or http://host:port, or https://host:port", (value) => {
    const at = parseAddress(value.replace(/^https?:\/\//, ""));
    return at !== undefined && at.port > 0;
  });

/** Empty: there is none. */
export const secret = () =>
  text("must be empty or 16 to 512 printable characters without spaces", /^([!-~]{16,512})?$/);

/** What is wrong with a url is said by who reads it, in words that repeat nothing of it. */
export function storeUrl() {
  const wanted = "must be embedded, redis://…, rediss://…, redis-cluster://… or redis-sentinel://…/name";
  const kind = z.string("must be embedded or the url of a Redis").superRefine((value, context) => {
    if (value === "embedded") return;
    if (!isRedisUrl(value)) {
      context.addIssue({ code: "custom", message: wanted });
      return;
    }
    try {
      parseRedisUrl(value);
    } catch (error) {
      context.addIssue({ code: "custom", message: error instanceof Error ? error.message : wanted });
    }
  });
  return noted(kind, wanted);
}

/** Whatever a person may want to write, within reason: numbers and yes or no are read as text. */
export function words(most: number) {
  const wanted = `must be 1 to ${most} characters, none of them a control character`;
  const read = (value: unknown) => (typeof value === "number" || typeof value === "boolean" ? String(value) : value);
  const isGood = (value: string) => value.length > 0 && value.length <= most && !/\p{Cc}/u.test(value);
  return noted(z.preprocess(read, z.string(wanted).refine(isGood, wanted)), wanted);
}

/** Names and values of any kind, which nobody here reads. */
export function anything() {
  const wanted = "must be a section with any names and values";
  return noted(z.record(z.string(), z.unknown(), wanted), wanted);
}

/** A list that is not endless. */
export function list<T extends z.ZodType>(item: T, least: number, most: number) {
  const wanted = `must be a list of ${least === 0 ? "at most" : `${least} to`} ${most}`;
  return noted(z.array(item, wanted).min(least, wanted).max(most, wanted), wanted);
}

/** Names of the operator's own, each with a value. That there are not too many is checked before: see load.ts. */
export function named<T extends z.ZodType>(value: T) {
  return z.preprocess(
    (input) => (input === null ? {} : input),
    z.record(identifier(), value, {
      error: (issue) => (issue.code === "invalid_key" ? `the name ${IDENTIFIER}` : "must be names, each with a value"),
    }),
  );
}

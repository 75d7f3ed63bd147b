/** The types of option values. Each has one message that states what is expected. */
import { isIP } from "node:net";
import * as z from "zod";
import { STORE_URLS, storeKindOf } from "../store/store-url.js";
import { didYouMean, unknownName } from "./nearest.js";
import { parsePushUrl } from "./push-url.js";

type Shape = Record<string, z.ZodType>;

/** Metadata of types (`meta`) for the reference page and editors. zod copies it into the JSON Schema. */
export interface KindNote {
  /** The type in words, for the reference page. */
  kind?: string;
  /** A regular expression; the validation may be stricter. */
  pattern?: string;
  /** Names that may be written instead of the section. */
  names?: readonly string[];
  /** The section that has the same options. */
  likeSection?: string;
  /** The default in words, if it is not a constant. */
  otherwise?: string;
}

/** @param otherwise what applies without the option */
export function optional<T extends z.ZodType>(kind: T, otherwise: string) {
  return kind.optional().meta({ otherwise });
}

/** For several unknown keys zod has one message; ours has one line per key. */
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

/** Numbers may be strings: from the environment or a ${VARIABLE}. */
function numeric(value: unknown): unknown {
  return typeof value === "string" && /^-?[0-9]+(\.[0-9]+)?$/.test(value) ? Number(value) : value;
}

const shown = (value: number) => (Number.isInteger(value) ? value.toFixed(0) : String(value));

export function whole(least: number, most: number) {
  const wanted = `must be a whole number from ${shown(least)} to ${shown(most)}`;
  const number = z.int(wanted).min(least, wanted).max(most, wanted);
  return described(z.preprocess(numeric, number), wanted);
}

/** A number that may have a fraction. */
export function amount(least: number, most: number) {
  const wanted = `must be a number from ${shown(least)} to ${shown(most)}`;
  const number = z.number(wanted).min(least, wanted).max(most, wanted);
  return described(z.preprocess(numeric, number), wanted);
}

/** 0 means no limit. */
export function zeroOr(least: number, most: number) {
  const wanted = `must be 0 or a number from ${shown(least)} to ${shown(most)}`;
  const isGood = (value: number) => value === 0 || value >= least;
  const number = z.number(wanted).min(0, wanted).max(most, wanted).refine(isGood, wanted);
  return described(z.preprocess(numeric, number), wanted);
}

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

export const milliseconds = (least: number, most: number) => whole(least, most);

export function flag() {
  const wanted = "must be true or false";
  const read = (value: unknown) => (value === "true" ? true : value === "false" ? false : value);
  return described(z.preprocess(read, z.boolean(wanted)), wanted);
}

export function oneOf<T extends string>(...names: [T, ...T[]]) {
  return oneOfRenamed({}, ...names);
}

/** @param renamed former names: the error says what to write now */
export function oneOfRenamed<T extends string>(renamed: Record<string, T>, ...names: [T, ...T[]]) {
  const wanted = `must be ${names.join(" or ")}`;
  const hint = (input: string) =>
    Object.hasOwn(renamed, input) ? `: ${input} is now ${renamed[input]}` : didYouMean(input, names);
  const error = ({ input }: { input?: unknown }) => wanted + (typeof input === "string" ? hint(input) : "");
  return described(z.enum(names, { error }), wanted);
}

/** A section that may be written as a name: `profile: iops` is `profile: { based_on: iops }`. */
export function sectionOrName<S extends Shape>(option: string, names: readonly string[], shape: S) {
  const read = (value: unknown) => (typeof value === "string" ? { [option]: value } : value);
  return z.preprocess(read, section(shape)).meta({ names });
}

export function text(wanted: string, isGood: RegExp | ((value: string) => boolean)): z.ZodString {
  if (isGood instanceof RegExp) return text(wanted, (value) => isGood.test(value)).meta({ pattern: isGood.source });
  return described(z.string(wanted).refine(isGood, wanted), wanted);
}

function described<T extends z.ZodType>(kind: T, wanted: string): T {
  return kind.meta({ kind: wanted.replace(/^must be /, "") });
}

const IDENTIFIER = "must be 1 to 128 of A–Z a–z 0–9 . _ : -";

/** The same as isIdentifier in core, as a regular expression for JSON Schema. */
export const identifier = () => text(IDENTIFIER, /^[A-Za-z0-9._:-]{1,128}$/);

/** Shorter than an identifier: the number of the worker is appended. */
export const nodeName = () => text("must be 1 to 100 of A–Z a–z 0–9 . _ : -", /^[A-Za-z0-9._:-]{1,100}$/);

/** Part of Redis hash tags: braces would change the slot. */
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

/** Absolute, because the working directory of a service is not obvious. */
export const filePath = () => text("must be the absolute path of a file", /^\/[^\p{Cc}]{1,4095}$/u);

export const headerName = () => text("must be a header name", /^[A-Za-z0-9_-]{1,64}$/);

/** Each hyphen doubles the number of spellings that nginx and Envoy look for. */
export const identityHeader = () =>
  text(
    "must be a header name with at most four hyphens or underscores",
    /^(?=.{1,64}$)[A-Za-z0-9]+([_-][A-Za-z0-9]+){0,4}$/,
  );

/** As in the Upgrade header, without a version. */
export const protocol = () =>
  text("must be an upgrade protocol in lower case, for example websocket", /^[a-z0-9!#$%&'*+.^_`|~-]{1,64}$/);

export const routePath = () =>
  text("must be a path that begins with / and has no spaces, ?, # or control characters", /^\/[!"$->@-~]*$/);

export const target = () =>
  text("must be host:port, or http://host:port, or https://host:port", (value) => {
    const at = parseAddress(value.replace(/^https?:\/\//, ""));
    return at !== undefined && at.port > 0;
  });

/** May be empty. */
export const secret = () =>
  text("must be empty or 16 to 512 printable characters without spaces", /^([!-~]{16,512})?$/);

/** One secret, or two while one replaces the other. Empty ones, such as those of unset variables, do not count. */
export function secrets() {
  const wanted =
    "must be a token or a list of at most two, each empty or 16 to 512 printable characters without spaces";
  const kind = z.union([secret(), z.array(secret()).max(2)], wanted);
  return described(kind, wanted).transform((value) => [value].flat().filter((token) => token !== ""));
}

/** A URL whose parser throws the message, which must not quote the URL. */
function url(wanted: string, parse: (value: string) => unknown) {
  return z.string(wanted).superRefine((value, { addIssue }) => {
    try {
      parse(value);
    } catch (error) {
      addIssue({ code: "custom", message: error instanceof Error ? error.message : wanted });
    }
  });
}

export const storeUrl = () => described(url("must be embedded or a Redis URL", storeKindOf), `must be ${STORE_URLS}`);

/** Without credentials, which would be in logs. */
export const httpUrl = () =>
  text("must be http://host:port or https://host:port, optionally with a path", (value) => {
    if (value.length > 1_024 || !URL.canParse(value)) return false;
    const { protocol, username, password, search, hash } = new URL(value);
    return /^https?:$/.test(protocol) && username + password + search + hash === "";
  });

/** The value of a header. May be empty. */
export const secretHeader = () =>
  text("must be empty or 8 to 2048 printable ASCII characters", /^([!-~][ -~]{6,2046}[!-~])?$/);

/** One URL, or a list. */
export function pushUrls() {
  const destination = url("must be a URL", parsePushUrl);
  const wanted = "must be statsd://host:port or graphite://host:port, or a list of at most 4";
  return described(
    z.preprocess((value) => (typeof value === "string" ? [value] : value), z.array(destination, wanted).max(4, wanted)),
    wanted,
  );
}

/** Free text; numbers and booleans are accepted as text. */
export function words(most: number) {
  const wanted = `must be 1 to ${most} characters, without control characters`;
  const read = (value: unknown) => (typeof value === "number" || typeof value === "boolean" ? String(value) : value);
  const pattern = new RegExp(`^[^\\x00-\\x1f\\x7f-\\x9f]{1,${most}}$`);
  return described(z.preprocess(read, text(wanted, pattern)), wanted);
}

/** A map that is passed on without validation. */
export function anything() {
  const wanted = "must be a map with any names and values";
  return described(z.record(z.string(), z.unknown(), wanted), wanted);
}

export function list<T extends z.ZodType>(item: T, least: number, most: number) {
  const wanted = `must be a list of ${least === 0 ? "at most" : `${least} to`} ${most}`;
  return described(z.array(item, wanted).min(least, wanted).max(most, wanted), wanted);
}

/** A map with free names. load.ts limits the number of names. */
export function named<T extends z.ZodType>(value: T) {
  return z.preprocess(
    (input) => (input === null ? {} : input),
    z.record(identifier(), value, {
      error: (issue) => (issue.code === "invalid_key" ? `the name ${IDENTIFIER}` : "must be a map of names to values"),
    }),
  );
}

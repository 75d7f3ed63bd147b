/**
 * The messages of data planes in plain text, and the replies: the only place with the order of the words in their lines. Planes of
 * other versions send and read the same lines, so words may only be appended. The names are those of the JSON form.
 */
import { joinValues, wholeText } from "../core/platform.js";

/** For each app, after the line about the node. */
export const SYNC_APP = ["app", "granted", "spent", "returned", "need", "want"] as const;
export const SYNC_REPLY = [
  "code",
  "live_nodes",
  "emergency",
  "emergency_left_ms",
  "degradation",
  "config_version",
  "known",
] as const;
/** `rate` in micro-tokens per second, 0 if unknown. */
export const SYNC_REPLY_APP = [
  "app",
  "code",
  "grant",
  "granted",
  "remaining",
  "limit",
  "retry_after_ms",
  "scarce",
  "rate",
] as const;

export const ACQUIRE = ["proxy", "connection", "app", "route", "reclaim", "memory", "client"] as const;
export const ACQUIRE_REPLY = ["allowed", "count", "code", "pod", "retry_after", "lease_ms", "memory"] as const;
/** For each connection of a renewal or release, after the line about the proxy. */
export const HELD = ["connection", "pod", "app", "route", "client"] as const;
export const RENEW_REPLY = ["allowed", "renewed", "code", "lease_ms", "memory"] as const;

/** The words of a line by their names. Of an older version, or a refusal, the last may be missing. */
export function byName<N extends string>(names: readonly N[], words: string[]): Partial<Record<N, string>> {
  const named: Partial<Record<N, string>> = {};
  for (let i = 0; i < names.length && i < words.length; i++) named[names[i]!] = words[i]!;
  return named;
}

/** A line with these words, up to the first that is undefined. Numbers are whole, and true is 1. */
export function lineOf<N extends string>(names: readonly N[], values: Record<N, Word | undefined>): string {
  const words: string[] = [];
  for (const name of names) {
    const word: Word | undefined = values[name];
    if (word === undefined) break;
    if (typeof word === "string") words.push(word);
    else words.push(typeof word === "number" ? wholeText(word) : word ? "1" : "0");
  }
  return joinValues(words, " ", 0);
}

type Word = string | number | boolean;

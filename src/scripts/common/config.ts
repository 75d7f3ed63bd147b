/** The configuration layer in the store: a hash with its revision and its text. */
import { wholeNumber } from "../../core/platform.js";
import { isWithin, MAX_COUNTER } from "./cluster.js";

/** 1 MiB. The text is ASCII, so characters are bytes. */
export const MAX_CONFIG_LENGTH = 1048576;

const ANY = "-1";

export function isRevision(revision: string): boolean {
  return revision === ANY || isWithin(wholeNumber(revision), 0, MAX_COUNTER);
}

/** The stored revision; 0 when it is missing or invalid. */
export function storedRevision(text: string | false): number {
  const revision = text === false ? 0 : wholeNumber(text);
  return isWithin(revision, 0, MAX_COUNTER - 1) ? revision : 0;
}

export function isAny(revision: string): boolean {
  return revision === ANY;
}

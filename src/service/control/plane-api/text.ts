/** Words and numbers in messages in plain text, which Lua writes and parses without a library. */
import { badField, type Rejected } from "../../operations/endpoint.js";

export const words = (line = "") => line.split(" ").filter((word) => word !== "");

/** The number that a word means. Other words are left for the schema to reject. */
export function numberOf(word: string | undefined): unknown {
  return word !== undefined && /^[0-9]{1,16}$/.test(word) ? Number(word) : word;
}

export function malformedLine(line: number, wanted: string): Rejected {
  return badField(`line ${line}`, `must be: ${wanted}`);
}

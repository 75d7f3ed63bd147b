/** Turns a validation error into one sentence that names the invalid field. */
import type * as z from "zod";
import { nearest } from "../../config/nearest.js";
import { shownPath } from "../../config/problem.js";
import { badField, type Rejected } from "../operations/endpoint.js";

type Issue = z.core.$ZodIssue;

/** The most useful issue: a misspelt name comes first, because the correct name is then missing as well. */
export function wrongField(error: z.ZodError, input: unknown, schema: z.ZodType): Rejected {
  const misspelt = error.issues.find((issue) => issue.code === "unrecognized_keys");
  if (misspelt !== undefined) {
    const name = misspelt.keys[0] ?? "";
    const known = "shape" in schema ? Object.keys(Object(schema.shape)) : [];
    const likely = nearest(name, known);
    const hint = likely === undefined ? `known fields: ${known.join(", ")}` : `did you mean ${likely}?`;
    return badField(shownPath([...misspelt.path, name]), `is not a field; ${hint}`);
  }
  const issue = error.issues[0]!;
  // An invalid name in a record is a fault of the record.
  const path = issue.code === "invalid_key" ? issue.path.slice(0, -1) : issue.path;
  return badField(
    path.length === 0 ? "body" : shownPath(path),
    isMissing(issue, input) ? "is missing" : complaint(issue),
  );
}

function isMissing({ path }: Issue, input: unknown): boolean {
  let value = input;
  for (const part of path) value = Object(value)[part];
  return value === undefined;
}

function complaint(issue: Issue): string {
  if (issue.code === "invalid_value") return `must be ${issue.values.map(String).join(" or ")}`;
  if (issue.code === "invalid_key") return issue.issues[0]?.message ?? issue.message;
  if (issue.code === "invalid_type") return `must be ${kinds[issue.expected] ?? issue.expected}`;
  if (issue.code === "too_small" && isPlain(issue.message)) {
    return size(issue.origin, issue.inclusive === false ? "more than" : "at least", issue.minimum);
  }
  if (issue.code === "too_big" && isPlain(issue.message)) {
    return size(issue.origin, issue.inclusive === false ? "less than" : "at most", issue.maximum);
  }
  return issue.message;
}

/** Whether the message is zod's default. */
const isPlain = (message: string) => message.startsWith("Too ");

const kinds: Record<string, string> = {
  int: "a whole number",
  number: "a number",
  string: "a string",
  boolean: "true or false",
  object: "an object",
  record: "an object",
  array: "a list",
};

function size(origin: string, than: string, bound: number | bigint): string {
  if (origin === "string") return `must be ${than} ${bound} characters long`;
  if (origin === "array") return `must have ${than} ${bound} items`;
  return `must be ${than} ${bound}`;
}

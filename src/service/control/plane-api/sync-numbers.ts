/** What a data plane has counted, as its messages carry it: bounded in size, in JSON and in plain text. */
import { isIdentifier } from "../../../core/platform.js";
import { asObject, asText, asWhole, BadField, readWhole } from "./sync-fields.js";

/** What was counted of one app since the batch before: lists of numbers by name. `docs/API.md` says what stands where. */
export interface AppNumbers {
  /** `*` for requests that belong to no app. */
  app: string;
  lists: Record<string, number[]>;
}

export interface NodeNumbers {
  /** How the node is now, by name. */
  node: Record<string, number>;
  /** Counts the batches of a node; 0 where there is none. A repeated batch keeps its number, and is counted once. */
  batch: number;
  apps: AppNumbers[];
}

/** So many apps in a batch, names in a line, numbers under a name. */
const MOST_APPS = 200;
const MOST_NAMES = 64;
const MOST_NUMBERS = 32;
/** In the place of an app. */
export const NOBODY = "*";
const NAME = /^[A-Za-z0-9_]{1,64}$/;

/** The value of `numbers` in JSON. Throws BadField. */
export function parseNumbers(value: unknown): NodeNumbers {
  const { node, batch, apps } = asObject(value, "numbers");
  if (apps !== undefined && (!Array.isArray(apps) || apps.length > MOST_APPS)) {
    throw new BadField("numbers.apps", `must be a list of at most ${MOST_APPS}`);
  }
  const list: unknown[] = apps ?? [];
  const gauges = entriesOf(node ?? {}, "numbers.node").map(([name, one]) => [
    ...[name, asWhole(one, `numbers.node.${name}`)],
  ]);
  return checked({
    node: Object.fromEntries(gauges) as Record<string, number>,
    batch: batch === undefined ? 0 : asWhole(batch, "numbers.batch"),
    apps: list.map((item, i) => {
      const field = `numbers.apps[${i}]`;
      const { app, numbers } = asObject(item, field);
      const lists = entriesOf(numbers, `${field}.numbers`).map(([name, one]) => {
        if (!Array.isArray(one) || one.length > MOST_NUMBERS) {
          throw new BadField(`${field}.numbers.${name}`, `must be a list of at most ${MOST_NUMBERS}`);
        }
        return [name, one.map((number, at) => asWhole(number, `${field}.numbers.${name}[${at}]`))];
      });
      return { app: asText(app, `${field}.app`), lists: Object.fromEntries(lists) as AppNumbers["lists"] };
    }),
  });
}

function entriesOf(value: unknown, field: string): [string, unknown][] {
  const entries = Object.entries(asObject(value, field));
  if (entries.length > MOST_NAMES) throw new BadField(field, `must have at most ${MOST_NAMES} names`);
  for (const [name] of entries) checkName(name, field);
  return entries;
}

function checkName(name: string, field: string): void {
  if (!NAME.test(name)) throw new BadField(field, "must have names of A–Z a–z 0–9 _ only");
}

/**
 * The lines at the end of a text: `#node name=n …`, `#numbers batch`, and `#app app name=n,n,… …` for each app.
 * @param first the number of the first line
 */
export function readNumbers(lines: string[], first: number): NodeNumbers {
  const read: NodeNumbers = { node: {}, batch: 0, apps: [] };
  lines.forEach((line, i) => {
    const field = `line ${first + i}`;
    const [kind, ...words] = line.split(" ");
    if (kind === "#node") {
      for (const [name, values] of pairs(words, field)) read.node[name] = values[0]!;
    } else if (kind === "#numbers") {
      read.batch = readWhole(words[0], "numbers.batch");
    } else if (kind === "#app") {
      const [app = "", ...own] = words;
      if (read.apps.length >= MOST_APPS) throw new BadField("numbers.apps", `must be a list of at most ${MOST_APPS}`);
      read.apps.push({ app, lists: Object.fromEntries(pairs(own, field)) });
    } else if (kind?.startsWith("#") !== true) {
      throw new BadField(field, "must begin with # like the one before it");
    }
  });
  return checked(read);
}

function pairs(words: string[], field: string): [string, number[]][] {
  if (words.length > MOST_NAMES) throw new BadField(field, `must have at most ${MOST_NAMES} names`);
  return words.map((word) => {
    const [name = "", list = ""] = word.split("=", 2);
    checkName(name, field);
    const values = list.split(",");
    if (values.length > MOST_NUMBERS)
      throw new BadField(field, `must have at most ${MOST_NUMBERS} numbers for ${name}`);
    return [name, values.map((value) => readWhole(value, `${field} ${name}`))];
  });
}

function checked(numbers: NodeNumbers): NodeNumbers {
  numbers.apps.forEach(({ app }, i) => {
    if (app === NOBODY || isIdentifier(app)) return;
    throw new BadField(`numbers.apps[${i}].app`, "must be * or 1 to 128 of A–Z a–z 0–9 . _ : -");
  });
  if (numbers.apps.length > 0 && numbers.batch < 1) throw new BadField("numbers.batch", "is missing");
  return numbers;
}

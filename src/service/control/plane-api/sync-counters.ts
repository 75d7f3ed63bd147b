/** Parses the counters in sync messages, from JSON and from plain text, and bounds their size. */
import { isIdentifier } from "../../../core/platform.js";
import { NO_APP_REPORT, type PlaneReport } from "../../metrics/reports.js";
import { asList, asObject, asText, asWhole, BadField, readWhole } from "./fields.js";

const MOST_APPS = 200;
const MOST_NAMES = 64;
const MOST_VALUES = 32;
const NAME = /^[A-Za-z0-9_]{1,64}$/;

/** The value of `numbers` in a JSON message. Throws BadField. */
export function parseCounters(value: unknown): PlaneReport {
  const { node, batch, apps } = asObject(value, "numbers");
  const gauges = entriesOf(node ?? {}, "numbers.node");
  return checked({
    node: Object.fromEntries(gauges.map(([name, one]) => [name, asWhole(one, `numbers.node.${name}`)])),
    batch: batch === undefined ? 0 : asWhole(batch, "numbers.batch"),
    apps: asList(apps ?? [], MOST_APPS, "numbers.apps").map((item, i) => {
      const field = `numbers.apps[${i}]`;
      const { app, numbers } = asObject(item, field);
      const lists = entriesOf(numbers, `${field}.numbers`).map(([name, list]) => {
        const path = `${field}.numbers.${name}`;
        return [name, asList(list, MOST_VALUES, path).map((one, at) => asWhole(one, `${path}[${at}]`))] as const;
      });
      return { app: asText(app, `${field}.app`), lists: Object.fromEntries(lists) };
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
 * The last lines of a text message: `#node name=n …`, `#numbers batch`, and `#app app name=n,n,… …` per app.
 * @param first the number of the first line
 */
export function readCounters(lines: string[], first: number): PlaneReport {
  const report: PlaneReport = { node: {}, batch: 0, apps: [] };
  lines.forEach((line, i) => {
    const field = `line ${first + i}`;
    const [kind, ...words] = line.split(" ");
    if (kind === "#node") {
      for (const [name, values] of pairs(words, field)) report.node[name] = values[0]!;
    } else if (kind === "#numbers") {
      report.batch = readWhole(words[0], "numbers.batch");
    } else if (kind === "#app") {
      const [app = "", ...own] = words;
      report.apps.push({ app, lists: Object.fromEntries(pairs(own, field)) });
      asList(report.apps, MOST_APPS, "numbers.apps");
    } else if (kind?.startsWith("#") !== true) {
      throw new BadField(field, "must begin with #, because the line before does");
    }
  });
  return checked(report);
}

function pairs(words: string[], field: string): [string, number[]][] {
  if (words.length > MOST_NAMES) throw new BadField(field, `must have at most ${MOST_NAMES} names`);
  return words.map((word) => {
    const [name = "", list = ""] = word.split("=", 2);
    checkName(name, field);
    const values = asList(list.split(","), MOST_VALUES, `${field} ${name}`) as string[];
    return [name, values.map((value) => readWhole(value, `${field} ${name}`))];
  });
}

function checked(report: PlaneReport): PlaneReport {
  report.apps.forEach(({ app }, i) => {
    if (app === NO_APP_REPORT || isIdentifier(app)) return;
    throw new BadField(`numbers.apps[${i}].app`, "must be * or 1 to 128 of A–Z a–z 0–9 . _ : -");
  });
  if (report.apps.length > 0 && report.batch < 1) throw new BadField("numbers.batch", "is missing");
  return report;
}

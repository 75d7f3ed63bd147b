/** One sample as lines of StatsD or Graphite. */
import type { PushDestination } from "../../../config/push-url.js";
import type { Sample } from "./samples.js";

/** Dots separate the parts of a name, and other characters are not portable. */
const part = (text: string) => text.replace(/[^A-Za-z0-9_-]/g, "_") || "_";
/** Separators of tags are not allowed in their values. */
const tag = (text: string) => text.replace(/[\s;|#,~\p{Cc}]/gu, "_") || "_";

function nameOf({ name, labels }: Sample, { prefix, tags }: PushDestination): string {
  const start = prefix === "" || prefix.endsWith(".") ? prefix : `${prefix}.`;
  return tags ? start + name : start + [name, ...labels.map(([, value]) => part(value))].join(".");
}

/** Not in exponential notation, which not every server reads. */
const number = (value: number) => (Number.isInteger(value) ? value.toFixed(0) : String(Number(value.toFixed(9))));

/** Counters as their growth; none without growth. */
export function statsdLines(sample: Sample, destination: PushDestination): string[] {
  const name = nameOf(sample, destination);
  const labels = sample.labels.map(([label, value]) => `${label}:${tag(value)}`);
  const tags = destination.tags && labels.length > 0 ? `|#${labels.join(",")}` : "";
  if (sample.kind === "counter") return sample.growth > 0 ? [`${name}:${number(sample.growth)}|c${tags}`] : [];
  // A gauge with a sign is a change of its value, so it is set to 0 first.
  const reset = sample.value < 0 ? [`${name}:0|g${tags}`] : [];
  return [...reset, `${name}:${number(sample.value)}|g${tags}`];
}

/** Counters with their value. */
export function graphiteLine(sample: Sample, destination: PushDestination, unixSeconds: number): string {
  const tags = destination.tags ? sample.labels.map(([label, value]) => `;${label}=${tag(value)}`).join("") : "";
  return `${nameOf(sample, destination)}${tags} ${number(sample.value)} ${unixSeconds}\n`;
}

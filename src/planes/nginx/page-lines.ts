/** Lines of a metrics page in the Prometheus text format. */
import { luaString } from "../lua/library.js";

function describeMetric(lines: string[], name: string, type: string, help: string): void {
  lines.push(`# HELP ${name} ${help}`);
  lines.push(`# TYPE ${name} ${type}`);
}

export function gauge(lines: string[], name: string, help: string): void {
  describeMetric(lines, name, "gauge", help);
}

export function counter(lines: string[], name: string, help: string): void {
  describeMetric(lines, name, "counter", help);
}

export function untyped(lines: string[], name: string, help: string): void {
  describeMetric(lines, name, "untyped", help);
}

export function histogram(lines: string[], name: string, help: string): void {
  describeMetric(lines, name, "histogram", help);
}

export function sample(lines: string[], name: string, labels: string, value: number): void {
  const series = labels === "" ? name : `${name}{${labels}}`;
  lines.push(luaString.format("%s %.17g", series, value));
}

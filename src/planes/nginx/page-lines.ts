/** Lines of a metrics page in the Prometheus text format. */
import { luaString } from "../lua/library.js";

type MetricType = "counter" | "gauge" | "histogram" | "untyped";

/** Describes a metric. The result adds its samples; the suffix is for the parts of a histogram. */
export function metric(lines: string[], type: MetricType, name: string, help: string) {
  lines.push(`# HELP ${name} ${help}`);
  lines.push(`# TYPE ${name} ${type}`);
  return (labels: string, value: number, suffix = ""): void => {
    const series = labels === "" ? name + suffix : `${name}${suffix}{${labels}}`;
    lines.push(luaString.format("%s %.17g", series, value));
  };
}

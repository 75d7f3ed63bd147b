/** Metrics of the primary process, with the names that Prometheus clients for Node.js use. */
import { readdirSync, readFileSync } from "node:fs";
import { constants, type PerformanceEntry, PerformanceObserver } from "node:perf_hooks";
import { getHeapSpaceStatistics, type HeapSpaceInfo } from "node:v8";
import { openFilesLimit } from "../../shared/open-files.js";
import { counter, gauge, histogram, type MetricDefinition, type Reading } from "./metric-definition.js";
import { headerOf, newHistogram, observe, seriesLines, type Values } from "./series.js";

type ProcessMetric = [name: string, definition: MetricDefinition, read: () => number | undefined | readonly Reading[]];

/** Node has these functions but does not document them. */
interface ActiveObjects {
  uptime(): number;
  _getActiveHandles?(): readonly object[];
  _getActiveRequests?(): readonly object[];
}

const active: ActiveObjects = process;
const startedAtSeconds = Math.round(Date.now() / 1000 - process.uptime());
const [major = "", minor = "", patch = ""] = process.version.slice(1).split(".");
const LISTING_DESCRIPTOR = 1;

/** A line of /proc/self/status in bytes; undefined on other systems than Linux. */
function statusBytes(name: string): number | undefined {
  try {
    const [, kilobytes] =
      new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(readFileSync("/proc/self/status", "latin1")) ?? [];
    return kilobytes === undefined ? undefined : Number(kilobytes) * 1024;
  } catch {
    return undefined;
  }
}

function openDescriptors(): number | undefined {
  try {
    return readdirSync("/proc/self/fd").length - LISTING_DESCRIPTOR;
  } catch {
    return undefined;
  }
}

function countByType(types: readonly string[]): Reading[] {
  const counts = new Map<string, number>();
  for (const type of types) counts.set(type, (counts.get(type) ?? 0) + 1);
  return Array.from(counts, ([type, count]) => [count, type]);
}

const classNames = (objects: readonly object[] = []) => objects.map((object) => object.constructor.name);

function ofHeapSpaces(read: (space: HeapSpaceInfo) => number): Reading[] {
  return getHeapSpaceStatistics().map((space) => [read(space), space.space_name.replace(/_space$/, "")]);
}

const seconds = (microseconds: number) => microseconds / 1e6;

const metrics: readonly ProcessMetric[] = [
  [
    "process_cpu_user_seconds_total",
    counter([], "Total user CPU time spent in seconds."),
    () => seconds(process.cpuUsage().user),
  ],
  [
    "process_cpu_system_seconds_total",
    counter([], "Total system CPU time spent in seconds."),
    () => seconds(process.cpuUsage().system),
  ],
  [
    "process_cpu_seconds_total",
    counter([], "Total user and system CPU time spent in seconds."),
    () => seconds(process.cpuUsage().user + process.cpuUsage().system),
  ],
  [
    "process_start_time_seconds",
    gauge([], "Start time of the process since unix epoch in seconds."),
    () => startedAtSeconds,
  ],
  ["process_resident_memory_bytes", gauge([], "Resident memory size in bytes."), process.memoryUsage.rss],
  ["process_virtual_memory_bytes", gauge([], "Virtual memory size in bytes."), () => statusBytes("VmSize")],
  ["process_heap_bytes", gauge([], "Process heap size in bytes."), () => statusBytes("VmData")],
  ["process_open_fds", gauge([], "Number of open file descriptors."), openDescriptors],
  ["process_max_fds", gauge([], "Maximum number of open file descriptors."), () => openFilesLimit() || undefined],
  [
    "nodejs_active_resources",
    gauge(["type"], "Number of resources that keep the event loop alive, by type."),
    () => countByType(process.getActiveResourcesInfo()),
  ],
  [
    "nodejs_active_handles",
    gauge(["type"], "Number of active libuv handles, by the name of their class."),
    () => countByType(classNames(active._getActiveHandles?.())),
  ],
  [
    "nodejs_active_requests",
    gauge(["type"], "Number of active libuv requests, by the name of their class."),
    () => countByType(classNames(active._getActiveRequests?.())),
  ],
  [
    "nodejs_heap_size_total_bytes",
    gauge([], "Process heap size from Node.js in bytes."),
    () => process.memoryUsage().heapTotal,
  ],
  [
    "nodejs_heap_size_used_bytes",
    gauge([], "Process heap size used from Node.js in bytes."),
    () => process.memoryUsage().heapUsed,
  ],
  [
    "nodejs_external_memory_bytes",
    gauge([], "Node.js external memory size in bytes."),
    () => process.memoryUsage().external,
  ],
  [
    "nodejs_heap_space_size_total_bytes",
    gauge(["space"], "Process heap space size total from Node.js in bytes."),
    () => ofHeapSpaces((space) => space.space_size),
  ],
  [
    "nodejs_heap_space_size_used_bytes",
    gauge(["space"], "Process heap space size used from Node.js in bytes."),
    () => ofHeapSpaces((space) => space.space_used_size),
  ],
  [
    "nodejs_heap_space_size_available_bytes",
    gauge(["space"], "Process heap space size available from Node.js in bytes."),
    () => ofHeapSpaces((space) => space.space_available_size),
  ],
  [
    "nodejs_version_info",
    gauge(["version", "major", "minor", "patch"], "Node.js version info."),
    () => [[1, process.version, major, minor, patch]],
  ],
];

const GC_NAME = "nodejs_gc_duration_seconds";
const gc = histogram(["kind"], "Garbage collection duration by kind, one of major, minor, incremental or weakcb.", {
  bounds: [0.001, 0.01, 0.1, 1, 2, 5],
});
const gcKinds = new Map<number, string>([
  [constants.NODE_PERFORMANCE_GC_MAJOR, "major"],
  [constants.NODE_PERFORMANCE_GC_MINOR, "minor"],
  [constants.NODE_PERFORMANCE_GC_INCREMENTAL, "incremental"],
  [constants.NODE_PERFORMANCE_GC_WEAKCB, "weakcb"],
]);

/** Measures garbage collections until it is closed. */
export function watchProcess() {
  const collections = new Map<string, Values>();
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      const kind = gcKinds.get(kindOf(entry) ?? 0);
      if (kind === undefined) continue;
      const values = collections.get(kind) ?? newHistogram(gc.bounds);
      collections.set(kind, values);
      observe(values, gc.bounds, entry.duration / 1000);
    }
  });
  observer.observe({ entryTypes: ["gc"] });

  return {
    /** Number of metrics. */
    size: metrics.length + 1,
    /** In the Prometheus text format. */
    page(): string {
      const lines = metrics.flatMap(([name, definition, read]) => {
        const found = read();
        const readings: readonly Reading[] = typeof found === "number" ? [[found]] : (found ?? []);
        const series = readings.flatMap(([value, ...labels]) => seriesLines(name, definition, labels, [value]));
        return [...headerOf(name, definition), ...series];
      });
      lines.push(...headerOf(GC_NAME, gc));
      for (const [kind, values] of collections) lines.push(...seriesLines(GC_NAME, gc, [kind], values));
      return lines.map((line) => `${line}\n`).join("");
    },
    close: () => observer.disconnect(),
  };
}

/** Not in the type declarations of Node. */
function kindOf(entry: PerformanceEntry & { detail?: { kind?: number } }): number | undefined {
  return entry.detail?.kind;
}

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

/** Undefined on other systems than Linux. */
function fromProc(read: () => number): number | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

const openDescriptors = () => fromProc(() => readdirSync("/proc/self/fd").length - LISTING_DESCRIPTOR);

function statusBytes(name: string): number | undefined {
  const line = new RegExp(`^${name}:\\s+(\\d+) kB`, "m");
  return fromProc(() => Number(line.exec(readFileSync("/proc/self/status", "latin1"))?.[1]) * 1024);
}

function countByType(types: readonly string[]): Reading[] {
  const counts = new Map<string, number>();
  for (const type of types) counts.set(type, (counts.get(type) ?? 0) + 1);
  return Array.from(counts, ([type, count]) => [count, type]);
}

/** Objects without a class, such as those of an add-on, are not counted. */
const byClass = (objects: readonly object[] = []) =>
  countByType(objects.flatMap((object) => object.constructor?.name ?? []));

const activeResources = () => countByType(process.getActiveResourcesInfo());
const nodeVersion = (): Reading[] => [[1, process.version, major, minor, patch]];

const ofHeapSpaces = (read: (space: HeapSpaceInfo) => number) => (): Reading[] =>
  getHeapSpaceStatistics().map((space) => [read(space), space.space_name.replace(/_space$/, "")]);
const spaceSizes = ofHeapSpaces((space) => space.space_size);
const usedSizes = ofHeapSpaces((space) => space.space_used_size);
const availableSizes = ofHeapSpaces((space) => space.space_available_size);

const cpuSeconds = (read: (usage: NodeJS.CpuUsage) => number) => () => read(process.cpuUsage()) / 1e6;
const memory = (read: (usage: NodeJS.MemoryUsage) => number) => () => read(process.memoryUsage());

const metrics: readonly ProcessMetric[] = [
  ["process_cpu_user_seconds_total", counter([], "User CPU time."), cpuSeconds(({ user }) => user)],
  ["process_cpu_system_seconds_total", counter([], "System CPU time."), cpuSeconds(({ system }) => system)],
  ["process_cpu_seconds_total", counter([], "CPU time."), cpuSeconds(({ user, system }) => user + system)],
  ["process_start_time_seconds", gauge([], "Unix time of the start of the process."), () => startedAtSeconds],
  ["process_resident_memory_bytes", gauge([], "Resident memory."), memory(({ rss }) => rss)],
  ["process_virtual_memory_bytes", gauge([], "Virtual memory."), () => statusBytes("VmSize")],
  ["process_heap_bytes", gauge([], "Data segment of the process."), () => statusBytes("VmData")],
  ["process_open_fds", gauge([], "Open file descriptors."), openDescriptors],
  ["process_max_fds", gauge([], "Limit of open file descriptors."), () => openFilesLimit() || undefined],
  ["nodejs_active_resources", gauge(["type"], "Resources that keep the event loop alive."), activeResources],
  ["nodejs_active_handles", gauge(["type"], "Handles of libuv."), () => byClass(active._getActiveHandles?.())],
  ["nodejs_active_requests", gauge(["type"], "Requests of libuv."), () => byClass(active._getActiveRequests?.())],
  ["nodejs_heap_size_total_bytes", gauge([], "Size of the heap."), memory(({ heapTotal }) => heapTotal)],
  ["nodejs_heap_size_used_bytes", gauge([], "Used part of the heap."), memory(({ heapUsed }) => heapUsed)],
  ["nodejs_external_memory_bytes", gauge([], "Memory outside the heap."), memory(({ external }) => external)],
  ["nodejs_heap_space_size_total_bytes", gauge(["space"], "Size of each heap space."), spaceSizes],
  ["nodejs_heap_space_size_used_bytes", gauge(["space"], "Used part of each heap space."), usedSizes],
  ["nodejs_heap_space_size_available_bytes", gauge(["space"], "Free part of each heap space."), availableSizes],
  ["nodejs_version_info", gauge(["version", "major", "minor", "patch"], "Version of Node.js."), nodeVersion],
];

const GC_NAME = "nodejs_gc_duration_seconds";
const gc = histogram(["kind"], "Duration of garbage collections.", {
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

/** The configuration of a running service: follows its sources, and never lets anything but a good one take hold. */
import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { withRetries } from "../quota/retry.js";
import { type Clock, systemClock } from "../shared/clock.js";
import { StoreError } from "../store/errors.js";
import type { Store, Unsubscribe } from "../store/store.js";
import { changedApps, restartsNeeded, settledOptions } from "./change.js";
import { watchFile } from "./file-watch.js";
import { isFromLayer, layerProblem } from "./layer.js";
import { createLayerStore, type StoredLayer } from "./layer-store.js";
import { watchLayer } from "./layer-watch.js";
import { checkConfig, deepFreeze, parseYaml, readText } from "./load.js";
import { describeProblem, type Problem } from "./problem.js";
import type { Config } from "./schema.js";
import type { Environment, Section } from "./variables.js";
import { configVersion } from "./version.js";

export type Source = "all" | "file" | "store";

export interface ReloadOrder {
  source: Source;
  /** Where options need a restart, apply the rest; and apply again what has not changed. */
  force: boolean;
}

export type ReloadResult =
  | {
      status: "reloaded" | "unchanged";
      version: string;
      previousVersion: string;
      appsAffected: number;
      restartNeeded: string[];
    }
  | { status: "refused"; problems: Problem[]; restartNeeded: string[] };

export type PutResult = ReloadResult | { status: "conflict"; revision: number };

export interface LiveConfig {
  current(): Config;
  version(): string;
  /** Milliseconds since 1970. */
  loadedAtMs(): number;
  /** Why the last reload was refused; until one from the same source is not. */
  lastError(): string | undefined;
  reload(order: ReloadOrder): Promise<ReloadResult>;
  /** Called once per change that was accepted, as soon as it holds. */
  onChange(handler: ChangeHandler): Unsubscribe;
  /** Called whenever something new was read and not accepted. */
  onRefused(handler: () => void): Unsubscribe;
  /** What stands in the store now. Rejects where the store does not answer, or what stands there is no layer. */
  layer(): Promise<StoredLayer>;
  /** Checked with all else first; then written, applied here and told to all nodes. Rejects where the store is away. */
  putLayer(config: Section, expectedRevision?: number): Promise<PutResult>;
  close(): Promise<void>;
}

/** Must not throw; what it throws is logged. */
export type ChangeHandler = (config: Config, before: Config) => void;

export interface LiveConfigOptions {
  /** What the service began with: from the file, the environment and the command line, without the store. */
  initial: Config;
  file?: string | undefined;
  /** In the place of a file, a text that never changes. */
  yaml?: string;
  env: Environment;
  /** Puts in what the command line said. */
  overrides?: (config: Config) => Config;
  store: Pick<Store, "run" | "publish" | "subscribe">;
  clusterId: string;
  node: string;
  clock?: Clock;
  log: LiveLog;
  /** Whether changes of the file are followed without being told. Default: they are. */
  watchFile?: boolean;
}

export interface LiveLog {
  debug(fields: Record<string, unknown>, message: string): void;
  info(fields: Record<string, unknown>, message: string): void;
  warn(fields: Record<string, unknown>, message: string): void;
  error(fields: Record<string, unknown>, message: string): void;
}

const NOT_READ = -1;

export function createLiveConfig(options: LiveConfigOptions): LiveConfig {
  const { initial, file, env, log, clock = systemClock, overrides = (config) => config } = options;
  const layers = createLayerStore(options.store, options.clusterId, options.node);
  const handlers = new Set<{ handler: ChangeHandler }>();
  const refusalHandlers = new Set<{ handler: () => void }>();
  /** By whose fault something was refused. */
  const errors: { file?: string; store?: string } = {};
  let current = initial;
  let loadedAtMs = Date.now();
  let text = options.yaml ?? (file === undefined ? "" : readText(file).text) ?? "";
  let parsed = parseYaml(text);
  let layer: StoredLayer = { revision: 0, config: {} };
  /** Of what stood in the store when it was last looked at, right or wrong. */
  let seenRevision = NOT_READ;
  /** What a forced reload left to the next start. */
  let waiting: Record<string, unknown> = {};
  let last: Promise<unknown> = Promise.resolve();
  let following: Source | undefined;
  let closed = false;

  /** One at a time, in the order in which they were asked for. */
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = last.then(work);
    last = result.catch(() => undefined);
    return result;
  }

  async function take({ source, force }: ReloadOrder): Promise<ReloadResult> {
    const readFile = source === "store" || file === undefined ? { text, problems: [] } : readText(file);
    if (readFile.text === undefined) return noted("file", refused(readFile.problems));
    // Somebody is about to write it: an empty file would be right, and mean all defaults.
    if (file !== undefined && readFile.text.trim() === "") {
      return noted("file", refused([{ path: file, value: "", reason: "is empty" }]));
    }
    if (source === "file") return noted("file", accept(readFile.text, layer, force));
    try {
      const read = await layers.read();
      seenRevision = read.revision;
      if ("problems" in read) return noted("store", refused(read.problems));
      return noted(source, accept(readFile.text, read.layer, force));
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      if (source === "store") return noted("store", refused([layerProblem(`cannot be read: ${error.message}`)]));
      log.warn({ err: error, revision: layer.revision }, "the store does not answer: its last known layer holds");
      return noted("file", accept(readFile.text, layer, force));
    }
  }

  /** Either all of it takes hold, or nothing. */
  function accept(newText: string, newLayer: StoredLayer, force: boolean): ReloadResult {
    const newParsed = newText === text ? parsed : parseYaml(newText);
    const loaded = checkConfig(newParsed, env, newLayer.config);
    if (loaded.config === undefined) return refused(loaded.problems);
    const wanted = overrides(loaded.config);
    const restarts = restartsNeeded(wanted, current, waiting);
    if (restarts.problems.length > 0 && !force) return refused(restarts.problems, restarts.options);
    text = newText;
    parsed = newParsed;
    layer = newLayer;
    waiting = restarts.waiting;
    const restartNeeded = gatewayMissing(wanted) ? [...restarts.options, "routes"] : restarts.options;
    const next = settledOptions(wanted, current, restarts.options);
    const before = current;
    const previousVersion = configVersion(before);
    if (isDeepStrictEqual(next, before) && !force) {
      return { status: "unchanged", version: previousVersion, previousVersion, appsAffected: 0, restartNeeded };
    }
    current = deepFreeze(next);
    loadedAtMs = Date.now();
    tellHandlers(before);
    const version = configVersion(current);
    return { status: "reloaded", version, previousVersion, appsAffected: changedApps(current, before), restartNeeded };
  }

  /** Whether there is a gateway at all is decided at the start. */
  const gatewayMissing = (wanted: Config) => initial.routes.length === 0 && wanted.routes.length > 0;

  function tellHandlers(before: Config): void {
    for (const { handler } of [...handlers]) {
      try {
        handler(current, before);
      } catch (error) {
        log.error({ err: error }, "a change of the configuration was not taken up");
      }
    }
  }

  /** `source` is what was really read. */
  function noted(source: Source, result: ReloadResult): ReloadResult {
    if (result.status === "refused") {
      const byLayer = result.problems.filter((problem) => source === "store" || isFromLayer(problem));
      const byFile = result.problems.filter((problem) => !byLayer.includes(problem));
      if (source === "file") errors.file = sentences(result.problems);
      else if (byLayer.length > 0) errors.store = sentences(byLayer);
      if (source === "all" && byFile.length > 0) errors.file = sentences(byFile);
      log.error(
        { source, problems: result.problems.map(describeProblem) },
        "the configuration is not right: nothing changed",
      );
      for (const { handler } of [...refusalHandlers]) handler();
      return result;
    }
    if (source !== "store") delete errors.file;
    if (source !== "file") delete errors.store;
    // With another file, what the store says may be right now.
    else if (errors.store !== undefined) seenRevision = NOT_READ;
    if (result.status === "unchanged") return result;
    const { version, previousVersion, appsAffected, restartNeeded } = result;
    log.info({ source, version, previousVersion, appsAffected, restartNeeded }, "the configuration changed");
    return result;
  }

  async function announce(): Promise<void> {
    try {
      await layers.publish(configVersion(current));
    } catch (error) {
      log.warn({ err: error }, "other nodes were not told of the change: they look for it by themselves");
    }
  }

  async function reloadByHand(order: ReloadOrder): Promise<ReloadResult> {
    const result = await take(order);
    if (result.status === "reloaded") await announce();
    return result;
  }

  /** Somebody else changed something. Many hints while one waits for its turn are one. */
  function follow(source: "all" | "store"): void {
    if (closed) return;
    const queued = following !== undefined;
    following = following === "all" ? "all" : source;
    if (queued) return;
    unasked(async () => {
      const wanted = following ?? source;
      following = undefined;
      const result = await take({ source: wanted, force: false });
      // A file that is being edited does not keep the store's word from holding.
      const byFile = result.status === "refused" && !result.problems.every(isFromLayer);
      if (byFile && wanted === "all") await take({ source: "store", force: false });
    });
  }

  /** In turn like all else, but nobody waits for it. */
  function unasked(work: () => Promise<unknown>): void {
    inTurn(async () => (closed ? undefined : work())).catch((error: unknown) =>
      log.error({ err: error }, "a change of the configuration was not followed"),
    );
  }

  const leaveFile =
    file === undefined || options.watchFile === false
      ? undefined
      : watchFile({
          ...{ file, clock },
          changed: () => unasked(() => reloadByHand({ source: "file", force: false })),
        });
  const leaveStore = watchLayer({
    ...{ layers, clock, log },
    seenRevision: () => seenRevision,
    changed: () => follow("store"),
    told: () => follow("all"),
  });

  return {
    current: () => current,
    version: () => configVersion(current),
    loadedAtMs: () => loadedAtMs,
    lastError: () => (errors.file ?? errors.store) && [errors.file, errors.store].filter(Boolean).join("; "),
    reload: (order) => inTurn(() => reloadByHand(order)),

    onChange(handler) {
      const entry = { handler };
      handlers.add(entry);
      return () => void handlers.delete(entry);
    },

    onRefused(handler) {
      const entry = { handler };
      refusalHandlers.add(entry);
      return () => void refusalHandlers.delete(entry);
    },

    async layer() {
      const read = await layers.read();
      if ("problems" in read) throw new Error(sentences(read.problems));
      return read.layer;
    },

    putLayer: (config, expectedRevision) =>
      inTurn(async () => {
        const { problems } = layers.faults(config) ?? checkConfig(parsed, env, config);
        if (problems.length > 0) return refused(problems);
        const operation = randomUUID();
        const write = () => layers.write(config, expectedRevision, operation);
        const { written, revision } = await withRetries(clock, () => closed, write);
        if (!written) return { status: "conflict", revision } as const;
        seenRevision = revision;
        const result = noted("store", accept(text, { revision, config }, false));
        // Also where nothing changed here: on other nodes it may.
        await announce();
        return result;
      }),

    async close() {
      closed = true;
      leaveStore();
      leaveFile?.();
      await last;
    },
  };
}

function refused(problems: Problem[], restartNeeded: string[] = []): ReloadResult {
  return { status: "refused", problems, restartNeeded };
}

const sentences = (problems: Problem[]) => problems.map(describeProblem).join("; ");

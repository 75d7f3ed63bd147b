/** The configuration of a running service: follows file and store, and applies only valid configurations. */
import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { withRetries } from "../../quota/retry.js";
import { type Clock, systemClock } from "../../shared/clock.js";
import { watchFile } from "../../shared/file-watch.js";
import type { Log } from "../../shared/log.js";
import { StoreError } from "../../store/errors.js";
import type { Store, Unsubscribe } from "../../store/store.js";
import { credentialProblems } from "../credentials.js";
import { isFromLayer, layerProblem } from "../layer.js";
import { deepFreeze, hasOptions, type Loaded, readText } from "../load.js";
import { describeProblem, type Problem } from "../problem.js";
import type { Config } from "../schema.js";
import { tlsFileProblems } from "../tls-files.js";
import type { Environment, Section } from "../variables.js";
import { configVersion } from "../version.js";
import {
  applicable,
  changedApps,
  changedLimits,
  removalProblems,
  restartsNeeded,
  truncationProblems,
} from "./change.js";
import { comparisonEnvironment, type EffectiveOption, effectiveOptions } from "./effective.js";
import { createLayerStore, type StoredLayer } from "./layer-store.js";
import { readLargeConfig } from "./read-large.js";

export type Source = "all" | "file" | "store";

export interface ReloadOrder {
  source: Source;
  /** Apply all changes that need no restart, and apply an unchanged configuration again. */
  force: boolean;
  /** Apply it also if most apps, routes or limits are removed, or if the store has lost the layer. */
  confirm?: boolean;
}

export type ReloadResult =
  | {
      status: "reloaded" | "unchanged";
      version: string;
      previousVersion: string;
      appsAffected: number;
      limitsAffected: number;
      restartNeeded: string[];
    }
  | {
      status: "refused";
      problems: Problem[];
      restartNeeded: string[];
      /** The configuration is valid, and `confirm` applies it. */
      needsConfirmation?: boolean;
    };

export type PutResult = ReloadResult | { status: "conflict"; revision: number };

export interface LiveConfig {
  current(): Config;
  version(): string;
  /** Unix time in milliseconds. */
  loadedAtMs(): number;
  /** Why the last reload was rejected, until one from the same source succeeds. */
  lastError(): string | undefined;
  reload(order: ReloadOrder): Promise<ReloadResult>;
  /** Called after each change. */
  onChange(handler: ChangeHandler): Unsubscribe;
  /** Called after each rejected configuration. */
  onRefused(handler: () => void): Unsubscribe;
  /** The stored layer. Rejects if the store does not answer or the layer is invalid. */
  layer(): Promise<StoredLayer>;
  /** The layer in force here: not that in the store after the store was emptied. */
  activeLayer(): StoredLayer;
  /** Validates the resulting configuration, then writes and applies the layer and notifies other nodes. */
  putLayer(config: Section, expectedRevision?: number): Promise<PutResult>;
  /** All options with the layer that they come from. */
  effective(): EffectiveOption[];
  /** Reads another file as if it replaced the current one, without applying it. */
  tryFile(yaml: string): Promise<Loaded & { options: EffectiveOption[] }>;
  close(): Promise<void>;
}

/** Must not throw; errors are logged. */
export type ChangeHandler = (config: Config, before: Config) => void;

export interface LiveConfigOptions {
  /** From the file, the environment and the command line, without the store layer. */
  initial: Config;
  /** The text that `initial` was read from. */
  yaml: string;
  /** Where to read the text again. Without a file it does not change. */
  file?: string | undefined;
  env: Environment;
  /** Applies the command-line options. */
  overrides?: ((config: Config) => Config) | undefined;
  /** Names of the options that were given on the command line. */
  commandLine?: readonly string[] | undefined;
  store: Pick<Store, "run" | "publish" | "subscribe">;
  clusterId: string;
  node: string;
  clock?: Clock;
  log: Log;
  /** Whether to watch the file. Default true. */
  watchFile?: boolean;
}

const NOT_READ = -1;
const LOST =
  "is gone from the store, which was emptied; the last known layer stays in force here. tollgate config restore writes it " +
  "back; tollgate reload --source store --confirm removes it";

type Confirmation = Required<Omit<ReloadOrder, "source">>;

/** What an operator writes is not confirmed again. */
const CONFIRMED: Confirmation = { force: false, confirm: true };

export function createLiveConfig(options: LiveConfigOptions): LiveConfig {
  const { file, env, log, clock = systemClock, overrides = (config) => config } = options;
  const layers = createLayerStore(options.store, options.clusterId, options.node);
  const handlers = new Set<ChangeHandler>();
  const refusalHandlers = new Set<() => void>();
  /** Errors of rejected configurations, by source. */
  const errors: { file?: string; store?: string } = {};
  let current = options.initial;
  const hasGateway = current.routes.length > 0;
  let loadedAtMs = Date.now();
  let text = options.yaml;
  let layer: StoredLayer = { revision: 0, config: {} };
  /** The last revision that was read, valid or not. */
  let seenRevision = NOT_READ;
  /** Values that a forced reload deferred to the next start. */
  let waiting: Record<string, unknown> = {};
  /** Options whose new values apply after a restart. */
  let restartNeeded: string[] = [];
  let last: Promise<unknown> = Promise.resolve();
  let following: Source | undefined;
  let closed = false;

  /** Runs one task at a time, in order. */
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = last.then(work);
    last = result.catch(() => undefined);
    return result;
  }

  async function take({ source, force, confirm = false }: ReloadOrder): Promise<ReloadResult> {
    const how = { force, confirm };
    const readFile = source === "store" || file === undefined ? { text, problems: [] } : readText(file);
    if (readFile.text === undefined) return recorded("file", refused(readFile.problems));
    // Truncated to the comment at its beginning.
    if (file !== undefined && !hasOptions(readFile.text) && hasOptions(text)) {
      return recorded("file", refused([{ path: file, value: "", reason: "is empty" }]));
    }
    if (source === "file") return recorded("file", await accept(readFile.text, layer, how));
    try {
      const read = await layers.read();
      seenRevision = read.revision;
      if ("problems" in read) return recorded("store", refused(read.problems));
      if (isLost(read.layer) && !confirm) {
        const lost = recorded("store", { ...refused([layerProblem(LOST)]), needsConfirmation: true });
        return source === "store" ? lost : recorded("file", await accept(readFile.text, layer, how));
      }
      return recorded(source, await accept(readFile.text, read.layer, how));
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      log.warn({ err: error, revision: layer.revision }, "the store is not available: keeping the last known layer");
      // No error of the configuration, so that nothing is recorded.
      if (source === "store") return refused([layerProblem(`cannot be read: ${error.message}`)]);
      return recorded("file", await accept(readFile.text, layer, how));
    }
  }

  /** Whether the store has no layer any more, although nobody removed it: that would be another revision. */
  function isLost({ revision, config }: StoredLayer): boolean {
    const isEmpty = revision === 0 && Object.keys(config).length === 0;
    return isEmpty && layer.revision > 0 && Object.keys(layer.config).length > 0;
  }

  /** Applies the whole configuration or nothing. `valid`: it has been read already. */
  async function accept(
    newText: string,
    newLayer: StoredLayer,
    how: Confirmation,
    valid?: Loaded,
  ): Promise<ReloadResult> {
    const { force, confirm } = how;
    const before = current;
    const previousVersion = configVersion(before);
    const none = { appsAffected: 0, limitsAffected: 0 };
    const unchanged = () =>
      ({ status: "unchanged", version: previousVersion, previousVersion, ...none, restartNeeded }) as const;
    if (!force && newText === text && isDeepStrictEqual(newLayer.config, layer.config)) {
      layer = newLayer;
      return unchanged();
    }
    const loaded = valid ?? (await readLargeConfig(newText, env, newLayer.config));
    if (loaded.config === undefined) return refused(loaded.problems);
    const wanted = overrides(loaded.config);
    const restarts = restartsNeeded(wanted, current, waiting);
    if (restarts.problems.length > 0 && !force) return refused(restarts.problems, restarts.options);
    const problems = [...credentialProblems(wanted), ...tlsFileProblems(wanted, before)];
    if (problems.length > 0) return refused(problems);
    // A layer is written by an operator; a file can be truncated.
    const removals = confirm || newText === text ? [] : removalProblems(wanted, before);
    if (!confirm && removals.length === 0) removals.push(...truncationProblems(newText, text));
    if (removals.length > 0) return { ...refused(removals), needsConfirmation: true };
    text = newText;
    layer = newLayer;
    waiting = restarts.waiting;
    restartNeeded = gatewayMissing(wanted) ? [...restarts.options, "routes"] : restarts.options;
    const next = applicable(wanted, current, restarts.options);
    if (isDeepStrictEqual(next, before) && !force) return unchanged();
    current = deepFreeze(next);
    loadedAtMs = Date.now();
    callHandlers(before);
    const version = configVersion(current);
    const affected = { appsAffected: changedApps(current, before), limitsAffected: changedLimits(current, before) };
    return { status: "reloaded", version, previousVersion, ...affected, restartNeeded };
  }

  /** Workers are started at the start only. */
  const gatewayMissing = (wanted: Config) => !hasGateway && wanted.routes.length > 0;

  function callHandlers(before: Config): void {
    for (const handler of [...handlers]) {
      try {
        handler(current, before);
      } catch (error) {
        log.error({ err: error }, "a configuration change handler failed");
      }
    }
  }

  /** Records and logs a result. `source`: what was actually read. */
  function recorded(source: Source, result: ReloadResult): ReloadResult {
    if (result.status === "refused") {
      const byLayer = result.problems.filter((problem) => source === "store" || isFromLayer(problem));
      const byFile = result.problems.filter((problem) => !byLayer.includes(problem));
      if (source === "file") errors.file = sentences(result.problems);
      else if (byLayer.length > 0) errors.store = sentences(byLayer);
      if (source === "all" && byFile.length > 0) errors.file = sentences(byFile);
      const problems = result.problems.map(describeProblem);
      if (result.needsConfirmation === true) log.error({ source, problems }, "configuration not applied: confirm it");
      else log.error({ source, problems }, "invalid configuration: nothing changed");
      for (const handler of [...refusalHandlers]) handler();
      return result;
    }
    if (source !== "store") delete errors.file;
    if (source !== "file") delete errors.store;
    // With another file the stored layer may be valid now: read it again.
    else if (errors.store !== undefined) seenRevision = NOT_READ;
    if (result.status === "unchanged") return result;
    const { status: _, ...facts } = result;
    log.info({ source, ...facts }, "configuration changed");
    return result;
  }

  async function announce(): Promise<void> {
    try {
      await layers.publish(configVersion(current));
    } catch (error) {
      log.warn({ err: error }, "other nodes were not notified of the change: they will detect it by polling");
    }
  }

  async function reloadAndAnnounce(order: ReloadOrder): Promise<ReloadResult> {
    const result = await take(order);
    if (result.status === "reloaded") await announce();
    return result;
  }

  /** Reloads after a change elsewhere. Several notifications during a pending reload are combined. */
  function follow(source: "all" | "store"): void {
    if (closed) return;
    const queued = following !== undefined;
    following = following === "all" ? "all" : source;
    if (queued) return;
    inBackground(async () => {
      const wanted = following ?? source;
      following = undefined;
      const result = await take({ source: wanted, force: false });
      // An invalid file must not prevent a valid layer from being applied.
      const byFile = result.status === "refused" && !result.problems.every(isFromLayer);
      if (byFile && wanted === "all") await take({ source: "store", force: false });
    });
  }

  /** Like inTurn, but errors are logged. */
  function inBackground(work: () => Promise<unknown>): void {
    inTurn(async () => (closed ? undefined : work())).catch((error: unknown) =>
      log.error({ err: error }, "a configuration change was not applied"),
    );
  }

  const leaveFile =
    file === undefined || options.watchFile === false
      ? undefined
      : watchFile(file, clock, () => inBackground(() => reloadAndAnnounce({ source: "file", force: false })));
  const leaveStore = layers.watch({
    clock,
    log,
    seenRevision: () => seenRevision,
    changed: () => follow("store"),
    notified: () => follow("all"),
  });

  function optionsOf(config: Config, yaml: string): EffectiveOption[] {
    return effectiveOptions({ config, yaml, layer: layer.config, env, commandLine: options.commandLine ?? [] });
  }

  return {
    current: () => current,
    version: () => configVersion(current),
    loadedAtMs: () => loadedAtMs,
    lastError: () => (errors.file ?? errors.store) && [errors.file, errors.store].filter(Boolean).join("; "),
    reload: (order) => inTurn(() => reloadAndAnnounce(order)),

    onChange(handler) {
      handlers.add(handler);
      return () => void handlers.delete(handler);
    },

    onRefused(handler) {
      refusalHandlers.add(handler);
      return () => void refusalHandlers.delete(handler);
    },

    async layer() {
      const read = await layers.read();
      if ("problems" in read) throw new Error(sentences(read.problems));
      return read.layer;
    },

    activeLayer: () => layer,

    putLayer: (config, expectedRevision) =>
      inTurn(async () => {
        const faults = layers.faults(config);
        if (faults !== undefined) return refused(faults.problems);
        const loaded = await readLargeConfig(text, env, config);
        if (loaded.problems.length > 0) return refused(loaded.problems);
        const operation = randomUUID();
        const write = () => layers.write(config, expectedRevision, operation);
        const { written, revision } = await withRetries(clock, () => closed, write);
        if (!written) return { status: "conflict", revision } as const;
        seenRevision = revision;
        const result = recorded("store", await accept(text, { revision, config }, CONFIRMED, loaded));
        // Also if nothing changed here: other nodes may have other files.
        await announce();
        return result;
      }),

    effective: () => optionsOf(current, text),

    async tryFile(yaml) {
      const loaded = await readLargeConfig(yaml, comparisonEnvironment(text, env), layer.config);
      if (loaded.config === undefined) return { ...loaded, options: [] };
      const config = overrides(loaded.config);
      return { config, problems: [], options: optionsOf(config, yaml) };
    },

    async close() {
      closed = true;
      leaveStore();
      leaveFile?.();
      await last;
    },
  };
}

function refused(problems: Problem[], restartNeeded: string[] = []): Extract<ReloadResult, { status: "refused" }> {
  return { status: "refused", problems, restartNeeded };
}

const sentences = (problems: Problem[]) => problems.map(describeProblem).join("; ");

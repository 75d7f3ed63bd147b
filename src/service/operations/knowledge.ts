/** What several operations need to know: the workers' reports, the store's facts, the time, the level. */
import type { Config } from "../../config/schema.js";
import type { NodeReport } from "../metrics/reports.js";
import { ifAnswered } from "./deadline.js";
import type { OperationsDeps } from "./operations.js";
import { type AskStore, createStoreFacts } from "./store-facts.js";

export interface Knowledge {
  deps: OperationsDeps;
  store: AskStore;
  /** Of the workers that answer in time. */
  reports(): Promise<NodeReport[]>;
  /** The highest level that anybody here goes by. */
  level(reports: readonly NodeReport[]): number;
  /** The bytes of the configuration in force, written out. */
  configBytes(): number;
  /** Milliseconds since 1970. */
  now(): number;
  timestamp(): string;
  uptimeSeconds(): number;
}

export function createKnowledge(deps: OperationsDeps): Knowledge {
  const now = deps.wallClock ?? Date.now;
  const begun = performance.now();
  let measured: { config: Config; bytes: number } | undefined;
  return {
    deps,
    store: createStoreFacts(deps.store),
    now,
    timestamp: () => new Date(now()).toISOString(),
    uptimeSeconds: () => Math.round((performance.now() - begun) / 100) / 10,
    reports: async () => (await ifAnswered(deps.ask({ kind: "report" }))) ?? [],
    level(reports) {
      const pinned = deps.pin.current();
      if (pinned !== undefined) return pinned.level;
      return reports.length === 0 ? deps.serviceLevel() : Math.max(...reports.map(({ level }) => level));
    },
    configBytes() {
      const config = deps.live.current();
      if (measured?.config !== config) measured = { config, bytes: Buffer.byteLength(JSON.stringify(config)) };
      return measured.bytes;
    },
  };
}

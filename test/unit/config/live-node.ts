/** A live configuration in a temporary directory, with its log lines. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLiveConfig, type LiveConfig, type LiveConfigOptions } from "../../../src/config/live/live.js";
import { readConfig } from "../../../src/config/load.js";
import { describeProblem } from "../../../src/config/problem.js";
import type { Config } from "../../../src/config/schema.js";
import type { Store } from "../../../src/store/store.js";

export const CLUSTER = "live-01";

export interface LiveNode {
  live: LiveConfig;
  file: string;
  folder: string;
  /** Puts another text into the file, in place. */
  write(yaml: string): void;
  /** Level and message of all that was logged, and the fields as JSON. */
  logged: string[];
  /** Calls of the handlers, newest last. */
  changes: { config: Config; before: Config }[];
}

export interface LiveNodes {
  /** Kept when it listens and has taken up what it found. */
  start(options: StartOptions): Promise<LiveNode>;
  /** Ends all that were started and removes their files. */
  close(): Promise<void>;
}

export interface StartOptions extends Partial<Omit<LiveConfigOptions, "store">> {
  yaml?: string;
  store: Pick<Store, "run" | "publish" | "subscribe">;
}

/** The file is watched only where a test says so: it tells the node when to read it. */
export function liveNodes(): LiveNodes {
  const open: LiveNode[] = [];
  let count = 0;
  return {
    async start({ yaml = "", env = {}, overrides = (config) => config, ...options }) {
      const folder = mkdtempSync(join(tmpdir(), "tollgate-live-"));
      const file = join(folder, "gateway.yaml");
      const logged: string[] = [];
      const changes: LiveNode["changes"] = [];
      const write = (text: string) => writeFileSync(file, text);
      const line = (level: string) => (fields: Record<string, unknown>, message: string) =>
        void logged.push(`${level} ${message} ${JSON.stringify(fields)}`);
      write(`# a node\n${yaml}`);
      const live = createLiveConfig({
        initial: overrides(good(yaml, env)),
        ...{ yaml, file, env, overrides, clusterId: CLUSTER, node: `n${++count}`, watchFile: false },
        log: { debug: line("debug"), info: line("info"), warn: line("warn"), error: line("error") },
        ...options,
      });
      live.onChange((config, before) => changes.push({ config, before }));
      const node = { live, file, folder, write, logged, changes };
      open.push(node);
      await new Promise(setImmediate);
      await live.reload({ source: "all", force: false });
      return node;
    },
    async close() {
      for (const { live, folder } of open.splice(0)) {
        await live.close();
        rmSync(folder, { recursive: true, force: true });
      }
    },
  };
}

/** A configuration in which nothing is wrong. */
export function good(yaml: string, env: Record<string, string | undefined> = {}): Config {
  const { config, problems } = readConfig(yaml, env);
  if (config === undefined) throw new Error(problems.map(describeProblem).join("\n"));
  return config;
}

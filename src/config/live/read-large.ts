/** Reads a large configuration in a thread: the process keeps running, and the memory of the parser is freed with the thread. */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { deepFreeze, type Loaded, readConfig } from "../load.js";
import type { Environment, Section } from "../variables.js";

export interface ReadInput {
  yaml: string;
  env: Environment;
  layer: Section;
}

/** About a thousand apps. */
const LARGE_BYTES = 64 * 1024;
/** Threads cannot run the sources, only what is built from them. */
const isBuilt = !import.meta.url.endsWith(".ts");

/** The same result as `readConfig`. */
export async function readLargeConfig(yaml: string, env: Environment, layer: Section = {}): Promise<Loaded> {
  if (yaml.length < LARGE_BYTES || !isBuilt) return readConfig(yaml, env, layer);
  const input: ReadInput = { yaml, env: { ...env }, layer };
  const thread = new Worker(new URL("read-thread.js", import.meta.url), { workerData: input });
  const [loaded] = (await once(thread, "message")) as [Loaded];
  return deepFreeze(loaded);
}

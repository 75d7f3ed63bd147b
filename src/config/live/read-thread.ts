/** The thread of `read-large.ts`: reads one configuration and ends. */
import { parentPort, workerData } from "node:worker_threads";
import { readConfig } from "../load.js";
import type { ReadInput } from "./read-large.js";

const { yaml, env, layer } = workerData as ReadInput;
parentPort?.postMessage(readConfig(yaml, env, layer));

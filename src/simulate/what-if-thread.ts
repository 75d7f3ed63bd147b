/** The thread of `what-if.ts`: simulates two configurations and ends. */
import { parentPort, workerData } from "node:worker_threads";
import { simulateBoth, type WhatIfInput } from "./what-if.js";

parentPort?.postMessage(await simulateBoth(workerData as WhatIfInput));

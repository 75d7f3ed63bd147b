/** The functions that Envoy's module calls, in the Lua states of the main thread and of the workers. */
import type { EnvoyOptions } from "../../config/options/plane-options.js";
import { luaMath, luaString } from "../lua/library.js";
import { processId } from "../lua/node-name.js";
import { leaveEnvoy, retire, startMainThread, woken } from "./main-thread/main-thread.js";
import { replied } from "./main-thread/service-calls.js";
import { envoy } from "./module-state.js";
import { tickWorker } from "./worker/host.js";
import { onLate } from "./worker/upgrade.js";
import { onBytes, onEnd, onRequest, onResponse, startWorker } from "./worker/worker.js";

interface File {
  read(bytes: number): string;
  close(): void;
}

/** Rendered before the script, in the same file. */
declare const tollgateOptions: EnvoyOptions;
/** The module calls the global functions whose names begin with `tollgate`. */
declare const _G: {
  readonly io: { open(this: void, path: string, mode: "rb"): File | undefined };
  tollgate_main: (this: void) => void;
  tollgate_worker: (this: void) => void;
  tollgate_request: typeof onRequest;
  tollgate_response: typeof onResponse;
  tollgate_late: typeof onLate;
  tollgate_bytes: typeof onBytes;
  tollgate_end: typeof onEnd;
  tollgate_tick: typeof tickWorker;
  tollgate_wake: typeof woken;
  tollgate_replied: typeof replied;
  tollgate_retire: typeof retire;
  tollgate_leave: typeof leaveEnvoy;
};

function randomSuffix(): string {
  return luaString.format("%04x%04x", luaMath.random(0, 65535), luaMath.random(0, 65535));
}

/** Workers start at the same moment: the time alone would give all of them the same seed. */
function seedRandom(): void {
  const source = _G.io.open("/dev/urandom", "rb");
  let seed = processId();
  if (source !== undefined) {
    const bytes = source.read(4);
    source.close();
    for (let i = 1; i <= 4; i++) seed = seed * 256 + luaString.byte(bytes, i);
  }
  luaMath.randomseed(seed);
}

function prepare(): void {
  envoy.options = tollgateOptions;
  seedRandom();
  // During a hot restart two processes run. The first Lua state names the node; the others read the name from memory.
  envoy.options.node = `${tollgateOptions.node}-${randomSuffix()}`;
}

_G.tollgate_main = () => {
  prepare();
  startMainThread();
};
_G.tollgate_worker = () => {
  prepare();
  startWorker();
};
_G.tollgate_request = onRequest;
_G.tollgate_response = onResponse;
_G.tollgate_late = onLate;
_G.tollgate_bytes = onBytes;
_G.tollgate_end = onEnd;
_G.tollgate_tick = tickWorker;
_G.tollgate_wake = woken;
_G.tollgate_replied = replied;
_G.tollgate_retire = retire;
_G.tollgate_leave = leaveEnvoy;

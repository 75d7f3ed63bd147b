/** Makes a worker a node: with the first request that it gets, since Envoy also loads the script where none will come. */

import type { EnvoyOptions } from "../../config/options/plane-options.js";
import { luaMath, luaString } from "../lua/library.js";
import { nowMs, prepareClock } from "./clock.js";
import { ffi, io } from "./envoy-api.js";
import { newEpoch } from "./epoch.js";
import { prepareHeaders } from "./http/response.js";
import { startSockets } from "./sockets/state.js";
import { freshDegradation, newEnvoyAccount, worker } from "./state.js";

export function begin(settings: EnvoyOptions): void {
  prepareClock();
  seedRandom();
  const now = nowMs();
  worker.settings = settings;
  worker.apps = {};
  worker.everyone = [];
  worker.touched = [];
  for (const limits of settings.apps) {
    const app = newEnvoyAccount(limits, settings, now);
    worker.apps[limits.id] = app;
    worker.everyone.push(app);
  }
  worker.name = `${settings.node === "" ? hostName() : settings.node}-${ownLetters()}`;
  worker.epoch = newEpoch(0);
  worker.seq = 0;
  worker.syncingUntil = 0;
  worker.syncing = 0;
  worker.lastContact = 0;
  worker.sinceContact = 0;
  worker.lookAt = 0;
  worker.failuresInARow = 0;
  worker.retryAt = 0;
  worker.liveNodes = 1;
  worker.emergency = false;
  worker.configVersion = "-";
  worker.degradation = freshDegradation();
  worker.level = 0;
  prepareHeaders(settings.headers);
  startSockets(settings.socketRoutes, worker.name, settings.workers);
  worker.begun = true;
}

/** Workers begin in the same moment: the time alone would give them all the same numbers. */
function seedRandom(): void {
  const source = io.open("/dev/urandom", "rb");
  let seed = nowMs() + ffi.C.getpid();
  if (source !== undefined) {
    const bytes = source.read(4);
    source.close();
    for (let i = 1; i <= 4; i++) seed = seed * 256 + luaString.byte(bytes, i);
  }
  luaMath.randomseed(seed);
}

function hostName(): string {
  const size = 256;
  const name = ffi.new("char[?]", size);
  ffi.C.gethostname(name, size - 1);
  const host = luaString.gsub(luaString.sub(ffi.string(name), 1, 80), "[^A-Za-z0-9._-]", "-");
  return (host === "" ? "envoy" : host) + luaString.format("-%d", ffi.C.getpid());
}

/** Tells the workers of one Envoy apart, and those of one that was started again. */
function ownLetters(): string {
  return luaString.format("%04x%04x", luaMath.random(0, 65535), luaMath.random(0, 65535));
}

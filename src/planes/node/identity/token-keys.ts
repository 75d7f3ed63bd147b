/** The public keys of JSON Web Tokens: read from a file or URL, and again at an interval. Keys that were read stay in use. */
import { readFile } from "node:fs/promises";
import { createLocalJWKSet, type JSONWebKeySet, type JWTVerifyGetKey } from "jose";
import type { TokenOptions } from "../../../config/options/limiter.js";
import { type Clock, systemClock } from "../../../shared/clock.js";
import { parseKeySet } from "../../../shared/key-set.js";
import type { Log } from "../../../shared/log.js";

export interface TokenKeys {
  /** Undefined until the keys were read for the first time. */
  current(): JWTVerifyGetKey | undefined;
  /** Changes with the keys. */
  version(): number;
  /** Reads the keys again, unless that was done a moment ago. Resolves when it is done; never rejects. */
  refresh(): Promise<void>;
  close(): void;
}

export interface TokenKeysOptions extends Pick<TokenOptions, "keys" | "refreshMs"> {
  log: Pick<Log, "info" | "error" | "warn">;
  clock?: Clock;
}

const TIMEOUT_MS = 5_000;
const MAX_BYTES = 1_048_576;
/** After a failure, or for a token with an unknown key, the keys are read again after this time at the earliest. */
const PAUSE_MS = 5_000;

export function createTokenKeys({ keys, refreshMs, log, clock = systemClock }: TokenKeysOptions): TokenKeys {
  const source = "file" in keys ? keys.file : keys.url;
  let set: JWTVerifyGetKey | undefined;
  let text = "";
  let version = 0;
  let failing = false;
  let readAt = Number.NEGATIVE_INFINITY;
  let reading: Promise<void> | undefined;
  let closed = false;
  let stopTimer: (() => void) | undefined;

  async function read(): Promise<void> {
    readAt = clock.now();
    try {
      const found = "file" in keys ? await readFile(keys.file, "utf8") : await fetchText(keys.url);
      if (found !== text) {
        set = createLocalJWKSet(parseKeySet(found) as unknown as JSONWebKeySet);
        text = found;
        version++;
      }
      if (failing) log.info({ source }, "the keys of tokens can be read again");
      failing = false;
    } catch (error) {
      const fields = { source, reason: reasonOf(error) };
      if (set === undefined) log.error(fields, "cannot read the keys of tokens: requests with a token get 503");
      else if (!failing) log.warn(fields, "cannot read the keys of tokens: the last ones stay in use");
      failing = true;
    }
    stopTimer?.();
    if (!closed) stopTimer = clock.after(failing ? Math.min(PAUSE_MS, refreshMs) : refreshMs, () => void start());
  }

  function start(): Promise<void> {
    reading ??= read().finally(() => {
      reading = undefined;
    });
    return reading;
  }

  void start();
  return {
    current: () => set,
    version: () => version,
    refresh: async () => {
      if (reading !== undefined) await reading;
      else if (!closed && clock.now() - readAt >= PAUSE_MS) await start();
    },
    close() {
      closed = true;
      stopTimer?.();
    },
  };
}

async function fetchText(url: string): Promise<string> {
  const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS), redirect: "error" });
  if (!response.ok) {
    await response.body?.cancel();
    throw new Error(`status ${response.status}`);
  }
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of response.body ?? []) {
    bytes += part.length;
    if (bytes > MAX_BYTES) throw new Error(`has more than ${MAX_BYTES} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
}

/** Without control characters. A failed fetch has the reason in its cause. */
function reasonOf(error: unknown): string {
  const { message, cause } = error as { message?: string; cause?: { message?: string } };
  return `${message ?? error}${cause?.message === undefined ? "" : `: ${cause.message}`}`.replace(/\p{Cc}/gu, " ");
}

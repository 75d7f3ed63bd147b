/** Loads the function library on servers, explains why one cannot run it, and lists and removes versions for operators. */
import type { Redis } from "ioredis";
import { StoreError } from "../errors.js";
import type { FunctionLibrary } from "../function-library.js";
import { functionName } from "../function-names.js";
import { type Client, type ClientOptions, createClient, disconnect, primaries } from "./client.js";
import { createGate } from "./gate.js";
import { nameOf } from "./inspect.js";
import { classify, isFunctionMissing } from "./redis-errors.js";

export type LibraryLoader = ReturnType<typeof createLibraryLoader>;

export function createLibraryLoader(client: Client, library: FunctionLibrary) {
  const loading = new Map<Redis, Promise<void>>();

  /** Calls that find the library missing at the same time share one load. */
  function load(server: Redis): Promise<void> {
    const current = loading.get(server);
    if (current !== undefined) return current;
    const started = ensureLoaded(server, library).finally(() => loading.delete(server));
    loading.set(server, started);
    return started;
  }

  return {
    /**
     * Loads the library on all primaries. Resolves with an error that a retry cannot fix, or undefined. The first primary
     * that answers decides: one that does not respond must not delay calls to the others.
     */
    examine(): Promise<StoreError | undefined> {
      const verdicts = primaries(client).map((server) =>
        load(server).catch((error: unknown) => {
          const refusal = refusalOf(error, nameOf(server));
          if (refusal === undefined) throw error;
          return refusal;
        }),
      );
      return Promise.any(verdicts).then(
        (refusal) => refusal ?? undefined,
        () => undefined,
      );
    },
    /** Loads the library on all primaries and resolves when `server` has it. */
    async reload(server: Redis | undefined): Promise<void> {
      const all = Promise.allSettled(primaries(client).map(load));
      if (server === undefined) await all;
      else await load(server);
    },
  };
}

/** A call without keys changes nothing: the script rejects it. It also makes the server build the bundle. */
async function ensureLoaded(server: Redis, { name, source }: FunctionLibrary): Promise<void> {
  try {
    await server.fcall(functionName(name, "inspect"), 0);
  } catch (error) {
    if (!isFunctionMissing(error)) throw error;
    try {
      await server.call("FUNCTION", "LOAD", source);
    } catch (failure) {
      // Another process was faster.
      if (!isReply(failure, /Library '.*' already exists/)) throw failure;
    }
  }
}

const REQUIREMENT = "Tollgate needs Redis 7.0 or later, or Valkey, and the commands FCALL and FUNCTION LOAD";

function refusalOf(thrown: unknown, server: string): StoreError | undefined {
  if (isReply(thrown, /unknown (sub)?command/i)) {
    return new StoreError("unavailable", `Redis at ${server} does not support functions. ${REQUIREMENT}.`);
  }
  const { error } = classify(thrown);
  if (error.kind === "script") return error;
  if (error.kind !== "denied" || !isReply(thrown, /NOPERM|no permissions/)) return undefined;
  return new StoreError(
    "denied",
    `the user may not run functions on Redis at ${server}. ${REQUIREMENT} (ACL: +fcall +function|load).`,
  );
}

function isReply(error: unknown, pattern: RegExp): boolean {
  return error instanceof Error && pattern.test(error.message);
}

export interface ServerLibraries {
  server: string;
  /** Names of the loaded versions, sorted. */
  libraries: string[];
}

const TIMEOUT_MS = 5_000;

export type Place = Pick<ClientOptions, "url" | "tls">;

/** The loaded versions of each primary. Rejects with a StoreError. */
export function listLibraries(place: Place): Promise<ServerLibraries[]> {
  return onEachPrimary(place, loadedOn);
}

/** Removes all versions but `current` from each primary and returns the removed ones. Rejects with a StoreError. */
export function removeOtherLibraries(place: Place, current: string): Promise<ServerLibraries[]> {
  return onEachPrimary(place, async (server) => {
    const others = (await loadedOn(server)).filter((name) => name !== current);
    for (const name of others) await server.call("FUNCTION", "DELETE", name);
    return others;
  });
}

async function loadedOn(server: Redis): Promise<string[]> {
  const reply = (await server.call("FUNCTION", "LIST", "LIBRARYNAME", "tollgate_*")) as unknown[][];
  return reply.map((fields) => String(fields[fields.indexOf("library_name") + 1])).sort();
}

async function onEachPrimary(place: Place, work: (server: Redis) => Promise<string[]>): Promise<ServerLibraries[]> {
  const client = createClient({ ...place, deadlineMs: TIMEOUT_MS });
  const gate = createGate(client, TIMEOUT_MS);
  try {
    await gate.ready(TIMEOUT_MS);
    const asked = primaries(client).map(async (server) => {
      const libraries = await work(server);
      return { server: nameOf(server), libraries };
    });
    return await Promise.all(asked);
  } catch (error) {
    throw classify(error).error;
  } finally {
    gate.close();
    await disconnect(client);
  }
}

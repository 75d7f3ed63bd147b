/** Lists and removes the versions of the function library on the primaries of a Redis, for operators. */
import type { Redis } from "ioredis";
import { createClient, disconnect, primaries } from "./client.js";
import { createGate } from "./gate.js";
import { nameOf } from "./inspect.js";
import { classify } from "./redis-errors.js";

export interface ServerLibraries {
  server: string;
  /** Names of the loaded versions, sorted. */
  libraries: string[];
}

const TIMEOUT_MS = 5_000;

/** The loaded versions of each primary. Rejects with a StoreError. */
export function listLibraries(url: string): Promise<ServerLibraries[]> {
  return onEachPrimary(url, loadedOn);
}

/** Removes all versions but `current` from each primary and returns the removed ones. Rejects with a StoreError. */
export function removeOtherLibraries(url: string, current: string): Promise<ServerLibraries[]> {
  return onEachPrimary(url, async (server) => {
    const others = (await loadedOn(server)).filter((name) => name !== current);
    for (const name of others) await server.call("FUNCTION", "DELETE", name);
    return others;
  });
}

async function loadedOn(server: Redis): Promise<string[]> {
  const reply = (await server.call("FUNCTION", "LIST", "LIBRARYNAME", "tollgate_*")) as unknown[][];
  return reply.map((fields) => String(fields[fields.indexOf("library_name") + 1])).sort();
}

async function onEachPrimary(url: string, work: (server: Redis) => Promise<string[]>): Promise<ServerLibraries[]> {
  const client = createClient({ url, deadlineMs: TIMEOUT_MS });
  const gate = createGate(client, { maxWaitMs: TIMEOUT_MS, examine: async () => undefined });
  try {
    await gate.ready(TIMEOUT_MS);
    return await Promise.all(
      primaries(client).map(async (server) => {
        const libraries = await work(server);
        return { server: nameOf(server), libraries };
      }),
    );
  } catch (error) {
    throw classify(error).error;
  } finally {
    gate.close();
    await disconnect(client);
  }
}

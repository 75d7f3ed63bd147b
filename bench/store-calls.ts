/** Counts the commands that one grant runs inside Redis. */
import { functionName, loadLibrary } from "../src/store/function-library.js";
import { startRedis } from "../test/support/redis-server.js";
import { steadyGrant } from "./grant-calls.js";
import { noBudget, type Result, result } from "./results.js";

/** Of the bench itself. */
const OWN = /^(fcall|info|config|function)/;
const CALLS = 10;

export async function storeCalls(): Promise<Result[]> {
  const server = await startRedis();
  try {
    const library = loadLibrary();
    await server.command("FUNCTION", "LOAD", library.source);
    const grant = functionName(library.name, "grant");
    const results: Result[] = [];
    for (const apps of [1, 10]) {
      await server.command("CONFIG", "RESETSTAT");
      for (let seq = 1; seq <= CALLS; seq++) {
        const { keys, args } = steadyGrant(`calls-${apps}`, apps, seq);
        await server.command("FCALL", grant, keys.length, ...keys, ...args);
      }
      const info = String(await server.command("INFO", "commandstats"));
      let commands = 0;
      for (const [, name, calls] of info.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)) {
        if (!OWN.test(name!)) commands += Number(calls);
      }
      const name = apps === 1 ? "store-calls" : `store-calls-${apps}-apps`;
      results.push(result(name, commands / CALLS, "commands per grant call", noBudget));
    }
    return results;
  } finally {
    await server.stop();
  }
}

/** Counts Redis commands per grant, and Redis calls per request of gateways whose limit is not reached. */
import { loadLibrary } from "../src/store/function-library.js";
import { functionName } from "../src/store/function-names.js";
import { sendLoad } from "../test/support/http-load.js";
import { scriptCalls, startRedis } from "../test/support/redis-server.js";
import { startThreeGateways } from "../test/support/three-gateways.js";
import { steadyGrant } from "./grant-calls.js";
import { atMost, noBudget, type Result, result } from "./results.js";

/** Commands that are not run by the grant. */
const OWN = /^(fcall|info|config|function)/;
const CALLS = 10;

export async function storeCalls(): Promise<Result[]> {
  return [...(await commandsPerGrant()), await callsPerRequest()];
}

async function commandsPerGrant(): Promise<Result[]> {
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

const SHARES = [0.8, 0.15, 0.05];
const SECONDS = 5;
/** Each service checks four times a second for an emergency. */
const CHECKS_PER_SECOND = 3 * 4;

/** Three gateways with an ample limit decide from their leases: few calls per request, besides those by the clock. */
async function callsPerRequest(): Promise<Result> {
  const endings: (() => unknown)[] = [];
  try {
    const { server, gateways } = await startThreeGateways(endings, "ample: { guaranteed: 100000, burst: 100000 }");
    const load = async (perSecond: number, seconds: number) => {
      const sent = gateways.map(({ url }, i) => sendLoad(url, "ample", perSecond * SHARES[i]!, seconds));
      return (await Promise.all(sent)).flat();
    };
    await load(500, 1);
    const before = await scriptCalls(server);
    const startedAt = performance.now();
    const answers = await load(3000, SECONDS);
    const seconds = (performance.now() - startedAt) / 1000;
    const calls = (await scriptCalls(server)) - before - CHECKS_PER_SECOND * seconds;
    if (answers.some(({ status }) => status !== 200)) throw new Error("a request did not pass");
    return result("store-calls-per-request", Math.max(0, calls) / answers.length, "calls per request", atMost(0.01));
  } finally {
    for (const end of endings.reverse()) await end();
  }
}

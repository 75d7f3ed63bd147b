/** A node that sends wrong numbers can only harm itself: no message creates tokens, and invalid ones change nothing. */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type DrivenStore, drivenRedisStore } from "../support/driven-store.js";
import { editedLibrary, editModule } from "../support/libraries.js";
import { playLies } from "../support/lying-history.js";
import { knownLies, lyingHistory } from "../support/lying-steps.js";
import { BrokenPromise } from "../support/quota-model.js";
import { type RedisServer, startRedis } from "../support/redis-server.js";
import { forEachBackend } from "./backends.js";

/** Number of histories on each backend. Set HISTORIES=100000 for an overnight run. */
const HISTORIES = Number(process.env.HISTORIES ?? 200);
/** The backends play the same histories. */
const seed = Math.floor(Math.random() * 2 ** 31);

forEachBackend("lying nodes", (it) => {
  for (const [lie, steps] of Object.entries(knownLies)) {
    it(`create no tokens when ${lie}`, ({ store, name }) => playLies(store, name, steps));
  }

  it("create no tokens in any history", async ({ store, name }) => {
    let played = 0;
    const property = fc.asyncProperty(lyingHistory, (steps) => playLies(store, `${name}-${++played}`, steps));
    await fc.assert(property, { seed, numRuns: HISTORIES });
    expect(played).toBe(HISTORIES);
  });
});

/** Each removes a rule without which a lie creates tokens. */
const mutants: { name: string; module: string; find: RegExp; replace: string }[] = [
  {
    name: "grants and returns that are not netted",
    module: "common/counters",
    find: /local both = \(missing < newlyReturned and .*/g,
    replace: "local both = 0",
  },
  {
    name: "charges below the lowest level",
    module: "common/counters",
    find: /math\.min\(\s*missing - both,\s*chargeable\(app\)\s*\)/g,
    replace: "(missing - both)",
  },
  {
    name: "refunds of spending that was lost with the ledger",
    module: "common/counters",
    find: /if entry\.spent > 0 then/g,
    replace: "if false then",
  },
  {
    name: "final reports that ask for tokens",
    module: "grant",
    find: /request\.need \+ request\.want > 0/g,
    replace: "false",
  },
  {
    name: "leaving nodes that are removed with tokens",
    module: "report",
    find: /if leave == 1 and ledger\.held == 0 then/g,
    replace: "if leave == 1 then",
  },
  {
    name: "closed epochs that hold tokens",
    module: "common/counters",
    find: /if ledger\.closed then/g,
    replace: "if false then",
  },
];

describe("the known lies on redis", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server?.stop());

  /** The lies that create tokens. */
  async function created(store: DrivenStore, cluster: string): Promise<string[]> {
    const found: string[] = [];
    for (const [i, [lie, steps]] of Object.entries(knownLies).entries()) {
      try {
        await playLies(store, `${cluster}-${i}`, steps);
      } catch (error) {
        expect(error).toBeInstanceOf(BrokenPromise);
        found.push(lie);
      }
    }
    return found;
  }

  it.each(mutants)("create tokens with $name", async ({ name, module, find, replace }) => {
    const library = editedLibrary((source) => editModule(source, module, find, replace));
    const broken = drivenRedisStore(server.url, undefined, library);
    expect(await created(broken, name.replaceAll(" ", "-"))).not.toEqual([]);
    await broken.close();
  });
});

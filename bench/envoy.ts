/** Compares Envoy with the dynamic module and the rate limit service to bare Envoy and to envoyproxy/ratelimit. */
import { findEnvoy } from "../test/support/find-envoy.js";
import { type RedisServer, scriptCalls } from "../test/support/redis-server.js";
import { type EnvoySide, type SideName, startSides } from "./envoy-sides.js";
import { atLeast, below, noBudget, type Result, result } from "./results.js";
import { median } from "./rounds.js";
import { load } from "./support/wrk.js";

const ROUNDS = 9;
/** Not counted: V8 needs several seconds of load until it has compiled the service. */
const WARM_UP_ROUNDS = 5;
const SECONDS = 1;
const CONNECTIONS = 64;

interface Measured {
  perSecond: number;
  envoyUs: number;
  /** Including the service and Redis. */
  allUs: number;
  /** Redis calls per request. */
  calls: number;
}

type Round = Partial<Record<SideName, Measured>>;

async function measure(side: EnvoySide, redis: RedisServer): Promise<Measured> {
  await redis.command("CONFIG", "RESETSTAT");
  const before = { envoy: side.envoyNs(), all: side.allNs() };
  const headers = { "X-App-Id": "busy" };
  const { requests, perSecond } = await load({ url: side.url, seconds: SECONDS, connections: CONNECTIONS, headers });
  const perRequest = (ns: number) => ns / requests / 1000;
  return {
    perSecond,
    envoyUs: perRequest(side.envoyNs() - before.envoy),
    allUs: perRequest(side.allNs() - before.all),
    calls: (await callsOf(redis)) / requests,
  };
}

/** Script calls on our side, increments on the other; our scripts use none. */
async function callsOf(redis: RedisServer): Promise<number> {
  const stats = String(await redis.command("INFO", "commandstats"));
  return (await scriptCalls(redis)) + Number(/cmdstat_incrby:calls=(\d+)/.exec(stats)?.[1] ?? 0);
}

export async function envoy(): Promise<Result[]> {
  if (findEnvoy() === undefined) {
    console.error("*** ENVOY IS NOT AVAILABLE: not measured");
    return [];
  }
  const { sides, redis, stop } = await startSides();
  try {
    const rounds: Round[] = [];
    for (let round = -WARM_UP_ROUNDS; round < ROUNDS; round++) {
      const measured: Round = {};
      for (const [name, side] of sides) measured[name] = await measure(side, redis);
      if (round >= 0) rounds.push(measured);
    }
    return resultsOf(rounds, [...sides.keys()]);
  } finally {
    await stop();
  }
}

function resultsOf(rounds: Round[], names: SideName[]): Result[] {
  const of = (read: (round: Round) => number) => median(rounds.map(read));
  const speed = (a: SideName, b: SideName) => of((round) => round[a]!.perSecond / round[b]!.perSecond);
  const cpu = (a: SideName, b: SideName) => of((round) => round[a]!.allUs / round[b]!.allUs);
  const serviceUs = ({ allUs, envoyUs }: Measured) => allUs - envoyUs;
  const serviceCpu = (a: SideName, b: SideName) => of((round) => serviceUs(round[a]!) / serviceUs(round[b]!));
  const beside = names.includes("ratelimit")
    ? [
        result(
          "envoy-module-ratelimit",
          speed("module", "ratelimit"),
          "÷ envoyproxy/ratelimit, requests/s",
          atLeast(3.5),
        ),
        result("envoy-rls-ratelimit", speed("rls", "ratelimit"), "÷ envoyproxy/ratelimit, requests/s", atLeast(1.25)),
        result("envoy-rls-ratelimit-cpu", cpu("rls", "ratelimit"), "÷ envoyproxy/ratelimit, CPU per request", noBudget),
        result(
          "envoy-rls-ratelimit-service-cpu",
          serviceCpu("rls", "ratelimit"),
          "÷ envoyproxy/ratelimit, CPU per request of service and Redis",
          below(0.5),
        ),
      ]
    : [];
  return [
    result("envoy-module", speed("module", "bare"), "÷ bare Envoy, requests/s", atLeast(0.9)),
    result(
      "envoy-module-extra-us",
      of((round) => round.module!.allUs - round.bare!.allUs),
      "µs of CPU per request beyond bare Envoy: Envoy, service, Redis",
      below(10),
    ),
    result("envoy-rls", speed("rls", "bare"), "÷ bare Envoy, requests/s", noBudget),
    ...beside,
    result(
      "envoy-module-store-calls",
      of((round) => round.module!.calls),
      "Redis calls per request",
      below(0.01),
    ),
    ...names.flatMap((name) => each(name)),
  ];

  function each(name: SideName): Result[] {
    const value = (read: (side: Measured) => number) => of((round) => read(round[name]!));
    return [
      result(
        `envoy-${name}-per-second`,
        value((side) => side.perSecond),
        "requests/s",
        noBudget,
      ),
      result(
        `envoy-${name}-envoy-us`,
        value((side) => side.envoyUs),
        "µs of CPU per request: Envoy",
        noBudget,
      ),
      result(
        `envoy-${name}-all-us`,
        value((side) => side.allUs),
        "µs of CPU: Envoy, service, Redis",
        noBudget,
      ),
      result(
        `envoy-${name}-calls`,
        value((side) => side.calls),
        "Redis calls per request",
        noBudget,
      ),
    ];
  }
}

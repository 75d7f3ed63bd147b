/** Generates command histories for the conformance program. They cover the whole core; the clock may step back. */
import fc from "fast-check";

/** A command that may need the time, in milliseconds since 1970. */
type Command = (now: number) => string;

const nothing = fc.constantFrom("nan", "inf", "-inf", "-1", "-5", "0.5", "9007199254740994", "1e+300");
const size = fc.oneof(fc.nat(10000000), fc.nat(), fc.integer({ min: 0, max: 2 ** 53 - 1 }), nothing);
const cost = fc.oneof(fc.integer({ min: 0, max: 50 }), fc.integer({ min: 0, max: 1000000 }));
const tokens = fc.integer({ min: 0, max: 1000000000 });
const level = fc.nat(3);
const yesNo = fc.constantFrom("yes", "no");
const profile = fc.constantFrom("standard", "iops", "bandwidth");
const method = fc.constantFrom("GET", "HEAD", "OPTIONS", "DELETE", "POST", "PUT", "PATCH", "PURGE");
const code = fc.constantFrom("ok", "ok", "quota_exhausted", "cluster_exhausted", "cost_exceeds_capacity");
const id = fc.constantFrom("-", "video", "stranger", "a{b}", "ü", "x".repeat(128), "x".repeat(129), "__proto__");
/** Amounts in micro-tokens: whole tokens and fractions of a token. */
const micro = fc.oneof(
  tokens.map((whole) => whole * 1000000),
  fc.integer({ min: 0, max: 10 ** 15 }),
);
const part = fc.double({ min: 0, max: 1, noNaN: true }).map((value) => value.toExponential(16));

function line(name: string, ...parts: fc.Arbitrary<unknown>[]): fc.Arbitrary<Command> {
  return fc.tuple(...parts).map((values) => () => [name, ...values].join(" "));
}

/** Like `line`, with the time as first argument. */
function timed(name: string, perMs: number, ...parts: fc.Arbitrary<unknown>[]): fc.Arbitrary<Command> {
  return fc.tuple(...parts).map((values) => (now: number) => [name, now * perMs, ...values].join(" "));
}

const sizes = fc.oneof(
  line("price", profile, method, size),
  line("estimate", profile, method, size),
  line("payable", profile, method, fc.oneof(cost, tokens)),
  line("learn", size, size, fc.oneof(fc.nat(10000000), fc.constant(2 ** 53))),
  timed("age", 1),
  timed("age", 0),
  timed("age", 2),
  line("settlement", fc.integer({ min: -1, max: 1000000 }), fc.integer({ min: -1, max: 1000000 })),
);

const limits = line("limits", micro, micro, micro, micro);
const held = fc.tuple(fc.integer({ min: -(10 ** 15), max: 10 ** 15 }), micro).map(
  ([tokensHeld, debt]): Command =>
    (now) =>
      `level ${tokensHeld} ${debt} ${now * 1000}`,
);
const buckets = fc.oneof(
  limits,
  held,
  timed("refill", 1000),
  line("charge", tokens),
  line("give-back", tokens),
  line("lend", tokens),
  line("repay", tokens),
  line("wait", tokens),
  line("borrowable"),
  line("usage"),
);

const emergencies = fc.oneof(
  line("ratio", fc.nat(4)),
  fc.tuple(fc.constantFrom("operator", "usage", "none"), fc.nat(5000)).map(
    ([source, lasts]): Command =>
      (now) =>
        `emergency ${source} ${now} ${lasts === 0 ? 0 : now + lasts}`,
  ),
  fc.tuple(part, fc.nat(3000)).map(
    ([used, cooldown]): Command =>
      (now) =>
        `next ${used} ${now} ${cooldown}`,
  ),
);

const health = fc.oneof(
  timed("observe", 1, fc.constantFrom(0, 0, 0, 0, 1, 2), fc.oneof(fc.nat(300), part)),
  timed("health", 1),
  fc.tuple(level, fc.nat(3000)).map(
    ([pinned, lasts]): Command =>
      (now) =>
        `pin ${now} ${pinned} ${now + lasts}`,
  ),
  line("without-store", fc.constantFrom("open", "local", "closed"), tokens, tokens, fc.nat(9)),
);

const leases = fc.oneof(
  line("lease-take", cost),
  line("lease-take", fc.nat(50)),
  line("lease-uncovered", cost),
  line("lease-settle", fc.integer({ min: -50, max: 50 })),
  line("lease-allowance", fc.nat(120), fc.nat(100_000)),
  fc.tuple(cost, level, yesNo).map(
    ([asked, at, plentiful]): Command =>
      (now) =>
        `lease-look ${asked} ${now} ${at} ${plentiful}`,
  ),
  timed("lease-plan", 1, cost, cost, level, yesNo),
  timed("lease-plan", 1, fc.constant(0), fc.constant(0), level, yesNo),
  timed("lease-reply", 1, fc.integer({ min: -100, max: 2000 }), code, fc.nat(2000), cost),
  line("lease-cut", fc.constantFrom("1", "0.5", "0.1", "0", "0.33333333333333331")),
  line("lease-return"),
  timed("lease-epoch", 1, fc.nat(500)),
);

const names = fc.oneof(
  line("identify", yesNo, yesNo, yesNo, fc.nat(2), fc.nat(2), fc.constantFrom("-", "video"), id, id),
  line("keys", fc.constantFrom("c1", "cluster-01"), id, yesNo),
  line("whole-text", fc.integer({ min: -(2 ** 53), max: 2 ** 53 })),
);

const pauseMs = fc.oneof(
  fc.nat(5),
  fc.nat(400),
  fc.integer({ min: -3000, max: 0 }),
  fc.constantFrom(3600000, -3600000),
);
const command = fc.oneof(sizes, buckets, buckets, emergencies, health, leases, leases, leases, names);

/** One history as lines for the program. It starts with a reset, then fills the bucket and the lease. */
const history = fc
  .tuple(limits, held, fc.array(fc.tuple(pauseMs, command), { minLength: 5, maxLength: 60, size: "max" }))
  .map(([setLimits, setLevel, steps]) => {
    let now = 1750000000000;
    const lines = ["reset", setLimits(now), setLevel(now), `lease-reply ${now} 1000 ok 0 0`];
    for (const [pause, write] of steps) {
      now += pause;
      lines.push(write(now));
    }
    return lines;
  });

/** Histories per process or script call. Many, so that LuaJIT compiles the loops. */
export const HISTORIES_PER_RUN = 20;
export const histories = fc
  .array(history, { minLength: HISTORIES_PER_RUN, maxLength: HISTORIES_PER_RUN })
  .map((all) => all.flat());

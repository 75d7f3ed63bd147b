/** Options of limits on any key: user, address, route, header and others. */
import { MAX_TOKENS } from "../../core/bucket.js";
import { LONGEST_VALUE } from "../../limit-rules/key-parts.js";
import { LONGEST_NAME } from "../../limit-rules/limit-rules.js";
import { KEY_PART, KEY_PART_WORDS, limitDefaults, parseRate } from "../../limiter/limits/limit-options.js";
import { flag, headerName, identifier, list, oneOf, optional, section, text, whole, words } from "../values.js";

export const limitName = () =>
  text(`must be 1 to ${LONGEST_NAME} of A–Z a–z 0–9 . _ -`, new RegExp(`^[A-Za-z0-9._-]{1,${LONGEST_NAME}}$`));

/** @param what what is cut in an emergency */
export const priority = (what: string) =>
  whole(0, 1_000)
    .default(limitDefaults.priority)
    .describe(`In an emergency, priority 0 keeps 100 % of ${what}, 1 keeps 50 %, 2 keeps 10 %, others are blocked.`);

/** @param limit what a node applies by itself */
export const onStoreFailure = (limit: string) =>
  oneOf("open", "local", "closed")
    .default(limitDefaults.onStoreFailure)
    .describe(`Without the store, each node applies ${limit} by itself, its share of it, or admits nothing.`);

const rate = () =>
  text(
    "must be a number of at most 1,000,000,000 per s, min, h or day, for example 10/s",
    (value) => parseRate(value) !== undefined,
  );

const keyPart = () => text(`must be ${KEY_PART_WORDS}`, KEY_PART);

const method = () => text("must be an HTTP method in upper case", /^[A-Z][A-Z-]{0,31}$/);
const pathPattern = () =>
  text("must begin with / or * and have no spaces, ?, # or control characters", /^[/*][!"$->@-~]*$/);

const match = section({
  route: list(routePathOrHost(), 0, 1_000)
    .default([])
    .describe("Host and path of `routes`, as in `example.com/api` or `/api`."),
  path: list(pathPattern(), 0, 1_000)
    .default([])
    .describe(
      "Path prefixes of whole segments, or patterns with `*` for any characters. Every reading of a path is compared: decoded, with slashes merged, dot segments resolved, without parameters (`;x`). A slash at the end makes no difference.",
    ),
  method: list(method(), 0, 100).default([]).describe("Methods."),
  app: list(identifier(), 0, 10_000).default([]).describe("Apps."),
  header: list(
    section({
      name: headerName().describe("Name of the header."),
      value: words(LONGEST_VALUE).default("*").describe("Its value; `*` matches any characters."),
    }),
    0,
    100,
  )
    .default([])
    .describe("Headers that a request must have, with these values. A header that was sent twice matches."),
});

function routePathOrHost() {
  return text("must be the host and path of a route", /^[A-Za-z0-9._-]*\/[!"$->@-~]*$/);
}

export const limit = section({
  name: limitName().describe("Name in responses, metrics and commands."),
  key: list(keyPart(), 0, 8)
    .default([])
    .describe(
      `What has its own bucket: any combination of ${KEY_PART_WORDS}. Requests without the header share one bucket. Empty: one bucket for all requests.`,
    ),
  match: match.prefault({}).describe("The requests that the limit applies to. Empty lists match everything."),
  rate: rate().describe("Tokens per second, minute, hour or day: `10/s`, `5/min`, `1000/h`, `50000/day`."),
  burst: optional(whole(1, MAX_TOKENS), "the number in `rate`").describe("Maximum tokens of a bucket."),
  count: oneOf("request", "cost")
    .default(limitDefaults.count)
    .describe("A request takes one token, or its cost in the profile of its route or app."),
  ipv4_prefix: whole(8, 32)
    .default(limitDefaults.ipv4Prefix)
    .describe("Bits of an IPv4 address that are one value of `ip`."),
  ipv6_prefix: whole(16, 128)
    .default(limitDefaults.ipv6Prefix)
    .describe("Bits of an IPv6 address that are one value of `ip`."),
  path_case: oneOf("sensitive", "insensitive")
    .default(limitDefaults.pathCase)
    .describe(
      "Whether the letter case of a path makes a difference, in `match.path` and as a part of the key. Use `insensitive` if the backend ignores it, as Express does by default.",
    ),
  allow: list(words(LONGEST_VALUE), 0, 10_000)
    .default([])
    .describe("Values that are not limited; for `ip` also networks. The key must have one part."),
  deny: list(words(LONGEST_VALUE), 0, 10_000)
    .default([])
    .describe("Values that are refused with 403; for `ip` also networks. The key must have one part."),
  invalid_values: oneOf("reject", "ignore")
    .default(limitDefaults.invalidValues)
    .describe(
      "A header that was sent twice, is longer than 1,024 bytes or has control characters, and an invalid client address: 400, or count as a request without the value.",
    ),
  dry_run: flag().default(limitDefaults.dryRun).describe("The limit decides as usual, but refuses nothing."),
  priority: priority("the limit"),
  on_store_failure: onStoreFailure("the whole limit"),
});

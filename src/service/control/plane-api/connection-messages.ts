/** Messages of data planes about connections and their replies, as JSON and as plain text. */
import * as z from "zod";
import { clientNetwork } from "../../../core/address.js";
import { SLOT_SUCCESS } from "../../../core/codes.js";
import { DEFAULT_APP } from "../../../core/identity.js";
import { ACQUIRE, ACQUIRE_REPLY, byName, HELD, lineOf, RENEW_REPLY } from "../../../engine/plane-text.js";
import { identifier } from "../../operations/contract/fields.js";
import { malformedLine, numberOf, words } from "./text.js";

/** As many as one store call accepts. */
const MOST_PODS = 500;
/** Connections per message; a proxy with more sends several messages. */
const MOST_CONNECTIONS = 10_000;

/** An address with port (IPv6 in brackets), or another name. */
const pod = () => z.string().regex(/^[A-Za-z0-9._:[\]-]{1,256}$/, "must be 1 to 256 of A–Z a–z 0–9 . _ : - [ ]");
const app = () => identifier().default(DEFAULT_APP);
const route = () => z.string().regex(/^[!-.0-~]{0,300}\/[!-~]{0,700}$/, "must be the host and path of a route");

const client = () =>
  z
    .string()
    .max(64)
    .refine((text) => clientNetwork(text) !== "", "must be an IP address")
    .transform(clientNetwork)
    .optional();

export const acquireRequest = z.strictObject({
  proxy: identifier().describe("The proxy; the name changes each time it starts."),
  connection: identifier().describe("The id of the connection; a repeated call keeps it."),
  app: app(),
  client: client().describe("The address of the client; without it the limit per client does not apply."),
  pods: z.array(pod()).min(1).max(MOST_PODS).optional().describe("The least loaded of these with a free slot is used."),
  pod: pod().optional().describe("Instead of pods: exactly this one."),
  route: route().optional().describe("The route whose limits apply: host and path. Default: the first."),
  reclaim: z
    .boolean()
    .default(false)
    .describe("The connection exists and lost its lease: the rate limit does not apply."),
  memory: z.int().min(0).default(0).describe("The incarnation of the store in the last reply; 0: unknown."),
});

const held = z.strictObject({
  connection: identifier(),
  pod: pod(),
  app: app(),
  route: route().optional(),
  client: client().describe("As in the acquire."),
});

export const heldRequest = z.strictObject({
  proxy: identifier(),
  route: route().optional().describe("The route of the connections that name none. Default: searched on all routes."),
  connections: z.array(held).max(MOST_CONNECTIONS).default([]),
});

export const countsRequest = z.strictObject({
  pods: z.array(pod()).max(MOST_PODS).default([]),
  route: route().optional().describe("Count only connections of this route."),
});

export const acquireReply = z.strictObject({
  allowed: z.boolean(),
  code: z.string(),
  count: z.int().describe("Connections on the pod, including this one if allowed."),
  pod: z.string().describe("The pod of the slot; empty if refused."),
  limit: z.number().describe("The limit that was reached, or that of the pod."),
  retry_after: z.int().describe("Seconds for Retry-After, randomised; 0 if allowed."),
  lease_ms: z.int().describe("Renew after a third of it."),
  memory: z
    .int()
    .describe(
      "Incarnation of the route's slots. If it changes, the store lost them: reclaim all connections of the route first.",
    ),
});

const unavailable = z
  .array(z.string())
  .describe("Routes for which the store did not answer: repeat the call for their connections.");

export const renewReply = z.strictObject({
  renewed: z.int(),
  lost: z.array(z.string()).describe("Connections without a lease: reclaim or close them."),
  lease_ms: z.int().describe("The shortest lease of the routes."),
  memory: z.int().describe("As in the reply to an acquire; 0 if the message is about several routes."),
  routes: z.array(z.strictObject({ route: z.string(), lease_ms: z.int(), memory: z.int() })),
  unavailable,
});

export const releaseReply = z.strictObject({
  released: z.int(),
  unknown: z.array(z.string()).describe("Connections that had no slot."),
  unavailable,
});

export const countsReply = z.strictObject({
  total: z.int(),
  rejected: z.int().describe("Refused attempts of all proxies so far."),
  pods: z.record(z.string(), z.int()),
  unavailable,
});

/** `#` is not a character of an id. */
const unavailableLines = (routes: string[]) => routes.map((name) => `#unavailable ${name}`);

/** The first line of most replies. */
const successLine = (count: number, ...more: number[]) => [1, count, SLOT_SUCCESS, ...more].join(" ");

const acquireLine = "proxy connection [app [route [reclaim [memory [client]]]]], with - for a default";

export const acquireText = {
  /** `acquireLine`, then the pods on any number of lines. */
  parse([head, ...lines]: string[]): unknown {
    const { reclaim, memory, ...named } = lineIn(ACQUIRE, head, 1, acquireLine);
    if (named.proxy === "-" || named.connection === "-") throw malformedLine(1, acquireLine);
    return { ...named, pods: podsIn(lines), reclaim: flagOf(reclaim), memory: numberOf(memory) };
  },
  format: (reply: z.output<typeof acquireReply>) => [
    lineOf(ACQUIRE_REPLY, { ...reply, pod: reply.pod === "" ? "-" : reply.pod }),
  ],
};

const heldLine = "connection pod [app [route [client]]]";

/** `proxy [route]`, then one `heldLine` per connection. */
function parseHeld([head, ...lines]: string[]): unknown {
  const [proxy, common, ...more] = words(head);
  if (more.length > 0) throw malformedLine(1, "proxy [route]");
  const connections = lines.slice(0, MOST_CONNECTIONS + 1).map((line, i) => lineIn(HELD, line, i + 2, heldLine));
  return { proxy, route: given(common ?? "-"), connections };
}

export const renewText = {
  parse: parseHeld,
  format: ({ renewed, lost, lease_ms, memory, unavailable: failed }: z.output<typeof renewReply>) => [
    lineOf(RENEW_REPLY, { allowed: true, renewed, code: SLOT_SUCCESS, lease_ms, memory }),
    ...lost,
    ...unavailableLines(failed),
  ],
};

export const releaseText = {
  parse: parseHeld,
  format: ({ released, unknown, unavailable: failed }: z.output<typeof releaseReply>) => [
    successLine(released),
    ...unknown,
    ...unavailableLines(failed),
  ],
};

export const countsText = {
  /** The pods on any number of lines. */
  parse: (lines: string[]): unknown => ({ pods: podsIn(lines) }),
  format: ({ total, rejected, pods, unavailable: failed }: z.output<typeof countsReply>) => [
    successLine(total, rejected),
    ...Object.entries(pods).map(([name, count]) => `${name} ${count}`),
    ...unavailableLines(failed),
  ],
};

/** The words of a line; `-` stands for a default. The first two are required. */
function lineIn<N extends string>(names: readonly N[], line: string | undefined, number: number, wanted: string) {
  const all = words(line);
  const named = byName(names, all);
  for (const name of names.slice(2)) if (named[name] === "-") delete named[name];
  const { client }: { client?: string | undefined } = named;
  if (all.length < 2 || all.length > names.length || !isClient(client)) throw malformedLine(number, wanted);
  return named;
}

const podsIn = (lines: string[]) => lines.flatMap((line) => words(line));
const isClient = (word: string | undefined) => word === undefined || clientNetwork(word) !== "";
const given = (word: string) => (word === "-" ? undefined : word);

function flagOf(word: string | undefined): unknown {
  return word === "0" || word === "1" ? word === "1" : word;
}

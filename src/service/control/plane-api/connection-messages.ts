/** Messages of data planes about connections and their replies, as JSON and as plain text. */
import * as z from "zod";
import { INVALID_ARGUMENT } from "../../../core/codes.js";
import { DEFAULT_APP } from "../../../core/identity.js";
import { problem } from "../../operations/reply.js";
import { parseBody, type Read } from "../request-body.js";
import { wrongField } from "../wrong-fields.js";
import { BadField } from "./fields.js";

/** As many as one store call accepts. */
const MOST_PODS = 500;
/** Connections per message; a proxy with more sends several messages. */
export const MOST_CONNECTIONS = 10_000;

const id = () => z.string().regex(/^[A-Za-z0-9._:-]{1,128}$/, "must be 1 to 128 of A–Z a–z 0–9 . _ : -");
/** An address with port (IPv6 in brackets), or another name. */
const pod = () => z.string().regex(/^[A-Za-z0-9._:[\]-]{1,256}$/, "must be 1 to 256 of A–Z a–z 0–9 . _ : - [ ]");
const app = () => id().default(DEFAULT_APP);

export const acquireRequest = z.strictObject({
  proxy: id().describe("The proxy; the name changes each time it starts."),
  connection: id().describe("The id of the connection; a repeated call keeps it."),
  app: app(),
  pods: z.array(pod()).min(1).max(MOST_PODS).optional().describe("The least loaded of these with a free slot is used."),
  pod: pod().optional().describe("Instead of pods: exactly this one."),
  route: z.string().max(1_000).optional().describe("The route whose limits apply: host and path. Default: the first."),
  reclaim: z
    .boolean()
    .default(false)
    .describe("The connection exists and lost its lease: the rate limit does not apply."),
  memory: z.int().min(0).default(0).describe("The incarnation of the store in the last reply; 0: unknown."),
});

const held = z.strictObject({ connection: id(), pod: pod(), app: app() });

export const heldRequest = z.strictObject({
  proxy: id(),
  connections: z.array(held).max(MOST_CONNECTIONS).default([]),
});

export const countsRequest = z.strictObject({ pods: z.array(pod()).max(MOST_PODS).default([]) });

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
    .describe("Incarnation of the store. If it changes, the store lost its slots: reclaim all connections first."),
});

export const renewReply = z.strictObject({
  renewed: z.int(),
  lost: z.array(z.string()).describe("Connections without a lease: reclaim or close them."),
  lease_ms: z.int(),
  memory: z.int(),
});

export const releaseReply = z.strictObject({
  released: z.int(),
  unknown: z.array(z.string()).describe("Connections that had no slot."),
});

export const countsReply = z.strictObject({
  total: z.int(),
  rejected: z.int().describe("Refused attempts of all proxies so far."),
  pods: z.record(z.string(), z.int()),
});

export type AcquireRequest = z.output<typeof acquireRequest>;
export type HeldRequest = z.output<typeof heldRequest>;
export type CountsRequest = z.output<typeof countsRequest>;

/** How to parse one kind of message: JSON by its schema, or text that `fromText` converts first. */
export interface MessageKind<T> {
  schema: z.ZodType<T>;
  /** Throws BadField. */
  fromText(lines: string[]): unknown;
}

const malformedLine = (line: number, wanted: string) => new BadField(`line ${line}`, `must be: ${wanted}`);

const words = (line = "") => line.split(" ").filter((word) => word !== "");

/** `proxy connection app [route [reclaim [memory]]]`, with - for a default, then the pods on any number of lines. */
export const acquireKind: MessageKind<AcquireRequest> = {
  schema: acquireRequest,
  fromText([head, ...lines]) {
    const [proxy, connection, name, route, reclaim, memory, ...more] = words(head).map(given);
    if (connection === undefined || more.length > 0) {
      throw malformedLine(1, "proxy connection [app [route [reclaim [memory]]]], with - for a default");
    }
    return {
      proxy,
      connection,
      app: name,
      route,
      pods: lines.flatMap((line) => words(line)),
      reclaim: flagOf(reclaim),
      memory: numberOf(memory),
    };
  },
};

/** `proxy`, then one line `connection pod [app]` per connection. */
export const heldKind: MessageKind<HeldRequest> = {
  schema: heldRequest,
  fromText([head, ...lines]) {
    const [proxy, ...more] = words(head);
    if (more.length > 0) throw malformedLine(1, "proxy");
    const connections = lines.slice(0, MOST_CONNECTIONS + 1).map((line, i) => {
      const [connection, on, name, ...rest] = words(line);
      if (on === undefined || rest.length > 0) throw malformedLine(i + 2, "connection pod [app]");
      return { connection, pod: on, app: given(name ?? "-") };
    });
    return { proxy, connections };
  },
};

/** The pods on any number of lines. */
export const countsKind: MessageKind<CountsRequest> = {
  schema: countsRequest,
  fromText: (lines) => ({ pods: lines.flatMap((line) => words(line)) }),
};

/** The error reply names the invalid field. */
export function readMessage<T>(kind: MessageKind<T>, mediaType: string, text: string): Read<T> {
  if (mediaType !== "text/plain") return parseBody(text, kind.schema);
  const lines = text.replace(/\r?\n$/, "").split(/\r?\n/);
  let value: unknown;
  try {
    value = kind.fromText(lines);
  } catch (error) {
    if (!(error instanceof BadField)) throw error;
    return { refusal: problem(400, INVALID_ARGUMENT, error.message, { field: error.field }) };
  }
  const result = kind.schema.safeParse(value);
  if (result.success) return { value: result.data };
  const { field, reason } = wrongField(result.error, value, kind.schema);
  return { refusal: problem(400, INVALID_ARGUMENT, reason, { field }) };
}

const given = (word: string) => (word === "-" ? undefined : word);

function flagOf(word: string | undefined): unknown {
  if (word === undefined) return undefined;
  return word === "0" || word === "1" ? word === "1" : word;
}

function numberOf(word: string | undefined): unknown {
  return word !== undefined && /^[0-9]{1,16}$/.test(word) ? Number(word) : word;
}

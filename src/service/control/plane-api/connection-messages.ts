/** What proxies elsewhere say about connections, and what they are answered: in JSON, and in a text that Lua reads without a library. */
import * as z from "zod";
import { INVALID_ARGUMENT } from "../../../core/codes.js";
import { DEFAULT_APP } from "../../../core/identity.js";
import { problem } from "../endpoint.js";
import { parseBody, type Read } from "../request-body.js";
import { wrongField } from "../wrong-fields.js";

/** As many pods as one call of the scripts takes. */
const MOST_PODS = 500;
/** As many connections as one message names; a proxy with more sends several. */
export const MOST_CONNECTIONS = 10_000;

const id = () => z.string().regex(/^[A-Za-z0-9._:-]{1,128}$/, "must be 1 to 128 of A–Z a–z 0–9 . _ : -");
/** An address with its port, or any other name. Brackets are for IPv6. */
const pod = () => z.string().regex(/^[A-Za-z0-9._:[\]-]{1,256}$/, "must be 1 to 256 of A–Z a–z 0–9 . _ : - [ ]");
const app = () => id().default(DEFAULT_APP);

export const acquireRequest = z.strictObject({
  proxy: id().describe("The proxy in this life of it: another one each time it starts."),
  connection: id().describe("Another one for each connection; a repeated call keeps it."),
  app: app(),
  pods: z.array(pod()).min(1).max(MOST_PODS).optional().describe("Of these the least loaded one with room is taken."),
  pod: pod().optional().describe("Instead of pods: this one."),
  route: z.string().max(1_000).optional().describe("Whose limits count: its host and path. Default: the first."),
  reclaim: z.boolean().default(false).describe("The connection lives and lost its lease: it is not new for the rate."),
  memory: z.int().min(0).default(0).describe("As the last answer told it; 0: not known."),
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
  count: z.int().describe("Connections on the pod, this one included when allowed."),
  pod: z.string().describe("The one that was taken; empty when refused."),
  limit: z.number().describe("The limit that was reached, or that of the pod."),
  retry_after: z.int().describe("Seconds for Retry-After, not the same for all; 0 when allowed."),
  lease_ms: z.int().describe("Renew at a third of it."),
  memory: z.int().describe("Since when the store remembers. Another one: it forgot, so reclaim all that live first."),
});

export const renewReply = z.strictObject({
  renewed: z.int(),
  lost: z.array(z.string()).describe("Connections without a lease: reclaim them, or close them."),
  lease_ms: z.int(),
  memory: z.int(),
});

export const releaseReply = z.strictObject({
  released: z.int(),
  unknown: z.array(z.string()).describe("Connections that held no slot any more."),
});

export const countsReply = z.strictObject({
  total: z.int(),
  rejected: z.int().describe("Attempts refused so far, by all proxies."),
  pods: z.record(z.string(), z.int()),
});

export type AcquireRequest = z.output<typeof acquireRequest>;
export type HeldRequest = z.output<typeof heldRequest>;
export type CountsRequest = z.output<typeof countsRequest>;

/** Reads one kind of message: JSON by the schema, or a text whose words `fromText` names first. */
export interface MessageKind<T> {
  schema: z.ZodType<T>;
  /** Throws a sentence where the words are too few or too many. */
  fromText(lines: string[]): unknown;
}

export class MalformedLine extends Error {
  constructor(
    readonly line: number,
    wanted: string,
  ) {
    super(`line ${line} must be: ${wanted}`);
  }
}

const words = (line = "") => line.split(" ").filter((word) => word !== "");

/** `proxy connection app [route [reclaim [memory]]]`, where - is the default; then the pods, in any number of lines. */
export const acquireKind: MessageKind<AcquireRequest> = {
  schema: acquireRequest,
  fromText([head, ...lines]) {
    const [proxy, connection, name, route, reclaim, memory, ...more] = words(head).map(given);
    if (connection === undefined || more.length > 0) {
      throw new MalformedLine(
        1,
        "proxy connection app route reclaim memory, from the third on - or nothing by default",
      );
    }
    return {
      ...{ proxy, connection, app: name, route, pods: lines.flatMap((line) => words(line)) },
      ...{ reclaim: flagOf(reclaim), memory: numberOf(memory) },
    };
  },
};

/** `proxy`, then `connection pod [app]` for each. */
export const heldKind: MessageKind<HeldRequest> = {
  schema: heldRequest,
  fromText([head, ...lines]) {
    const [proxy, ...more] = words(head);
    if (more.length > 0) throw new MalformedLine(1, "proxy");
    const connections = lines.slice(0, MOST_CONNECTIONS + 1).map((line, i) => {
      const [connection, on, name, ...rest] = words(line);
      if (on === undefined || rest.length > 0) throw new MalformedLine(i + 2, "connection pod, and app or nothing");
      return { connection, pod: on, app: given(name ?? "-") };
    });
    return { proxy, connections };
  },
};

/** The pods, in any number of lines. */
export const countsKind: MessageKind<CountsRequest> = {
  schema: countsRequest,
  fromText: (lines) => ({ pods: lines.flatMap((line) => words(line)) }),
};

/** What is refused names the field and what it should have been. */
export function readMessage<T>(kind: MessageKind<T>, mediaType: string, text: string): Read<T> {
  if (mediaType !== "text/plain") return parseBody(text, kind.schema);
  const lines = text.replace(/\r?\n$/, "").split(/\r?\n/);
  let value: unknown;
  try {
    value = kind.fromText(lines);
  } catch (error) {
    if (!(error instanceof MalformedLine)) throw error;
    return { refusal: problem(400, INVALID_ARGUMENT, error.message, { field: `line ${error.line}` }) };
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

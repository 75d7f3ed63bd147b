/** Reads Envoy's access log messages: the metadata that the Lua script has set on each stream, and the bytes transferred. */
import {
  bool,
  double,
  list,
  MessageType,
  nested,
  text,
  uint32,
  uint64,
  unread,
  wrapped,
} from "../grpc/message-type.js";
import type { Reader } from "../grpc/protobuf.js";

/** Values of `AccessLogType`. */
export const PERIODIC = 5;
export const END = 6;

/** Namespace of the script's metadata. */
const NAMESPACE = "tollgate";

/** Metadata that the script has set on a stream. Empty, 0 or false if not set. */
export interface Marks {
  /** Id of a WebSocket connection that has or requests a slot. Set to empty when it is refused. */
  connection: string;
  proxy: string;
  /** Unknown until the service has replied to the request for a slot. */
  pod: string;
  route: string;
  app: string;
  method: string;
  /** Tokens taken for the exchange. */
  paid: number;
  /** The service has to settle the exchange. */
  settle: boolean;
}

export interface LogEntry {
  kind: number;
  status: number;
  requestBytes: number;
  responseBytes: number;
  marks: Marks;
}

export interface AccessLogMessage {
  /** Only in the first message of a stream. */
  node: string | undefined;
  /** HTTP entries that have marks. */
  entries: LogEntry[];
}

/** `Struct`: a map from names to values of different types. */
const structMessage = new MessageType({
  fields: list(
    1,
    new MessageType({
      key: text(1),
      value: nested(2, new MessageType({ number_value: double(2), string_value: text(3), bool_value: bool(4) })),
    }),
  ),
});

/** A map from namespaces to structs, of which only our own is read. */
const metadataMessage = new MessageType({
  filter_metadata: list(1, new MessageType({ key: text(1), value: unread(2) })),
});

const entryMessage = new MessageType({
  common_properties: nested(1, new MessageType({ metadata: nested(17, metadataMessage), access_log_type: uint32(33) })),
  request: nested(3, new MessageType({ request_body_bytes: uint64(12) })),
  response: nested(4, new MessageType({ response_code: wrapped(1, uint64), response_body_bytes: uint64(3) })),
});

const streamMessage = new MessageType({
  identifier: nested(1, new MessageType({ node: nested(1, new MessageType({ id: text(1) })) })),
  http_logs: nested(2, new MessageType({ log_entry: list(1, entryMessage) })),
});

/** Reads a `StreamAccessLogsMessage`. */
export function readAccessLogMessage(bytes: Uint8Array): AccessLogMessage {
  const { identifier, http_logs: logs } = streamMessage.decode(bytes);
  const entries: LogEntry[] = [];
  for (const { common_properties: common, request, response } of logs?.log_entry ?? []) {
    const metadata = common?.metadata?.filter_metadata.findLast(({ key }) => key === NAMESPACE);
    if (metadata === undefined) continue;
    entries.push({
      kind: common?.access_log_type ?? 0,
      status: response?.response_code ?? 0,
      requestBytes: request?.request_body_bytes ?? 0,
      responseBytes: response?.response_body_bytes ?? 0,
      marks: marksOf(metadata.value),
    });
  }
  return { node: identifier === undefined ? undefined : (identifier.node?.id ?? ""), entries };
}

function marksOf(struct: Reader | undefined): Marks {
  const fields = struct === undefined ? [] : structMessage.read(struct).fields;
  const values = new Map(fields.map(({ key, value }) => [key, value]));
  const textOf = (name: string) => values.get(name)?.string_value ?? "";
  return {
    connection: textOf("connection"),
    proxy: textOf("proxy"),
    pod: textOf("pod"),
    route: textOf("route"),
    app: textOf("app"),
    method: textOf("method"),
    paid: values.get("paid")?.number_value ?? 0,
    settle: values.get("settle")?.bool_value ?? false,
  };
}

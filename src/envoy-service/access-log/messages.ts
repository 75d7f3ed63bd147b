/** Reads Envoy's access log messages: the metadata that the Lua script has set on each stream, and the bytes transferred. */
import { bool, double, list, MessageType, nested, text, uint32, uint64, unread } from "../grpc/message-type.js";
import type { Reader } from "../grpc/protobuf.js";

/** Values of `AccessLogType`. */
export const PERIODIC = 5;
export const END = 6;

/** Namespace of the script's metadata. */
const NAMESPACE = "tollgate";

export type Marks = ReturnType<typeof marksOf>;
export type LogEntry = ReturnType<typeof readAccessLogMessage>["entries"][number];

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
  response: nested(4, new MessageType({ response_body_bytes: uint64(3) })),
});

const streamMessage = new MessageType({
  identifier: nested(1, new MessageType({ node: nested(1, new MessageType({ id: text(1) })) })),
  http_logs: nested(2, new MessageType({ log_entry: list(1, entryMessage) })),
});

/** Reads a `StreamAccessLogsMessage`: its HTTP entries that have marks, and the node, which only the first message names. */
export function readAccessLogMessage(bytes: Uint8Array) {
  const { identifier, http_logs: logs } = streamMessage.decode(bytes);
  const entries = (logs?.log_entry ?? []).flatMap(({ common_properties: common, request, response }) => {
    const metadata = common?.metadata?.filter_metadata.findLast(({ key }) => key === NAMESPACE);
    if (metadata === undefined) return [];
    return {
      kind: common?.access_log_type ?? 0,
      requestBytes: request?.request_body_bytes ?? 0,
      responseBytes: response?.response_body_bytes ?? 0,
      marks: marksOf(metadata.value),
    };
  });
  return { node: identifier && (identifier.node?.id ?? ""), entries };
}

/** Metadata that the script has set on a stream. Empty, 0 or false if not set. */
function marksOf(struct: Reader | undefined) {
  const fields = struct === undefined ? [] : structMessage.read(struct).fields;
  const values = new Map(fields.map(({ key, value }) => [key, value]));
  const textOf = (name: string) => values.get(name)?.string_value ?? "";
  return {
    /** Id of a WebSocket connection that has or requests a slot. Set to empty when it is refused. */
    connection: textOf("connection"),
    proxy: textOf("proxy"),
    /** Unknown until the service has replied to the request for a slot. */
    pod: textOf("pod"),
    route: textOf("route"),
    app: textOf("app"),
    method: textOf("method"),
    /** Tokens taken for the exchange. */
    paid: values.get("paid")?.number_value ?? 0,
    /** The node that has taken them, in its epoch. */
    node: textOf("node"),
    /** The cost that the backend has stated; negative if it has not. */
    reportedCost: values.get("cost")?.number_value ?? -1,
    /** The service has to settle the exchange. */
    settle: values.get("settle")?.bool_value ?? false,
  };
}

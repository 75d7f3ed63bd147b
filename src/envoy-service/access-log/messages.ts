/** Reads Envoy's access log messages: the metadata that the Lua script has set on each stream, and the bytes transferred. */
import { FIXED64, LENGTH, Reader, tag, VARINT } from "../grpc/protobuf.js";

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

/** Reads a `StreamAccessLogsMessage`. */
export function readAccessLogMessage(bytes: Uint8Array): AccessLogMessage {
  const message: AccessLogMessage = { node: undefined, entries: [] };
  readFields(new Reader(bytes), {
    [tag(1, LENGTH)]: (identifier) => {
      message.node = "";
      readFields(identifier.message(), {
        [tag(1, LENGTH)]: (node) =>
          readFields(node.message(), {
            [tag(1, LENGTH)]: (id) => {
              message.node = id.text();
            },
          }),
      });
    },
    [tag(2, LENGTH)]: (httpLogs) =>
      readFields(httpLogs.message(), {
        [tag(1, LENGTH)]: (logEntry) => {
          const entry = readEntry(logEntry.message());
          if (entry !== undefined) message.entries.push(entry);
        },
      }),
  });
  return message;
}

/** Calls the handler of each known field and skips the others. */
function readFields(reader: Reader, handlers: Record<number, (reader: Reader) => void>): void {
  while (reader.next()) {
    const handle = handlers[reader.tag];
    if (handle === undefined) reader.skip();
    else handle(reader);
  }
}

function readEntry(reader: Reader): LogEntry | undefined {
  const entry = { kind: 0, status: 0, requestBytes: 0, responseBytes: 0 };
  let marks: Marks | undefined;
  readFields(reader, {
    [tag(1, LENGTH)]: (common) =>
      readFields(common.message(), {
        [tag(17, LENGTH)]: (metadata) => {
          marks = readMetadata(metadata.message()) ?? marks;
        },
        [tag(33, VARINT)]: (kind) => {
          entry.kind = kind.uint32();
        },
      }),
    [tag(3, LENGTH)]: (request) =>
      readFields(request.message(), {
        [tag(12, VARINT)]: (bytes) => {
          entry.requestBytes = bytes.uint();
        },
      }),
    [tag(4, LENGTH)]: (response) =>
      readFields(response.message(), {
        [tag(1, LENGTH)]: (code) =>
          readFields(code.message(), {
            [tag(1, VARINT)]: (value) => {
              entry.status = value.uint();
            },
          }),
        [tag(3, VARINT)]: (bytes) => {
          entry.responseBytes = bytes.uint();
        },
      }),
  });
  return marks === undefined ? undefined : { ...entry, marks };
}

/** `Metadata`: a map from namespaces to structs. */
function readMetadata(reader: Reader): Marks | undefined {
  let marks: Marks | undefined;
  readFields(reader, {
    [tag(1, LENGTH)]: (entry) => {
      const { key, value } = readMapEntry(entry.message());
      if (key === NAMESPACE) marks = readMarks(value);
    },
  });
  return marks;
}

function readMapEntry(reader: Reader): { key: string; value: Reader | undefined } {
  const entry: { key: string; value: Reader | undefined } = { key: "", value: undefined };
  readFields(reader, {
    [tag(1, LENGTH)]: (key) => {
      entry.key = key.text();
    },
    [tag(2, LENGTH)]: (value) => {
      entry.value = value.message();
    },
  });
  return entry;
}

type TextMark = "connection" | "proxy" | "pod" | "route" | "app" | "method";
const textMarks = new Set<string>(["connection", "proxy", "pod", "route", "app", "method"] satisfies TextMark[]);

function isTextMark(name: string): name is TextMark {
  return textMarks.has(name);
}

/** `Struct`: a map from names to values of different types. */
function readMarks(struct: Reader | undefined): Marks {
  const marks: Marks = {
    connection: "",
    proxy: "",
    pod: "",
    route: "",
    app: "",
    method: "",
    paid: 0,
    settle: false,
  };
  if (struct === undefined) return marks;
  readFields(struct, {
    [tag(1, LENGTH)]: (entry) => {
      const { key, value } = readMapEntry(entry.message());
      if (value === undefined) return;
      readFields(value, {
        [tag(2, FIXED64)]: (number) => {
          const paid = number.double();
          if (key === "paid") marks.paid = paid;
        },
        [tag(3, LENGTH)]: (string) => {
          const text = string.text();
          if (isTextMark(key)) marks[key] = text;
        },
        [tag(4, VARINT)]: (bool) => {
          const flag = bool.bool();
          if (key === "settle") marks.settle = flag;
        },
      });
    },
  });
  return marks;
}

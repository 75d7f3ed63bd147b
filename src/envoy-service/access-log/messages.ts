/** Envoy's access log entries, as far as tollgate reads them: what the plane's script wrote down, and the bytes that moved. */
import { FIXED64, LENGTH, Reader, tag, VARINT } from "../grpc/protobuf.js";

/** Kinds of entries that mean something here; see `AccessLogType`. */
export const PERIODIC = 5;
export const END = 6;

/** The namespace of the metadata that the script sets. */
export const NAMESPACE = "tollgate";

/** What the script wrote down about a stream. Empty, 0 or false: not written. */
export interface StreamMarks {
  /** A WebSocket that asks for a slot, or has one; empty again when it was refused. */
  connection: string;
  proxy: string;
  /** Where its slot is. Not known while the service is being asked. */
  pod: string;
  route: string;
  app: string;
  /** What was taken for the exchange, in tokens. */
  paid: number;
  method: string;
  /** What really moved is to be charged by the service. */
  settle: boolean;
}

export interface LoggedStream {
  kind: number;
  status: number;
  requestBytes: number;
  responseBytes: number;
  marks: StreamMarks;
}

export interface AccessLogMessage {
  /** Only in the first message of a stream. */
  node: string | undefined;
  streams: LoggedStream[];
}

/** Reads a `StreamAccessLogsMessage`. Streams without marks, and entries of TCP proxies, are left out. */
export function readAccessLogMessage(bytes: Uint8Array): AccessLogMessage {
  const message: AccessLogMessage = { node: undefined, streams: [] };
  const reader = new Reader(bytes);
  while (reader.next()) {
    if (reader.tag === tag(1, LENGTH)) message.node = readIdentifier(reader.message());
    else if (reader.tag === tag(2, LENGTH)) readEntries(reader.message(), message.streams);
    else reader.skip();
  }
  return message;
}

function readIdentifier(reader: Reader): string {
  let node = "";
  while (reader.next()) {
    if (reader.tag === tag(1, LENGTH)) node = readText(reader.message(), 1);
    else reader.skip();
  }
  return node;
}

/** The text of one field of a message. */
function readText(reader: Reader, field: number): string {
  let text = "";
  while (reader.next()) {
    if (reader.tag === tag(field, LENGTH)) text = reader.text();
    else reader.skip();
  }
  return text;
}

function readEntries(reader: Reader, streams: LoggedStream[]): void {
  while (reader.next()) {
    if (reader.tag !== tag(1, LENGTH)) reader.skip();
    else {
      const entry = readEntry(reader.message());
      if (entry !== undefined) streams.push(entry);
    }
  }
}

function readEntry(reader: Reader): LoggedStream | undefined {
  const entry = { kind: 0, status: 0, requestBytes: 0, responseBytes: 0 };
  let marks: StreamMarks | undefined;
  while (reader.next()) {
    switch (reader.tag) {
      case tag(1, LENGTH): {
        const common = readCommon(reader.message());
        entry.kind = common.kind;
        marks = common.marks;
        break;
      }
      case tag(3, LENGTH):
        entry.requestBytes = readNumber(reader.message(), 12);
        break;
      case tag(4, LENGTH):
        readResponse(reader.message(), entry);
        break;
      default:
        reader.skip();
    }
  }
  return marks === undefined ? undefined : { ...entry, marks };
}

function readCommon(reader: Reader): { kind: number; marks: StreamMarks | undefined } {
  let kind = 0;
  let marks: StreamMarks | undefined;
  while (reader.next()) {
    if (reader.tag === tag(33, VARINT)) kind = reader.uint32();
    else if (reader.tag === tag(17, LENGTH)) marks = readMetadata(reader.message()) ?? marks;
    else reader.skip();
  }
  return { kind, marks };
}

function readResponse(reader: Reader, entry: { status: number; responseBytes: number }): void {
  while (reader.next()) {
    if (reader.tag === tag(1, LENGTH)) entry.status = readNumber(reader.message(), 1);
    else if (reader.tag === tag(3, VARINT)) entry.responseBytes = reader.uint();
    else reader.skip();
  }
}

function readNumber(reader: Reader, field: number): number {
  let value = 0;
  while (reader.next()) {
    if (reader.tag === tag(field, VARINT)) value = reader.uint();
    else reader.skip();
  }
  return value;
}

/** `Metadata`: a map from namespaces to structs. */
function readMetadata(reader: Reader): StreamMarks | undefined {
  let marks: StreamMarks | undefined;
  while (reader.next()) {
    if (reader.tag !== tag(1, LENGTH)) reader.skip();
    else marks = readNamespace(reader.message()) ?? marks;
  }
  return marks;
}

function readNamespace(reader: Reader): StreamMarks | undefined {
  let name = "";
  let struct: Reader | undefined;
  while (reader.next()) {
    if (reader.tag === tag(1, LENGTH)) name = reader.text();
    else if (reader.tag === tag(2, LENGTH)) struct = reader.message();
    else reader.skip();
  }
  if (name !== NAMESPACE) return undefined;
  const marks: StreamMarks = {
    ...{ connection: "", proxy: "", pod: "", route: "", app: "", paid: 0, method: "", settle: false },
  };
  while (struct?.next()) {
    if (struct.tag === tag(1, LENGTH)) readMark(struct.message(), marks);
    else struct.skip();
  }
  return marks;
}

function readMark(reader: Reader, marks: StreamMarks): void {
  let name = "";
  let value: Reader | undefined;
  while (reader.next()) {
    if (reader.tag === tag(1, LENGTH)) name = reader.text();
    else if (reader.tag === tag(2, LENGTH)) value = reader.message();
    else reader.skip();
  }
  while (value?.next()) {
    if (value.tag === tag(2, FIXED64)) {
      const number = value.double();
      if (name === "paid") marks.paid = number;
    } else if (value.tag === tag(3, LENGTH)) {
      const text = value.text();
      if (isTextMark(name)) marks[name] = text;
    } else if (value.tag === tag(4, VARINT)) {
      const flag = value.bool();
      if (name === "settle") marks.settle = flag;
    } else value.skip();
  }
}

type TextMark = "connection" | "proxy" | "pod" | "route" | "app" | "method";
const textMarks = new Set<string>(["connection", "proxy", "pod", "route", "app", "method"] satisfies TextMark[]);

function isTextMark(name: string): name is TextMark {
  return textMarks.has(name);
}

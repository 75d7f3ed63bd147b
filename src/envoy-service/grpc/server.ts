/** gRPC over HTTP/2 streams: unary calls. Every call ends with a message or with a gRPC status. */
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import { OVERLOADED } from "../../core/codes.js";
import type { Log } from "../../shared/log.js";
import type { BufferShare } from "../buffers.js";
import type { Expiry } from "../expiry.js";
import { createMessageReader, framed, type MessageReader, onlyMessage } from "./framing.js";
import { ProtobufError } from "./protobuf.js";
import {
  DEADLINE_EXCEEDED,
  GrpcError,
  INTERNAL,
  INVALID_ARGUMENT,
  percentEncoded,
  timeoutMs,
  UNAVAILABLE,
  UNIMPLEMENTED,
} from "./status.js";

/** One message in, one message out. */
export interface UnaryMethod {
  /** `/package.Service/Method` */
  path: string;
  /** No token needed, as for health checks. */
  isPublic?: boolean;
  /** Throws a GrpcError to end the call with that status. The message is only valid until this returns. */
  call(message: Uint8Array): Promise<Uint8Array> | Uint8Array;
}

export interface GrpcServerOptions {
  methods: readonly UnaryMethod[];
  /** Read on every call. */
  maxMessageBytes(): number;
  /** For messages of public methods. */
  maxPublicBytes: number;
  /** Whether to refuse a new call because of overload. Public methods are always served. */
  sheds(): boolean;
  /** Ends calls that are not complete in time. */
  expiry: Expiry;
  log: Log;
}

export function createGrpcServer(options: GrpcServerOptions) {
  const { methods, maxMessageBytes, maxPublicBytes, sheds, expiry, log } = options;
  const byPath = new Map(methods.map((method) => [method.path, method]));

  function serveCall(
    stream: ServerHttp2Stream,
    method: UnaryMethod,
    headers: IncomingHttpHeaders,
    buffers: BufferShare,
  ): void {
    const deadlineMs = timeoutMs(headers["grpc-timeout"]);
    const call = oneMessage(method);
    const maxBytes = method.isPublic === true ? maxPublicBytes : maxMessageBytes();
    // Most calls are one chunk with the whole message, for which no reader is made.
    let reader: MessageReader | undefined;
    let timer: NodeJS.Timeout | undefined;
    let isOver = false;
    expiry.begin(abandon);

    function startTimer(): void {
      if (deadlineMs === undefined) return;
      const expire = () => fail(new GrpcError(DEADLINE_EXCEEDED, "the deadline of the call has passed"));
      timer = setTimeout(expire, deadlineMs);
    }

    function end(): boolean {
      if (isOver) return false;
      isOver = true;
      clearTimeout(timer);
      reader?.close();
      return true;
    }

    function closed(): void {
      end();
      expiry.end(abandon);
    }

    /** The client does not send the rest, or does not read the reply. */
    function abandon(): void {
      if (isOver) stream.close(constants.NGHTTP2_CANCEL);
      else fail(new GrpcError(DEADLINE_EXCEEDED, "the message was not complete in time"));
    }

    function fail(error: unknown): void {
      if (end()) endWithStatus(stream, statusOf(error, method.path, log));
    }

    function finish(): void {
      if (isOver) return;
      try {
        const message = call.ended();
        if (message instanceof Promise) {
          startTimer();
          message.then(succeed, fail);
        } else succeed(message);
      } catch (error) {
        fail(error);
      }
    }

    function succeed(message: Uint8Array): void {
      if (end()) reply(stream, message);
    }

    stream.on("data", (chunk: Buffer) => {
      if (isOver) return;
      try {
        const whole = reader === undefined ? onlyMessage(chunk, maxBytes) : undefined;
        if (whole !== undefined) call.message(whole);
        else {
          const encoding = headers["grpc-encoding"];
          reader ??= createMessageReader({ maxBytes, encoding, buffers }, (message) => call.message(message));
          reader.push(chunk);
        }
      } catch (error) {
        fail(error);
      }
    });
    stream.on("end", () => {
      if (stream.aborted) return;
      if (reader?.isComplete() !== false) finish();
      else fail(new GrpcError(INTERNAL, "the stream ended within a message"));
    });
    stream.on("close", closed);
  }

  return {
    isPublic: (path: string) => byPath.get(path)?.isPublic === true,
    /** `buffers`: of the connection. */
    serve(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, buffers: BufferShare): void {
      const method = byPath.get(headers[":path"] ?? "");
      try {
        if (method === undefined) throw new GrpcError(UNIMPLEMENTED, "unknown method");
        if (method.isPublic !== true && sheds()) throw new GrpcError(UNAVAILABLE, OVERLOADED);
        serveCall(stream, method, headers, buffers);
      } catch (error) {
        endWithStatus(stream, statusOf(error, headers[":path"] ?? "", log));
      }
    },
  };
}

/** A call has exactly one message, and is only known to have no other when its stream ends. */
function oneMessage(method: UnaryMethod) {
  let reply: Promise<Uint8Array> | Uint8Array | undefined;
  return {
    message(bytes: Uint8Array): void {
      if (reply !== undefined) throw new GrpcError(INTERNAL, "a unary call has one message");
      reply = method.call(bytes);
      // Awaited only when the stream ends, which may be after it rejects.
      if (reply instanceof Promise) reply.catch(() => {});
    },
    ended(): Promise<Uint8Array> | Uint8Array {
      if (reply === undefined) throw new GrpcError(INTERNAL, "a unary call needs a message");
      return reply;
    },
  };
}

/** Details of unexpected errors go to the log, not to the caller. */
function statusOf(error: unknown, method: string, log: Log): GrpcError {
  if (error instanceof GrpcError) return error;
  if (error instanceof ProtobufError) return new GrpcError(INVALID_ARGUMENT, `invalid message: ${error.message}`);
  log.error({ err: error, method }, "a gRPC call failed");
  return new GrpcError(INTERNAL, "internal error");
}

const HEADERS = { ":status": 200, "content-type": "application/grpc" };
const TRAILERS = { "grpc-status": "0" };
const WITH_TRAILERS = { waitForTrailers: true };

function reply(stream: ServerHttp2Stream, message: Uint8Array): void {
  if (stream.destroyed || stream.closed) return;
  stream.respond(HEADERS, WITH_TRAILERS);
  stream.on("wantTrailers", sendTrailers);
  stream.end(framed(message));
}

function sendTrailers(this: ServerHttp2Stream): void {
  this.sendTrailers(TRAILERS);
  // A reset in the same turn would drop the trailers.
  if (!this.readableEnded) setImmediate(() => this.close());
}

/** Sends the status in the headers and stops reading what the client still sends. */
export function endWithStatus(stream: ServerHttp2Stream, { status, message }: GrpcError): void {
  if (stream.destroyed || stream.closed || stream.headersSent) return;
  const headers = { ...HEADERS, "grpc-status": String(status), "grpc-message": percentEncoded(message) };
  // Required in the reply to a message that is compressed in an unsupported way.
  if (status === UNIMPLEMENTED) Object.assign(headers, { "grpc-accept-encoding": "identity" });
  stream.respond(headers, { endStream: true });
  stream.close();
}

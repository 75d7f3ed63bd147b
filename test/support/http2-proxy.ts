/** A proxy under test with TLS, and clients that use HTTP/2. */
import { once } from "node:events";
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type ClientSessionOptions,
  connect,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type SecureClientSessionOptions,
} from "node:http2";
import { request as httpsRequest } from "node:https";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { systemClock } from "../../src/shared/clock.js";
import type { SecureServerOptions } from "../../src/shared/tls/secure-server.js";
import { openTlsFiles } from "../../src/shared/tls/tls-files.js";
import { createTestAuthority, type TestAuthority } from "./certificates.js";
import { type RunningProxy, startProxy, type TestProxyOptions } from "./http-proxy.js";

const silent = { debug() {}, info() {}, warn() {}, error() {} };

export interface SecureProxy extends RunningProxy {
  readonly authority: TestAuthority;
  /** Closed with the proxy. */
  connect(options?: ClientSessionOptions & SecureClientSessionOptions): ClientHttp2Session;
  /** A TLS connection that sends raw frames. */
  connectRaw(): Promise<TLSSocket>;
  http1(method: string, path: string, headers?: OutgoingHttpHeaders, body?: Buffer): Promise<Answer>;
}

export interface Answer {
  status: number;
  headers: Record<string, unknown>;
  body: string;
}

/** TLS with HTTP/2 and a certificate of the authority. */
export function serverTls(authority: TestAuthority): SecureServerOptions {
  const { cert, key } = authority.issue("server");
  const files = openTlsFiles({ cert, key }, { name: "tls", clock: systemClock, log: silent });
  return { files, clientAuth: "none", protocols: ["h2", "http/1.1"], handshakeFailed() {} };
}

export async function startSecureProxy(options: TestProxyOptions): Promise<SecureProxy> {
  const authority = createTestAuthority();
  const proxy = await startProxy({ ...options, tls: serverTls(authority) });
  const ca = authority.pem;
  const ends: (() => void)[] = [];
  return {
    ...proxy,
    authority,
    connect(given = {}) {
      const session = connect(`https://localhost:${proxy.port}`, { ca, ...given });
      session.on("error", () => {});
      ends.push(() => session.destroy());
      return session;
    },
    async connectRaw() {
      const socket = connectTls({ host: "127.0.0.1", port: proxy.port, ca, ALPNProtocols: ["h2"] });
      socket.on("error", () => {});
      ends.push(() => socket.destroy());
      await once(socket, "secureConnect");
      return socket;
    },
    http1: (method, path, headers = {}, body = undefined) =>
      new Promise((resolve, reject) => {
        const sent = httpsRequest({
          host: "127.0.0.1",
          port: proxy.port,
          ca,
          servername: "localhost",
          method,
          path,
          headers,
          agent: false,
        });
        sent.on("error", reject);
        sent.on("response", (response) => {
          let text = "";
          response.setEncoding("latin1").on("data", (chunk: string) => (text += chunk));
          response.on("end", () => resolve({ status: response.statusCode!, headers: response.headers, body: text }));
          response.on("error", reject);
        });
        sent.end(body);
      }),
    async stop() {
      for (const end of ends.splice(0)) end();
      await proxy.stop();
      authority.remove();
    },
  };
}

export interface StreamAnswer extends Answer {
  trailers: IncomingHttpHeaders;
  informed: number[];
  /** The code of RST_STREAM. */
  code: number;
}

/** What the client has seen when the stream is closed. Status 0: no response. */
export function answerOf(stream: ClientHttp2Stream): Promise<StreamAnswer> {
  const answer: StreamAnswer = { status: 0, headers: {}, body: "", trailers: {}, informed: [], code: 0 };
  stream.on("error", () => {});
  stream.on("headers", (headers) => answer.informed.push(Number(headers[":status"])));
  stream.on("response", (headers) => {
    answer.status = Number(headers[":status"]);
    answer.headers = headers;
  });
  stream.on("trailers", (trailers) => (answer.trailers = trailers));
  stream.setEncoding("latin1");
  stream.on("data", (chunk: string) => (answer.body += chunk));
  return new Promise((resolve) => {
    stream.on("close", () => resolve({ ...answer, code: stream.rstCode ?? 0 }));
  });
}

export function http2(session: ClientHttp2Session, headers: OutgoingHttpHeaders, body?: Buffer): Promise<StreamAnswer> {
  const stream = session.request(headers, { endStream: body === undefined });
  if (body !== undefined) stream.end(body);
  return answerOf(stream);
}

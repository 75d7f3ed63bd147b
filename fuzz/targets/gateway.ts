/** A Node gateway with a strict backend: what reaches the backend is always well-formed, and every request is settled. */
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect, type Server } from "node:net";
import { createProxy } from "../../src/planes/node/http/proxy.js";

/** The longest time for a reply. */
const WAIT_MS = 500;
const HEALTH_EVERY = 50;

export async function startFuzzedGateway() {
  const wrong: string[] = [];
  // The gateway adds headers to those that it accepts.
  const backend = createServer({ maxHeaderSize: 32_768 }, (request, response) => {
    const problem = malformed(request);
    if (problem !== undefined) wrong.push(problem);
    request.resume().on("end", () => response.end("ok"));
  });
  // The parser of the backend is strict: what it rejects, the gateway must not send.
  backend.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    const isMalformed = error.code?.startsWith("HPE_") === true && error.code !== "HPE_INVALID_EOF_STATE";
    if (isMalformed) wrong.push(`the backend got a malformed request: ${error.message}`);
    socket.destroy();
  });
  const target = `127.0.0.1:${await listening(backend)}`;
  const verdict = { allowed: true, headers: {}, status: 200, body: "", app: "a" };
  let running = 0;
  const { server, close } = createProxy({
    routes: [{ path: "/", upstream: "backend" }],
    upstreams: { backend: { targets: [target] } },
    timeouts: { lingerMs: 10 },
    admission: {
      admit() {
        running++;
        return verdict;
      },
      settle: () => void running--,
    },
    log: { info() {}, warn: (fields) => fields.reason === "internal_error" && wrong.push(JSON.stringify(fields)) },
  });
  const port = await listening(server);
  let inputs = 0;

  return {
    port,
    server,
    wrong,
    /** After each input: throws if something was wrong, and sometimes asks as another client. */
    async check(): Promise<void> {
      if (++inputs % HEALTH_EVERY === 0) {
        const { status } = await fetch(`http://127.0.0.1:${port}/`);
        if (status !== 200) wrong.push(`another client got ${status}`);
      }
      if (wrong.length > 0) throw new Error(wrong.splice(0).join("; "));
    },
    async stop(): Promise<void> {
      await close();
      backend.closeAllConnections();
      backend.close();
      if (running !== 0) throw new Error(`${running} admitted requests were not settled`);
    },
  };
}

function malformed({ rawHeaders, headers, url = "" }: IncomingMessage): string | undefined {
  const names = rawHeaders.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());
  const count = (name: string) => names.filter((other) => other === name).length;
  if (count("content-length") + count("transfer-encoding") > 1) return `framing is ambiguous: ${rawHeaders}`;
  if (count("host") !== 1) return `${count("host")} Host headers: ${rawHeaders}`;
  if (headers["keep-alive"] !== undefined || headers["proxy-connection"] !== undefined)
    return "hop-by-hop headers are forwarded";
  return url.startsWith("/") || url === "*" ? undefined : `the target is ${JSON.stringify(url)}`;
}

/** Sends bytes and the end of the stream, and returns what is received until the connection is closed, or `isOver`. */
export function exchange(port: number, bytes: Buffer, isOver = (_received: Buffer) => false): Promise<Buffer> {
  return new Promise((resolve) => {
    let received = Buffer.alloc(0);
    const socket = connect(port, "127.0.0.1", () => socket.end(bytes));
    const timer = setTimeout(() => socket.destroy(), WAIT_MS);
    socket.on("error", () => {});
    socket.on("data", (data) => {
      received = Buffer.concat([received, data]);
      if (isOver(received)) socket.destroy();
    });
    socket.on("close", () => {
      clearTimeout(timer);
      resolve(received);
    });
  });
}

export async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

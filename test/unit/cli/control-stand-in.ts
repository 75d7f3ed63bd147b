/** A fake control listener that records its requests. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Asked {
  method: string;
  path: string;
  body: unknown;
  headers: IncomingHttpHeaders;
}

type Reply = { status: number; body: unknown } | ((response: ServerResponse, asked: Asked) => void);

export interface StandIn {
  readonly url: string;
  readonly place: string;
  readonly asked: Asked[];
  /** "GET /path" without query → the response. */
  readonly answers: Map<string, Reply>;
  stop(): Promise<void>;
}

export const ok = (body: unknown): Reply => ({ status: 200, body });

export async function startStandIn(): Promise<StandIn> {
  const asked: Asked[] = [];
  const answers = new Map<string, Reply>();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const text = Buffer.concat(chunks).toString("utf8");
      const { method = "", url: path = "", headers } = request;
      const one: Asked = { method, path, headers, body: text === "" ? undefined : JSON.parse(text) };
      asked.push(one);
      const reply = answers.get(`${method} ${path.split("?")[0]}`) ?? {
        status: 404,
        body: { error: "not_found", reason: "no_such_endpoint" },
      };
      if (typeof reply === "function") {
        reply(response, one);
        return;
      }
      response.writeHead(reply.status, { "content-type": "application/json" });
      response.end(JSON.stringify(reply.body));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const place = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    ...{ url: `http://${place}`, place, asked, answers },
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

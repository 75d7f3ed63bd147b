/** Backends that report in X-Resources which resources they took a request for, each by several readings of its target. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, posix } from "node:path";
import express from "express";
import { freePort } from "./ports.js";
import { startProcess } from "./processes.js";
import { waitFor } from "./wait-for.js";

export interface UnderstandingBackend {
  readonly port: number;
  readonly target: string;
  stop(): Promise<void>;
}

/** A limited resource that a request with this path gets; empty without one. */
function resourceOf(path: string): string {
  if (path.startsWith("/admin/")) return "admin";
  if (path === "/login") return "login";
  return path === "/café" ? "cafe" : "";
}

/** How servers written for Node and others find the path of a target. */
const readings: Record<string, (target: string) => string> = {
  rawCafe: (target) => (target.split("?")[0] === "/caf%C3%A9" ? "/café" : ""),
  raw: (target) => target.split("?")[0]!,
  withoutFragment: (target) => target.split(/[?#]/)[0]!,
  url: (target) => decodeURIComponent(new URL(target, "http://x").pathname),
  fileServer: (target) => posix.normalize(decodeURIComponent(target.split(/[?#]/)[0]!)),
  windows: (target) => posix.normalize(decodeURIComponent(target.split(/[?#]/)[0]!).replaceAll("\\", "/")),
  servlet(target) {
    const path = target.split(/[?#]/)[0]!.replace(/;[^/]*/g, "");
    return posix.normalize(decodeURIComponent(path));
  },
};

function understood({ url = "", headers }: IncomingMessage): string[] {
  const found = Object.entries(readings).flatMap(([name, read]) => {
    try {
      const resource = resourceOf(read(url));
      return resource === "" ? [] : [`${name}:${resource}`];
    } catch {
      // The server would answer 400.
      return [];
    }
  });
  const host = (headers.host ?? "")
    .toLowerCase()
    .replace(/:[0-9]*$/, "")
    .replace(/\.$/, "");
  return host === "vip.test" ? [...found, "host:vip"] : found;
}

/** Express with its defaults, and what the other readings of the same request say. `first`: further middleware. */
export function understandingApp(first: express.RequestHandler[] = []): express.Express {
  const app = express();
  const mark =
    (name: string): express.RequestHandler =>
    (_request, { locals }, next) => {
      locals.found.push(`express:${name}`);
      next();
    };
  const api = express.Router();
  api.use("/admin", mark("admin"));
  api.all("/login", mark("login"));
  api.all("/caf%C3%A9", mark("cafe"));
  app.use((request, { locals }, next) => {
    locals.found = understood(request);
    next();
  });
  app.use(...([(_q, _r, next) => next(), ...first] as [express.RequestHandler]), api);
  app.use((_request, response) => {
    response.set("X-Resources", response.locals.found.join(",")).send("ok");
  });
  return app;
}

export async function startBackend(handler: RequestListener): Promise<UnderstandingBackend> {
  const server = createServer(handler);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    target: `127.0.0.1:${port}`,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** nginx as a file server reads paths: decoded, with slashes merged and dot segments resolved. */
export async function startStaticNginx(): Promise<UnderstandingBackend> {
  const dir = mkdtempSync(join(tmpdir(), "tollgate-static-"));
  chmodSync(dir, 0o755);
  const port = await freePort();
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (name) => `${name}_temp_path ${dir}/${name};`,
  );
  const file = join(dir, "nginx.conf");
  const answer = (resource: string) => `add_header X-Resources "${resource}" always; return 200 "ok";`;
  writeFileSync(
    file,
    `pid ${dir}/nginx.pid; error_log ${dir}/error.log; worker_processes 1; events { }
http { access_log off; ${temporary.join(" ")} keepalive_requests 1000000;
server { listen 127.0.0.1:${port};
  location / { ${answer("")} }
  location /admin/ { ${answer("nginx:admin")} }
  location = /login { ${answer("nginx:login")} }
  location = "/café" { ${answer("nginx:cafe")} }
} }`,
  );
  const child = startProcess("nginx", ["-p", dir, "-c", file, "-g", "daemon off;"], dir);
  await waitFor("nginx to listen", async () => {
    if (child.hasEnded()) throw new Error(child.output());
    return (await fetch(`http://127.0.0.1:${port}/`)).ok;
  });
  return {
    port,
    target: `127.0.0.1:${port}`,
    async stop() {
      await child.end("SIGTERM");
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** The page of the dashboard and its scripts and styles, which `make build` writes to dist/dashboard. */
import { readdirSync, readFileSync } from "node:fs";
import { extname } from "node:path";
import { type Endpoint, endpoint, ok, problem, type Reply } from "../operations/endpoint.js";

/** The path is the same from src and from dist. */
const folder = new URL("../../../dist/dashboard/", import.meta.url);

/** Nothing is loaded from other hosts, and no other site may show the page in a frame. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "font-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

const headers = {
  "Content-Security-Policy": policy,
  "Referrer-Policy": "no-referrer",
  "X-Frame-Options": "DENY",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
};

const mediaTypes: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
};

/** Names of assets contain a hash of their content. */
const FOREVER = "public, max-age=31536000, immutable";

type Files = ReadonlyMap<string, { content: Buffer; mediaType: string }>;

export function fileEndpoints(): Endpoint[] {
  let files: Files | undefined;

  /** Read at the first request, so that services without viewers do not keep them in memory. */
  function find(name: string) {
    files ??= readFiles();
    return files.get(name);
  }

  function page(): Reply {
    const file = find("index.html");
    if (file === undefined) {
      return problem(503, "unavailable", "dashboard_not_built", { detail: "run make build to build the dashboard" });
    }
    return ok(file.content, { mediaType: file.mediaType, headers: { ...headers, "Cache-Control": "no-cache" } });
  }

  return [
    endpoint("GET", "/", "address", {
      summary: "The dashboard.",
      hidden: true,
      reply: { text: "text/html" },
      handle: page,
    }),
    endpoint("GET", "/assets/{file}", "address", {
      summary: "Scripts and styles of the dashboard.",
      hidden: true,
      reply: { text: "text/javascript" },
      handle({ params: { file: name = "" } }) {
        const file = find(`assets/${name}`);
        if (file === undefined) return problem(404, "not_found", "no_such_file");
        return ok(file.content, { mediaType: file.mediaType, headers: { ...headers, "Cache-Control": FOREVER } });
      },
    }),
  ];
}

/** Only files that exist now are served: the name in a request is never part of a path. */
function readFiles(): Files {
  try {
    const names = ["index.html", ...readdirSync(new URL("assets/", folder)).map((name) => `assets/${name}`)];
    return new Map(
      names.map((name) => {
        const mediaType = mediaTypes[extname(name)] ?? "application/octet-stream";
        return [name, { content: readFileSync(new URL(name, folder)), mediaType }];
      }),
    );
  } catch {
    return new Map();
  }
}

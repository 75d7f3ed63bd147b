/** An nginx with its own Lua directives calls Tollgate from them, as examples/nginx/own-lua.conf shows. */
import { execFile } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { request } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import { fromRoot } from "../../../../build/paths.js";
import { command as renderCommand } from "../../../../src/cli/render.js";
import { PLANE_TOKEN, startGateway, startSmallBackend } from "../../../support/gateway-process.js";
import { nginxPlane } from "../../../support/nginx-process.js";
import { freePort } from "../../../support/ports.js";
import { startProcess } from "../../../support/processes.js";
import { waitFor } from "../../../support/wait-for.js";

const endings: (() => unknown)[] = [];
let dir: string;
let url: string;
let spent: () => Promise<number>;

beforeAll(async () => {
  nginxPlane();
  dir = mkdtempSync(join(tmpdir(), "tollgate-own-lua-"));
  endings.push(() => rmSync(dir, { recursive: true, force: true }));
  chmodSync(dir, 0o755);
  const backend = await startSmallBackend();
  endings.push(() => backend.stop());
  const limits = `
log: { level: warn }
workers: 1
lease: { report_interval_ms: 1000 }
apps: { default: { guaranteed: 1000, burst: 2000 }, demo: { guaranteed: 1, burst: 6 } }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`;
  const service = await startGateway(limits);
  endings.push(() => service.stop());
  const metrics = async () => (await request(`${service.controlUrl}/metrics`)).body.text();
  spent = async () => Number(/ratelimit_requests_total\{[^}]*app_id="default"[^}]*\} (\d+)/.exec(await metrics())?.[1]);
  const file = join(dir, "tollgate.yaml");
  const trusted = 'identity: { trusted_hops: ["127.0.0.0/8"] }';
  writeFileSync(file, `control: { plane_token: ${PLANE_TOKEN} }\n${trusted}\n${limits}`);
  const [port, status] = [await freePort(), await freePort()];
  const args = ["--config", file, "--out", join(dir, "tollgate"), "--service", service.controlUrl.slice(7)];
  await renderCommand.run(["nginx", ...args, "--include", "--own-lua", "--status", `127.0.0.1:${status}`]);
  const site = readFileSync(fromRoot("examples/nginx/own-lua.conf"), "utf8")
    .replaceAll("/etc/nginx/tollgate", join(dir, "tollgate"))
    .replace("listen 8080", `listen 127.0.0.1:${port}`)
    .replace("127.0.0.1:9000", backend.target);
  const nginx = startProcess("nginx", ["-p", dir, "-c", conf("own.conf", site), "-g", "daemon off;"], dir);
  endings.push(() => nginx.end("SIGTERM"));
  url = `http://127.0.0.1:${port}/`;
  await waitFor("nginx to admit a request", async () => {
    if (nginx.hasEnded()) throw new Error(nginx.output());
    return (await get("default")).status === 200;
  });
});
afterAll(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

/** Writes a complete configuration with `site` in its http section. */
function conf(name: string, site: string): string {
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((kind) => {
    mkdirSync(join(dir, kind), { recursive: true });
    return `${kind}_temp_path ${dir}/${kind};`;
  });
  const text = `load_module /usr/lib/nginx/modules/ndk_http_module.so;
load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;
worker_processes 1; pid ${dir}/${name}.pid; error_log stderr warn;
events {}
http { access_log off; ${temporary.join(" ")}
${site}
}`;
  writeFileSync(join(dir, name), text);
  return join(dir, name);
}

async function get(app: string, query = "") {
  const { statusCode, headers, body } = await request(url + query, { headers: { "X-App-Id": app } });
  await body.dump();
  return { status: statusCode, version: headers["x-version"], cost: headers["x-ratelimit-cost"] };
}

it("admitted requests run the own code before and after the decision", async () => {
  expect(await get("default")).toMatchObject({ status: 200, version: "1.2.3", cost: "2" });
});

it("what the own code refuses costs nothing", async () => {
  expect(await get("default", "?token=revoked")).toEqual({ status: 403, version: undefined, cost: undefined });
});

it("a refusal of Tollgate ends the request: the code after it does not run", async () => {
  const refused = await waitFor("a refusal", async () => {
    const answer = await get("demo");
    return answer.status === 429 && answer;
  });
  expect(refused.version).toBeUndefined();
});

it("the service counts the requests: all phases of Tollgate are called", async () => {
  const before = (await spent()) || 0;
  await get("default");
  await waitFor("the request to be counted", async () => (await spent()) > before);
});

it("without --own-lua, nginx rejects the duplicate directive", async () => {
  const include = join(dir, "plain");
  const args = ["--config", join(dir, "tollgate.yaml"), "--out", include, "--include", "--service", "127.0.0.1:1"];
  await renderCommand.run(["nginx", ...args]);
  const file = conf("plain.conf", `include ${include}/tollgate-http.conf;\ninit_by_lua_block { version = "1.2.3" }`);
  const failed = promisify(execFile)("nginx", ["-t", "-p", dir, "-c", file]);
  await expect(failed).rejects.toMatchObject({ stderr: expect.stringContaining("is duplicate") });
});

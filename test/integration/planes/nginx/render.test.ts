/** nginx accepts the output of `tollgate render nginx`, and invalid options are reported before anything is written. */
import { execFile } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { command as renderCommand } from "../../../../src/cli/render.js";

const run = promisify(execFile);
let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "tollgate-render-"));
  chmodSync(dir, 0o755);
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const SECRET = "a-token-of-data-planes";
const plain = `
listen: 127.0.0.1:18080
control: { plane_token: ${SECRET} }
identity: { api_keys: { video: [a-key-of-sixteen-or-more] } }
apps: { video: { guaranteed: 100 }, "odd.app:1": { guaranteed: 1 } }
upstreams:
  backend: { targets: ["127.0.0.1:9001", "http://127.0.0.1:9002"] }
  "odd:name": { targets: ["https://127.0.0.1:9003"], pass_host: false, tls: { name: odd.example } }
routes:
  - { path: /, upstream: backend }
  - { path: /api, upstream: "odd:name" }
  - { path: /files/, upstream: backend, host: files.example.com }
`;

function render(yaml: string, ...args: string[]): string {
  const file = join(dir, "tollgate.yaml");
  writeFileSync(file, yaml);
  const out = join(dir, "out");
  return String(renderCommand.run(["nginx", "--config", file, "--out", out, "--run", dir, ...args]));
}

const read = (name: string) => readFileSync(join(dir, "out", name), "utf8");
const nginxTakes = (conf: string) => run("nginx", ["-t", "-p", dir, "-c", conf]);

/** An existing nginx.conf. */
function own(http: string): string {
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (name) => `${name}_temp_path ${dir}/${name};`,
  );
  return `load_module /usr/lib/nginx/modules/ndk_http_module.so;
load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;
pid ${dir}/own.pid; error_log ${dir}/own.log;
events {}
http { access_log off; ${temporary.join(" ")}
  ${http}
}`;
}

describe("tollgate render nginx", () => {
  it("writes a configuration that Debian's nginx accepts", async () => {
    render(plain);
    const { stderr } = await nginxTakes(join(dir, "out", "nginx.conf"));
    expect(stderr).toContain("syntax is ok");
  });

  it("writes the token for the owner only, and no API keys", () => {
    render(plain);
    expect(read("tollgate-settings.lua")).toContain(SECRET);
    expect(statSync(join(dir, "out", "tollgate-settings.lua")).mode & 0o777).toBe(0o600);
    for (const name of ["nginx.conf", "tollgate-http.conf", "tollgate-location.conf", "tollgate.lua"]) {
      expect(read(name)).not.toContain(SECRET);
    }
    expect(read("tollgate-settings.lua")).not.toContain("a-key-of-sixteen-or-more");
  });

  it("writes includes for an nginx with its own configuration", async () => {
    render(plain, "--include");
    const conf = join(dir, "own.conf");
    writeFileSync(
      conf,
      own(`include ${dir}/out/tollgate-http.conf;
  server { listen 127.0.0.1:18081; location / { include ${dir}/out/tollgate-location.conf; proxy_pass http://127.0.0.1:9001; } }`),
    );
    const { stderr } = await nginxTakes(conf);
    expect(stderr).toContain("syntax is ok");
  });

  const sockets = plain.replace(
    "- { path: /api,",
    "- { path: /ws/, upstream: backend, connections: { max_total: 20000, idle_ms: 5000 } }\n" +
      '  - { path: /odd, host: odd.example.com, upstream: "odd:name", connections: {} }\n  - { path: /api,',
  );

  it("writes routes with connections: an upstream per pod, enough connections, no shutdown timeout", async () => {
    render(sockets);
    const { stderr } = await nginxTakes(join(dir, "out", "nginx.conf"));
    expect(stderr).toContain("syntax is ok");
    expect(read("tollgate-http.conf")).toContain("lua_shared_dict tollgate_connections 16m;");
    expect(read("tollgate-http.conf").match(/^upstream .* server 127.0.0.1:900[1-3]; /gm)).toHaveLength(3);
    expect(read("nginx.conf")).toMatch(/worker_connections 43024;/);
    // nginx closes idle connections at the limit of connections, not at that of files.
    expect(read("nginx.conf")).toMatch(/worker_rlimit_nofile 51280;/);
    expect(read("nginx.conf")).not.toMatch(/^worker_shutdown_timeout/m);
    expect(read("tollgate-connections_ws_.conf")).toContain("proxy_read_timeout 5000ms;");
    render(plain);
    expect(read("nginx.conf")).toMatch(/^worker_shutdown_timeout/m);
    expect(read("tollgate-http.conf")).not.toContain("tollgate_connections");
  });

  it("writes routes with connections as self-contained includes", async () => {
    render(sockets, "--include");
    const conf = join(dir, "own.conf");
    const include = (name: string) => `include ${dir}/out/${name};`;
    writeFileSync(
      conf,
      own(`${include("tollgate-http.conf")}
  server { listen 127.0.0.1:18081;
    location /ws/ { ${include("tollgate-connections_ws_.conf")} }
    location /odd/ { ${include("tollgate-connections-odd.example.com_odd.conf")} }
  }`),
    );
    const { stderr } = await nginxTakes(conf);
    expect(stderr).toContain("syntax is ok");
    // An nginx that has no location for them yet.
    writeFileSync(conf, own(include("tollgate-http.conf")));
    expect((await nginxTakes(conf)).stderr).toContain("syntax is ok");
  });

  it("listens where --listen says, otherwise as configured", () => {
    render(plain);
    expect(read("nginx.conf")).toContain("listen 127.0.0.1:18080 default_server");
    render(plain, "--listen", "[::1]:18082");
    expect(read("nginx.conf")).toContain("listen [::1]:18082 default_server");
    expect(read("nginx.conf")).not.toContain("18080");
  });

  it("omits Debian's directives for OpenResty", () => {
    render(plain, "--openresty");
    expect(read("nginx.conf")).not.toMatch(/load_module|www-data/);
  });

  it("sizes the dictionary by the number of apps", () => {
    const apps = Array.from({ length: 3000 }, (_, i) => `  app-${i}: { guaranteed: 1 }\n`).join("");
    render(`${plain.replace(/apps:.*\n/, "")}apps:\n  video: { guaranteed: 1 }\n${apps}`);
    expect(read("tollgate-http.conf")).toContain("lua_shared_dict tollgate 16m;");
  });

  it("gives each data plane its own token and no other", () => {
    const own = plain.replace(
      `plane_token: ${SECRET}`,
      "planes: { edge-1: [the-new-token-of-edge-1, the-old-token-of-edge-1], edge-2: the-token-of-edge-2 }",
    );
    render(own, "--node", "edge-1-a");
    const text = read("tollgate-settings.lua");
    expect(text).toContain("the-new-token-of-edge-1");
    expect(text).not.toMatch(/the-old-token|the-token-of-edge-2/);
    for (const node of [[], ["--node", "edge-3"]])
      expect(() => render(own, ...node)).toThrow("--node must name one of");
  });

  it.each([
    ["no token of data planes", plain.replace(SECRET, '""'), [], "control.plane_token is empty"],
    ["no routes", plain.slice(0, plain.indexOf("upstreams:")), [], "routes is empty"],
    ["a service with a host name, without a resolver", plain, ["--service", "service.example.com:9145"], "--resolver"],
    ["a listener without a port", plain, ["--listen", "10.0.0.1"], "--listen 10.0.0.1: must be host:port"],
    ["a listener of an nginx with its own", plain, ["--listen", "10.0.0.1:1", "--include"], "--listen: with --include"],
    ["own Lua in a rendered nginx.conf", plain, ["--own-lua"], "--own-lua requires --include"],
    ["a service without a port", plain, ["--service", "10.0.0.1"], "must be host:port"],
    ["a configured listener with port 0", plain.replace("18080", "0"), [], "listen 127.0.0.1:0: must be host:port"],
    [
      "a control listener with port 0",
      plain.replace("control: {", "control: { listen: 127.0.0.1:0,"),
      [],
      "control.listen 127.0.0.1:0: must be host:port",
    ],
    [
      "a resolver that is not an IP address",
      plain,
      ["--service", "a.example.com:1", "--resolver", "dns;"],
      "must be an IP address",
    ],
    ["http and https in one upstream", plain.replace('"http://127', '"https://127'), [], "upstreams.backend.targets"],
    ["a path that contains an nginx variable", plain.replace("/api", "/$api"), [], "routes[].path"],
    [
      "an https target without a name",
      plain.replace(", tls: { name: odd.example }", ""),
      [],
      "upstreams.odd:name.tls.name: is required",
    ],
    [
      "a service with TLS and no name",
      plain.replace("control: {", "control: { tls: { cert: /c, key: /k },"),
      ["--service", "10.0.0.1:1"],
      "use --service-name",
    ],
    ["a certificate without its key", plain, ["--tls-certificate", "/x"], "must be used together"],
  ])("reports the problem: %s", (_what, yaml, args, complaint) => {
    expect(() => render(yaml, ...args)).toThrow(complaint);
  });
});

/** nginx with its own limit_req and limit_conn. The nodes share nothing, so each gets a third of the limit. */
import { execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../test/support/ports.js";
import { startProcess } from "../../test/support/processes.js";
import { cpuNs } from "../support/cpu-time.js";
import { accepts } from "./accepts.js";
import { type Kind, keeping, LIMIT, MOST_CONNECTIONS, NODES, perNode, USER_RATE } from "./system.js";

const zones = `# The key is empty, and not limited, for other apps.
map $http_x_app_id $app { app app; busy busy; default ""; }
map $http_x_app_id $user { app $http_x_user_id; default ""; }
limit_req_zone $app zone=apps:10m rate=${LIMIT.rate / NODES}r/s;
limit_req_zone $user zone=users:10m rate=${USER_RATE / NODES}r/s;
limit_req_status 429;`;
const limits = `limit_req zone=apps burst=${LIMIT.burst / NODES} nodelay;
limit_req zone=users burst=${USER_RATE / NODES} nodelay;`;
const busy = zones.replace(`rate=${LIMIT.rate / NODES}r/s`, "rate=1000000r/s");
const connectionZone = `limit_conn_zone $server_name zone=connections:10m;\nlimit_conn_status 429;`;
const connectionLimit = `limit_conn connections ${MOST_CONNECTIONS / NODES};
proxy_set_header Upgrade $http_upgrade;
proxy_set_header Connection upgrade;`;

/** `http` and `location` are lines of these sections. */
async function startNginx(target: string, http: string, location: string) {
  const dir = mkdtempSync(join(tmpdir(), "compare-nginx-"));
  chmodSync(dir, 0o755);
  const port = await freePort();
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (name) => `${name}_temp_path ${dir}/${name};`,
  );
  writeFileSync(
    join(dir, "nginx.conf"),
    `worker_processes 1; pid ${dir}/nginx.pid; error_log ${dir}/error.log crit; daemon off;
events { worker_connections 4096; }
http {
access_log off; keepalive_requests 100000; ${temporary.join(" ")}
${http}
upstream backend { server ${target}; keepalive 64; }
server {
  listen 127.0.0.1:${port};
  server_name compare;
  location / {
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    ${location}
    proxy_pass http://backend;
  }
}
}
`,
  );
  const child = startProcess("nginx", ["-p", dir, "-c", join(dir, "nginx.conf")], dir);
  await accepts(port, child);
  const workers = () =>
    readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8").trim().split(" ").map(Number);
  const end = async () => {
    const pids = child.hasEnded() ? [] : workers();
    await child.end("SIGKILL");
    for (const pid of pids) process.kill(pid, "SIGKILL");
  };
  return {
    port,
    workers,
    kill: end,
    async stop() {
      await end();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

export const nginxPeer: Kind = {
  name: "nginx",
  title: "nginx limit_req, limit_conn",
  isOurs: false,
  version: () =>
    execFileSync("sh", ["-c", "nginx -v 2>&1"], { encoding: "utf8" }).trim().replace("nginx version: nginx/", ""),
  configuration: `${zones}\nserver {\n  ${limits.replace("\n", "\n  ")}\n}\n# Connections, on another server:\n${connectionZone}\nlimit_conn connections ${MOST_CONNECTIONS / NODES};`,
  source: "nginx.org, ngx_http_limit_req_module and ngx_http_limit_conn_module",
  hasUserLimit: true,
  start: (world) =>
    keeping(async (keep) => {
      const nodes = await perNode(async () => keep(await startNginx(world.backend, zones, limits)));
      const unlimited = keep(await startNginx(world.backend, busy, limits));
      const bare = keep(await startNginx(world.backend, "", ""));
      return {
        urls: nodes.map(({ port }) => `http://127.0.0.1:${port}/`),
        busyUrl: `http://127.0.0.1:${unlimited.port}/`,
        bareUrl: `http://127.0.0.1:${bare.port}/`,
        nodeNs: () => cpuNs(unlimited.workers()),
        bareNs: () => cpuNs(bare.workers()),
      };
    }),
  startConnections: (world) =>
    keeping(async (keep) => {
      const nodes = await perNode(async () => keep(await startNginx(world.pod, connectionZone, connectionLimit)));
      return { urls: nodes.map(({ port }) => `ws://127.0.0.1:${port}`), killFirst: () => nodes[0]!.kill() };
    }),
};

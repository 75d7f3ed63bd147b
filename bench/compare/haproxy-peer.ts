/** HAProxy with stick tables and peers, from Debian's package in .cache. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fromRoot } from "../../build/paths.js";
import { freePort } from "../../test/support/ports.js";
import { startProcess } from "../../test/support/processes.js";
import { cpuNs } from "../support/cpu-time.js";
import { accepts } from "./accepts.js";
import { type Kind, keeping, LIMIT, MOST_CONNECTIONS, NODES, USER_RATE } from "./system.js";

const FOLDER = fromRoot(".cache/haproxy");
const PACKAGES = ["haproxy", "liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1"];

/** Unpacks the packages into .cache. Undefined, with a message, if that is not possible. */
export function haproxyProgram(): string[] | undefined {
  try {
    if (!existsSync(join(FOLDER, "usr/sbin/haproxy"))) install();
    const library = readdirSync(join(FOLDER, "usr/lib")).find((name) => name.endsWith("-linux-gnu"));
    const program = [
      "env",
      `LD_LIBRARY_PATH=${join(FOLDER, "usr/lib", library ?? "")}`,
      join(FOLDER, "usr/sbin/haproxy"),
    ];
    execFileSync(program[0]!, [...program.slice(1), "-v"], { stdio: "pipe" });
    return program;
  } catch (error) {
    console.error(`HAProxy is not compared: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  }
}

function install(): void {
  const packages = mkdtempSync(join(tmpdir(), "compare-haproxy-"));
  try {
    execFileSync("apt-get", ["download", ...PACKAGES], { cwd: packages, stdio: "pipe" });
    mkdirSync(FOLDER, { recursive: true });
    for (const file of readdirSync(packages)) execFileSync("dpkg-deb", ["-x", join(packages, file), FOLDER]);
  } finally {
    rmSync(packages, { recursive: true, force: true });
  }
}

const tables = `backend apps
  stick-table type string len 64 size 100k expire 10s store http_req_rate(1s) peers nodes
backend users
  stick-table type string len 64 size 100k expire 10s store http_req_rate(1s) peers nodes`;
const rules = `  http-request track-sc0 hdr(X-App-Id) table apps
  http-request track-sc1 hdr(X-User-Id) table users
  http-request deny deny_status 429 if { hdr(X-App-Id) app } { sc_http_req_rate(0,apps) gt ${LIMIT.rate / NODES} }
  http-request deny deny_status 429 if { hdr(X-App-Id) app } { sc_http_req_rate(1,users) gt ${USER_RATE / NODES} }`;
const connectionTables = `backend connections
  stick-table type integer size 10 expire 1h store conn_cur peers nodes`;
const connectionRules = `  http-request track-sc0 int(1) table connections
  http-request deny deny_status 429 if { sc_conn_cur(0,connections) gt ${MOST_CONNECTIONS / NODES} }`;

interface Part {
  rules: string;
  tables: string;
}

async function startHaproxies(program: string[], target: string, { rules: own, tables: stick }: Part) {
  const ports = await Promise.all(
    Array.from({ length: NODES }, async () => ({ client: await freePort(), peer: await freePort() })),
  );
  const peers = ports.map(({ peer }, i) => `  peer node${i + 1} 127.0.0.1:${peer}`).join("\n");
  const started: { port: number; pid: number; stop(): Promise<void> }[] = [];
  for (const [i, { client }] of ports.entries()) {
    const dir = mkdtempSync(join(tmpdir(), "compare-haproxy-"));
    writeFileSync(
      join(dir, "haproxy.cfg"),
      `global
  maxconn 4096
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 1h
${stick === "" ? "" : `peers nodes\n${peers}\n${stick}`}
frontend clients
  bind 127.0.0.1:${client}
${own}
  default_backend servers
backend servers
  http-reuse always
  server backend ${target}
`,
    );
    const args = [...program.slice(1), "-f", join(dir, "haproxy.cfg"), "-L", `node${i + 1}`];
    const child = startProcess(program[0]!, args, dir);
    await accepts(client, child);
    const stop = async () => {
      await child.end("SIGKILL");
      rmSync(dir, { recursive: true, force: true });
    };
    started.push({ port: client, pid: child.pid, stop });
  }
  return { nodes: started, stop: async () => void (await Promise.all(started.map(({ stop }) => stop()))) };
}

export const haproxyPeer = (program: string[]): Kind => ({
  name: "haproxy",
  title: "HAProxy stick tables",
  isOurs: false,
  version: () =>
    /version (\S+)/.exec(execFileSync(program[0]!, [...program.slice(1), "-v"], { encoding: "utf8" }))?.[1] ?? "?",
  configuration: `peers nodes\n  peer node1 …\n${tables}\nfrontend clients\n${rules}\n# Connections:\n${connectionTables}\n${connectionRules}`,
  source:
    "docs.haproxy.org, stick-table and peers: a peer replaces the values of others and does not add to them, so each node has a third of the limit",
  hasUserLimit: true,
  start: (world) =>
    keeping(async (keep) => {
      const { nodes } = keep(await startHaproxies(program, world.backend, { rules, tables }));
      const bare = keep(await startHaproxies(program, world.backend, { rules: "", tables: "" }));
      return {
        urls: nodes.map(({ port }) => `http://127.0.0.1:${port}/`),
        bareUrl: `http://127.0.0.1:${bare.nodes[0]!.port}/`,
        nodeNs: () => cpuNs([nodes[0]!.pid]),
        bareNs: () => cpuNs([bare.nodes[0]!.pid]),
      };
    }),
  startConnections: (world) =>
    keeping(async (keep) => {
      const part = { rules: connectionRules, tables: connectionTables };
      const { nodes } = keep(await startHaproxies(program, world.pod, part));
      return { urls: nodes.map(({ port }) => `ws://127.0.0.1:${port}`), killFirst: () => nodes[0]!.stop() };
    }),
});

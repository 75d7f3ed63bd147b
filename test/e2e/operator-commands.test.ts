/** Operator commands against a real service with traffic: they show the actual state, and changes take effect. */
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { stripVTControlCharacters } from "node:util";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { runCommandLine } from "../../src/cli/command-line.js";
import * as contract from "../../src/service/operations/contract/contract.js";
import { type GatewayProcess, startGateway, startSmallBackend } from "../support/gateway-process.js";
import { tollgateProgram } from "../support/program.js";
import { startRedis } from "../support/redis-server.js";
import { waitFor } from "../support/wait-for.js";
import { ok, startStandIn } from "../unit/cli/control-stand-in.js";
import * as samples from "../unit/cli/sample-replies.js";

interface Choices {
  store?: string;
  timeoutMs?: number;
}

const yaml = (target: string, { store = "embedded", timeoutMs = 10_000 }: Choices = {}) => `
node_id: gw-e2e
# One, so that no token waits on the lease of a worker that nobody asks.
workers: 1
# However busy the machine is, decisions are made by the limits.
lease: { timeout_ms: ${timeoutMs}, report_interval_ms: 100 }
apps:
  # A request costs 1 token whatever its size, and what is spent stays spent for the length of a test.
  default: { guaranteed: 1000, burst: 2000, priority: 0 }
  small: { guaranteed: 0.001, burst: 10, priority: 3, profile: { based_on: iops, bandwidth: 0 } }
  lender: { guaranteed: 20, burst: 50000, borrow: true, profile: { based_on: iops, bandwidth: 0 } }
upstreams: { backend: { targets: ["${target}"] } }
routes:
  - { path: /, upstream: backend }
  - { path: /ws/, upstream: backend, connections: { max_per_pod: 2 } }
store: ${store}
`;

function ask(gateway: GatewayProcess, app: string, count: number): Promise<number[]> {
  const one = async () => {
    const response = await fetch(gateway.url, { headers: { "x-app-id": app } });
    await response.arrayBuffer();
    return response.status;
  };
  return Promise.all(Array.from({ length: count }, one));
}

for (const name of ["TOLLGATE_URL", "TOLLGATE_ADMIN_TOKEN"]) delete process.env[name];

describe("a running service", () => {
  let gateway: GatewayProcess;
  let stopBackend: () => Promise<void>;

  beforeAll(async () => {
    const backend = await startSmallBackend();
    stopBackend = backend.stop;
    gateway = await startGateway(yaml(backend.target));
    await waitFor("all workers", async () => (await look("health ready")).exitCode === 0);
    await tollgate("degradation set 0 --for 1h");
  });
  afterAll(async () => {
    await gateway.stop();
    await stopBackend();
  });

  /** Address and token come from the configuration of the service itself. */
  const tollgate = (line: string) =>
    runCommandLine(
      [...line.split(" "), "--config", gateway.file, "--operator", "kim", "--timeout", "30s"].filter(Boolean),
    );
  const look = (line: string) => runCommandLine([...line.split(" "), "--config", gateway.file, "--timeout", "30s"]);

  it("explains why an app was refused: layers, reasons, last refusals", async () => {
    const statuses = await ask(gateway, "small", 30);
    expect(statuses.filter((status) => status === 200)).toHaveLength(10);
    const { text, exitCode } = await look("why small");
    expect(exitCode).toBe(0);
    expect(text).toMatch(/^L2 app +0 +10 +0\.0 % +refills 0\.001\/s$/m);
    expect(text).toMatch(/^30 requests counted by this service, 20 refused \(66\.6 %\)/m);
    expect(text).toMatch(/^ {2}quota_exhausted {2}20$/m);
    expect(text).toMatch(/^ {2}.* quota_exhausted {2}L2 {2}GET for 1, /m);
    const { text: json } = await look("why small --json");
    expect(contract.appReply.parse(JSON.parse(json)).statistics.rejected).toBe(20);
  });

  it("shows the same numbers in status and apps", async () => {
    const { app } = await numbersOf("small");
    const { text } = await look("status --json");
    const { statistics } = contract.statusReply.parse(JSON.parse(text));
    expect(statistics.rejected_requests).toBe(app.rejected);
    expect(statistics.total_requests).toBeGreaterThanOrEqual(app.requests);
    const screen = await look("status");
    expect(screen.text).toMatch(/^gw-e2e {2}normal /);
    expect(screen.text).toMatch(/^small +.* quota_exhausted, /m);
    expect((await look("apps --sort refused --limit 1")).text).toMatch(
      /^small +\d+ +\d+ +0 +10 +0\.001 +0 +3 +quota_exhausted/m,
    );
  });

  async function numbersOf(id: string) {
    const reply = contract.appsReply.parse(JSON.parse((await look("apps --json")).text));
    const app = reply.apps.find(({ app_id }) => app_id === id);
    if (app === undefined) throw new Error(`there is no ${id}`);
    return { app, reply };
  }

  it("is healthy, live and ready, without a token", async () => {
    for (const what of ["live", "ready", "deep"]) {
      const args = ["health", what, "--url", gateway.controlUrl, "--timeout", "30s"];
      expect(await runCommandLine(args)).toMatchObject({ exitCode: 0 });
    }
  });

  it("rejects commands without a token or with a wrong one", async () => {
    const args = ["emergency", "on", "--url", gateway.controlUrl, "--timeout", "30s"];
    const none = await runCommandLine(args);
    expect(none).toMatchObject({
      exitCode: 4,
      text: "",
      complaint: expect.stringContaining("requires the admin token"),
    });
    process.env.TOLLGATE_ADMIN_TOKEN = "wrong-wrong-wrong-wrong";
    const wrong = await runCommandLine(args).finally(() => delete process.env.TOLLGATE_ADMIN_TOKEN);
    expect(wrong).toMatchObject({ exitCode: 4, complaint: expect.stringContaining("rejected the token") });
    expect((await look("emergency")).text).toBe("no emergency\n");
  });

  it("is in an emergency from on to off, with operator and reason in the audit log", async () => {
    const on = await tollgate("emergency on --for 5m --reason drill");
    expect(on).toMatchObject({ exitCode: 0, text: expect.stringContaining("emergency, started by kim") });
    expect(on.text).toMatch(/limits reduced for .*small/);
    expect(await look("status")).toMatchObject({
      exitCode: 5,
      text: expect.stringMatching(/emergency by kim, [\s\S]*reason: drill/),
    });
    expect((await look("emergency")).text).toMatch(/started by kim[\s\S]*reason drill/);
    expect((await look("why small")).text).toContain("emergency");
    expect(await tollgate("emergency off")).toMatchObject({ exitCode: 0, text: "no emergency\n" });
    await waitFor("its end", async () => !(await look("status")).text.includes("emergency"));
    expect(gateway.output()).toMatch(/"operator":"kim".*"reason":"drill"/);
  });

  it("keeps a pinned level until it is cleared", async () => {
    expect((await tollgate("degradation set 2 --for 5m --reason drill")).text).toMatch(
      /^level 2 until .*; previously [0-3]$/m,
    );
    expect((await look("degradation")).text).toMatch(/^ {2}pinned at 2 by kim for another (5m|4m \d+s): drill$/m);
    expect((await look("status")).text).toContain("level 2: ");
    expect((await tollgate("degradation clear")).text).toContain("  not pinned\n");
  });

  it("applies the layer in the store, rejects an invalid one and an outdated revision", async () => {
    const file = `${gateway.file}.layer`;
    writeFileSync(file, "apps: { small: { burst: 20 } }\n");
    const put = await tollgate(`config put ${file} --revision 0`);
    expect(put).toMatchObject({ exitCode: 0, text: expect.stringContaining("revision 1: the layer sets apps") });
    expect((await numbersOf("small")).app.burst).toBe(20);
    expect((await look("config get")).text).toMatch(/^apps:\n {2}small:\n {4}burst: 20$/m);
    const overtaken = await tollgate(`config put ${file} --revision 0`);
    expect(overtaken).toMatchObject({ exitCode: 1, complaint: expect.stringContaining("409") });
    writeFileSync(file, "apps: { small: { bursts: 30 } }\n");
    const wrong = await tollgate(`config put ${file}`);
    expect(wrong).toMatchObject({ exitCode: 1, complaint: expect.stringContaining("did you mean burst?") });
    expect((await numbersOf("small")).app.burst).toBe(20);
    expect(await tollgate("config clear")).toMatchObject({ exitCode: 0 });
    expect((await numbersOf("small")).app.burst).toBe(10);
  });

  it("reloads its file, and keeps its configuration if the file is invalid", async () => {
    const good = readFileSync(gateway.file, "utf8");
    const versionOf = async () =>
      contract.statusReply.parse(JSON.parse((await look("status --json")).text)).config_version;
    const before = await versionOf();
    // An invalid file provides no address.
    const env = {
      TOLLGATE_URL: gateway.controlUrl,
      TOLLGATE_ADMIN_TOKEN: /admin_token: ([^,]+)/.exec(good)?.[1] ?? "",
    };
    Object.assign(process.env, env);
    try {
      writeFileSync(gateway.file, `${good}\nworkres: 3\n`);
      const refused = await runCommandLine(["reload", "--source", "file", "--timeout", "30s"]);
      expect(refused).toMatchObject({
        exitCode: 1,
        text: "",
        complaint: expect.stringContaining("did you mean workers?"),
      });
    } finally {
      writeFileSync(gateway.file, good);
      for (const name of Object.keys(env)) delete process.env[name];
    }
    expect(await versionOf()).toBe(before);
    expect(await tollgate("reload --force")).toMatchObject({ exitCode: 0, text: expect.stringContaining(before) });
  });

  it("borrows, repays, reconciles and counts connections", async () => {
    // Borrowed tokens need space in the bucket, which tokens on leases occupy until they are reported as spent. An
    // exhausted app would have borrowed itself, so its bucket is larger than any lease that these requests can cause.
    await ask(gateway, "lender", 400);
    const lent = await waitFor("space in the bucket", async () => {
      const result = await tollgate("borrow lender 10 --reason drill");
      return !result.text.includes("bucket_full") && result;
    });
    expect(lent).toMatchObject({
      exitCode: 0,
      text: expect.stringMatching(/^lender borrowed 10 tokens\n.* debt 12, /),
    });
    expect(await tollgate("repay lender 2")).toMatchObject({ exitCode: 0 });
    expect(await tollgate("borrow small 1")).toMatchObject({
      exitCode: 1,
      text: expect.stringContaining("borrowing_disabled"),
    });
    expect((await tollgate("reconcile small")).text).toMatch(/^small reconciled$/m);
    expect((await tollgate("reconcile")).text).toMatch(/^3 apps reconciled$/m);
    expect((await look("connections")).text).toMatch(/^\/ws\/ +backend +127\.0\.0\.1:\d+ +0 +2 +0\.0 %$/m);
    expect(await look("why smal")).toMatchObject({
      exitCode: 1,
      complaint: expect.stringContaining("did you mean small?"),
    });
  });

  describe("watched", () => {
    const ends: (() => void)[] = [];
    afterEach(() => {
      for (const end of ends.splice(0)) end();
    });

    function start(command: string, args: string[], env: Record<string, string> = {}) {
      const child = spawn(command, args, { env: { ...process.env, TERM: "xterm", ...env } });
      ends.push(() => child.kill("SIGKILL"));
      let output = "";
      child.stdout.on("data", (data) => (output += data));
      const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
      return { child, ended, output: () => output };
    }

    const program = [process.execPath, ...tollgateProgram(), "status", "--watch", "0.2"];
    const command = () => [...program, "--config", gateway.file];

    /** In a pseudo terminal, made by `script` of util-linux. */
    function inTerminal(size: string) {
      const line = `stty ${size}; ${command().join(" ")}; echo ended with $?`;
      return start("script", ["--quiet", "--command", line, "/dev/null"]);
    }

    it("in a terminal draws in place, shows rates, and restores the terminal on q", async () => {
      const { child, ended, output } = inTerminal("rows 30 cols 80");
      await waitFor("rates between two looks", () => output().includes("per second"));
      expect(output()).toContain("\x1b[?1049h");
      expect(output()).toContain("gw-e2e");
      expect(output()).toContain("q to quit");
      expect(output()).not.toContain("\x1b[2J");
      child.stdin.write("q");
      await ended;
      expect(output().lastIndexOf("\x1b[?25h\x1b[?1049l")).toBeGreaterThan(output().lastIndexOf("\x1b[H"));
      expect(output()).toContain("ended with 0");
    });

    it("in a narrow terminal has no longer lines", async () => {
      const { child, ended, output } = inTerminal("rows 12 cols 34");
      await waitFor("a second frame", () => output().split("\x1b[?2026h").length > 3);
      child.stdin.write("\x03");
      await ended;
      const frames = output().split("\x1b[?2026h").slice(1);
      for (const frame of frames) {
        const lines = (frame.split("\x1b[?2026l")[0] ?? "").split("\n");
        expect(lines.length).toBeLessThanOrEqual(12);
        for (const line of lines) expect(stripVTControlCharacters(line).trimEnd().length).toBeLessThanOrEqual(34);
      }
      expect(output()).toContain("ended with 0");
    });

    it("in a terminal continues while the service is unavailable, and shows the error", async () => {
      const standIn = await startStandIn();
      standIn.answers.set("GET /admin/ratelimit/status", ok(samples.status));
      standIn.answers.set("GET /admin/ratelimit/apps", ok(samples.apps));
      const line = `stty rows 30 cols 80; ${[...program, "--url", standIn.url].join(" ")}; echo ended with $?`;
      const { child, ended, output } = start("script", ["--quiet", "--command", line, "/dev/null"]);
      await waitFor("the screen", () => output().includes("video-service"));
      await standIn.stop();
      await waitFor("the complaint", () => output().includes(`connection to ${standIn.place} refused`));
      child.stdin.write("q");
      await ended;
      expect(output()).toContain("ended with 0");
    });

    it("in a pipe prints one line per update and ends when the pipe is closed", async () => {
      const [node = "", ...args] = command();
      const { ended, output, child } = start(node, args);
      await waitFor("three looks", () => output().split("\n").length > 3);
      for (const line of output().trimEnd().split("\n"))
        expect(line).toMatch(/^\S+Z {2}\w+ {2}requests\/s .* config \w+$/);
      child.stdout.destroy();
      expect(await ended).toBe(0);
    });

    it("as JSON prints one reply per line", async () => {
      const [node = "", ...args] = command();
      const { output } = start(node, [...args, "--json"]);
      await waitFor("two looks", () => output().split("\n").length > 2);
      for (const line of output().split("\n").slice(0, 2)) contract.statusReply.parse(JSON.parse(line));
    });
  });
});

describe("a service without an admin token", () => {
  it("reports that its admin API is disabled", async () => {
    const backend = await startSmallBackend();
    const gateway = await startGateway(yaml(backend.target), { control: "" });
    try {
      const { exitCode, complaint } = await runCommandLine(["status", "--url", gateway.controlUrl, "--timeout", "30s"]);
      expect(exitCode).toBe(4);
      expect(complaint).toContain("admin_token");
    } finally {
      await gateway.stop();
      await backend.stop();
    }
  });
});

describe("a service without its Redis", () => {
  it("is not ready with exit code 5, still shows its status, and recovers with Redis", async () => {
    const redis = await startRedis();
    const backend = await startSmallBackend();
    const gateway = await startGateway(yaml(backend.target, { store: redis.url, timeoutMs: 300 }));
    const tollgate = (line: string) =>
      runCommandLine([...line.split(" "), "--config", gateway.file, "--timeout", "30s"]);
    try {
      await waitFor("readiness", async () => (await tollgate("health ready")).exitCode === 0);
      await redis.kill();
      await waitFor("the loss to be noticed", async () => (await tollgate("health ready")).exitCode === 5);
      expect((await tollgate("health ready")).text).toContain("store          error");
      expect((await tollgate("health")).exitCode).toBe(5);
      await waitFor("status to say so", async () =>
        (await tollgate("status")).text.includes("store: no server is connected"),
      );
      await waitFor("why to say so", async () =>
        (await tollgate("why small")).text.includes("the store is unavailable"),
      );
      expect((await tollgate("reconcile")).exitCode).toBe(1);
      await redis.restart();
      await waitFor("recovery", async () => (await tollgate("health ready")).exitCode === 0);
    } finally {
      await gateway.stop();
      await backend.stop();
      await redis.stop();
    }
  });
});

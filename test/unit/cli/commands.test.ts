/** Every operator command against a stand-in of the control listener: requests, output, exit codes. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it, test, vi } from "vitest";
import { exitCodes } from "../../../src/cli/command.js";
import { runCommandLine } from "../../../src/cli/command-line.js";
import { commandGroups } from "../../../src/cli/command-list.js";
import * as contract from "../../../src/service/operations/contract/contract.js";
import { freePort } from "../../support/ports.js";
import { ok, type StandIn, startStandIn } from "./control-stand-in.js";
import * as samples from "./sample-replies.js";

const dir = mkdtempSync(join(tmpdir(), "tollgate-commands-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const admin = "/admin/ratelimit";
let standIn: StandIn;

beforeEach(async () => {
  standIn = await startStandIn();
  vi.stubEnv("TOLLGATE_URL", standIn.url);
  vi.stubEnv("TOLLGATE_ADMIN_TOKEN", "admin-token-0123456789");
  vi.stubEnv("USER", "kim");
  const answers: [string, unknown][] = [
    ["GET /health/live", samples.live],
    ["GET /health/serving", samples.serving],
    ["GET /health/ready", samples.ready],
    ["GET /health/deep", samples.deep],
    [`GET ${admin}/status`, samples.status],
    [`GET ${admin}/apps`, samples.apps],
    [`GET ${admin}/apps/video-service`, samples.app],
    [`GET ${admin}/connections`, samples.connections],
    [`GET ${admin}/emergency`, samples.emergencyOn],
    [`POST ${admin}/emergency`, samples.emergencyOrdered],
    [`GET ${admin}/degradation`, samples.degradation],
    [`POST ${admin}/degradation`, samples.degradationSet],
    [`DELETE ${admin}/degradation`, { ...samples.degradation, pinned_level: null, level: 0 }],
    [`POST ${admin}/reconcile`, samples.reconciled],
    [`POST ${admin}/reload`, samples.reloaded],
    [`GET ${admin}/config`, samples.layer],
    [`PUT ${admin}/config`, samples.layer],
    [`POST ${admin}/borrow`, samples.borrowed],
    [`POST ${admin}/repay`, samples.repaid],
  ];
  for (const [name, body] of answers) standIn.answers.set(name, ok(body));
});

afterEach(async () => {
  vi.unstubAllEnvs();
  await standIn.stop();
});

/** The way of writing a command: words with spaces are not needed here. */
const tollgate = (line: string) => runCommandLine(line.split(" "));

describe("inspecting", () => {
  test.each([
    ["status", `${admin}/status`, /gw-01 {2}normal/],
    ["health", "/health/deep", /^healthy {2}level 0/],
    ["health live", "/health/live", /^healthy$/m],
    ["health serving", "/health/serving", /^serving: running, 1 of 2 workers$/m],
    ["health ready", "/health/ready", /^ready$/m],
    ["apps", `${admin}/apps?offset=0&limit=500`, /^video-service /m],
    ["why video-service", `${admin}/apps/video-service`, /^L2 app /m],
    ["connections", `${admin}/connections`, /10\.0\.0\.1:9101/],
    ["emergency", `${admin}/emergency`, /^emergency, started automatically$/m],
    ["emergency status", `${admin}/emergency`, /^emergency/],
    ["degradation", `${admin}/degradation`, /^level 2$/m],
    ["degradation get", `${admin}/degradation`, /^level 2$/m],
    ["config get", `${admin}/config`, /^ {2}video-service:$/m],
  ])("tollgate %s requests %s", async (line, path, shown) => {
    expect(await tollgate(line)).toMatchObject({ exitCode: 0, text: expect.stringMatching(shown) });
    expect(standIn.asked.map((each) => `${each.method} ${each.path}`)).toContain(`GET ${path}`);
    for (const { headers } of standIn.asked) expect(headers.authorization).toBe("Bearer admin-token-0123456789");
  });

  test.each([
    ["status", samples.status],
    ["health", samples.deep],
    ["apps --sort name", { ...samples.apps, apps: [...samples.apps.apps].reverse() }],
    ["why video-service", samples.app],
    ["connections", samples.connections],
    ["emergency", samples.emergencyOn],
    ["degradation", samples.degradation],
    ["config get", samples.layer],
  ])("tollgate %s --json prints the reply on one line", async (line, answer) => {
    const { text } = await tollgate(`${line} --json`);
    expect(JSON.parse(text)).toEqual(answer);
    expect(text.trimEnd()).not.toContain("\n");
  });

  it("apps fetches all pages and shows at most --limit apps", async () => {
    const all = Array.from({ length: 1_234 }, (_, i) => samples.appNamed(`app-${i}`, { requests: i }));
    standIn.answers.set(`GET ${admin}/apps`, (response, { path }) => {
      const query = new URL(path, "http://any").searchParams;
      const offset = Number(query.get("offset"));
      const page = all.slice(offset, offset + Number(query.get("limit")));
      response.end(JSON.stringify({ ...samples.apps, apps: page, total: all.length }));
    });
    const { text } = await tollgate("apps --limit 2 --json");
    const reply = contract.appsReply.parse(JSON.parse(text));
    expect(reply.total).toBe(1_234);
    expect(reply.apps.map(({ app_id }) => app_id)).toEqual(["app-1233", "app-1232"]);
    expect(standIn.asked).toHaveLength(3);
  });
});

describe("orders", () => {
  const signed = { operator: "kim" };

  test.each([
    ["emergency on", "POST", "emergency", { action: "activate", duration_seconds: 600 }],
    ["emergency on --for 15m", "POST", "emergency", { action: "activate", duration_seconds: 900 }],
    ["emergency on --until-off", "POST", "emergency", { action: "activate", duration_seconds: 0 }],
    ["emergency off", "POST", "emergency", { action: "deactivate" }],
    ["degradation set 2", "POST", "degradation", { level: 2, duration_seconds: 300 }],
    ["degradation set 0 --for 30s", "POST", "degradation", { level: 0, duration_seconds: 30 }],
    ["reconcile", "POST", "reconcile", { force: false }],
    ["reconcile video-service --force", "POST", "reconcile", { app_id: "video-service", force: true }],
    ["reload", "POST", "reload", { source: "all", force: false }],
    ["reload --source file --force", "POST", "reload", { source: "file", force: true }],
    ["borrow video-service 500", "POST", "borrow", { app_id: "video-service", amount: 500 }],
    ["repay video-service 200", "POST", "repay", { app_id: "video-service", amount: 200 }],
  ])("tollgate %s sends %s /%s %j with the operator", async (line, method, name, body) => {
    expect(await tollgate(line)).toMatchObject({ exitCode: 0 });
    expect(standIn.asked).toHaveLength(1);
    expect(standIn.asked[0]).toMatchObject({ method, path: `${admin}/${name}`, body: { ...body, ...signed } });
    const requests: Record<string, { parse(body: unknown): unknown }> = {
      emergency: contract.emergencyRequest,
      degradation: contract.degradationRequest,
      reconcile: contract.reconcileRequest,
      reload: contract.reloadRequest,
      borrow: contract.borrowRequest,
      repay: contract.borrowRequest,
    };
    requests[name]?.parse(standIn.asked[0]?.body);
  });

  it("send the given operator and reason", async () => {
    await runCommandLine(["emergency", "off", "--operator", "alex", "--reason", "all is well again"]);
    expect(standIn.asked[0]?.body).toEqual({ action: "deactivate", operator: "alex", reason: "all is well again" });
  });

  it("clear a pinned level, and the layer by writing an empty one", async () => {
    expect(await tollgate("degradation clear --reason over")).toMatchObject({ exitCode: 0 });
    expect(standIn.asked[0]).toMatchObject({ method: "DELETE", body: { operator: "kim", reason: "over" } });
    expect(await tollgate("config clear --reason over")).toMatchObject({ exitCode: 0 });
    expect(standIn.asked[1]).toMatchObject({ method: "PUT", body: { config: {}, operator: "kim", reason: "over" } });
  });

  it("put the layer from a YAML or JSON file, with the expected revision", async () => {
    const yaml = join(dir, "layer.yaml");
    writeFileSync(yaml, "apps:\n  video-service: { guaranteed: 5000 }\n");
    expect((await tollgate(`config put ${yaml} --revision 6`)).text).toBe(
      "revision 7: the layer sets apps; configuration 77aa01fe\n",
    );
    const config = { apps: { "video-service": { guaranteed: 5_000 } } };
    expect(standIn.asked[0]).toMatchObject({ method: "PUT", body: { config, expected_revision: 6, operator: "kim" } });
    contract.layerRequest.parse(standIn.asked[0]?.body);
    const json = join(dir, "layer.json");
    writeFileSync(json, JSON.stringify(config));
    await tollgate(`config put ${json}`);
    expect(standIn.asked[1]?.body).toMatchObject({ config });
  });

  it("that are refused end with exit code 1 and the explanation", async () => {
    const refused = { ...samples.borrowed, status: "refused", code: "borrowing_disabled", explanation: "It may not." };
    standIn.answers.set(`POST ${admin}/borrow`, ok(refused));
    const { exitCode, text } = await tollgate("borrow video-service 500");
    expect(exitCode).toBe(1);
    expect(text).toContain("refused: borrowing_disabled\n  It may not.\n");
  });
});

describe("exit codes", () => {
  it("are all listed by --help", async () => {
    const { text } = await runCommandLine(["--help"]);
    for (const [code, meaning] of exitCodes) expect(text).toContain(`  ${code}  ${meaning}\n`);
  });

  it("1: an invalid configuration; with --json the reply is also on stdout", async () => {
    const problem = { error: "invalid_config", reason: "x", problems: [{ path: "a", value: "", reason: "is wrong" }] };
    standIn.answers.set(`POST ${admin}/reload`, { status: 422, body: problem });
    const plain = await tollgate("reload");
    expect(plain).toMatchObject({ exitCode: 1, text: "", complaint: expect.stringContaining("  a: is wrong") });
    const json = await tollgate("reload --json");
    expect(json).toMatchObject({ exitCode: 1, complaint: plain.complaint });
    expect(JSON.parse(json.text)).toEqual(problem);
  });

  test.each([
    ["status extra", /unexpected argument "extra"/],
    ["status --apps many", /--apps: "many" is not an integer/],
    ["status --watch 0", /--watch: "0s" is not between 100ms and 1h/],
    ["status --watch=often", /--watch: "often" is not a duration/],
    ["health well", /unknown action "well"; expected live, serving, ready, deep/],
    ["apps --sort size", /--sort: unknown value "size"; expected name, requests/],
    ["apps --limit 0", /--limit: "0" is not an integer from 1 to/],
    ["why", /APP is missing/],
    ["why a{b}", /is not an app name/],
    ["emergency maybe", /unknown action "maybe"; expected on, off, status/],
    ["emergency on --for 600", /--for: "600" has no unit/],
    ["emergency off --for 5m", /--for requires the action on/],
    ["emergency on --for 5m --until-off", /exclude each other/],
    ["degradation set", /LEVEL is missing/],
    ["degradation set 4", /LEVEL: "4" is not an integer from 0 to 3/],
    ["degradation set 1 --for 2d", /--for: "2d" is not between 1s and 1d/],
    ["degradation get --for 5m", /--for requires the action set/],
    ["reconcile a b", /unexpected argument "b"/],
    ["reload --source redis", /--source: unknown value "redis"; expected all, file, store/],
    ["config", /an action is missing; expected get, export, restore, put, clear/],
    ["config put", /FILE is missing/],
    ["config put no-such-file.yaml", /no-such-file.yaml cannot be read/],
    ["config get --revision 1", /--revision requires the action put/],
    ["borrow video-service", /AMOUNT is missing/],
    ["borrow video-service 1.5", /AMOUNT: "1.5" is not an integer/],
    ["repay video-service 0", /AMOUNT: "0" is not an integer from 1/],
    ["status --token admin-token-0123456789", /unknown option "--token"/],
    ["status --url nonsense", /--url: "nonsense" is not a URL/],
    ["connections --operator kim", /unknown option "--operator"/],
    ["statsu", /unknown command "statsu"; did you mean status\?/],
  ])("2: tollgate %s", async (line, complaint) => {
    const outcome = await tollgate(line);
    expect(outcome).toMatchObject({ exitCode: 2, text: "", complaint: expect.stringMatching(complaint) });
    expect(outcome.complaint).toMatch(/See tollgate .*--help$/);
    expect(standIn.asked).toEqual([]);
  });

  it("3: connection refused", async () => {
    const place = `127.0.0.1:${await freePort()}`;
    const complaint = `connection to ${place} refused; is tollgate serve running, is --url correct?`;
    expect(await tollgate(`status --url http://${place}`)).toEqual({ exitCode: 3, text: "", complaint });
    expect(await tollgate(`status --watch --url http://${place}`)).toEqual({ exitCode: 3, text: "", complaint });
  });

  it("4: not allowed", async () => {
    const body = { error: "unauthorized", reason: "wrong_token" };
    standIn.answers.set(`GET ${admin}/connections`, { status: 401, body });
    expect((await tollgate("connections")).exitCode).toBe(4);
    standIn.answers.set(`GET ${admin}/connections`, { status: 403, body });
    expect((await tollgate("connections")).exitCode).toBe(4);
  });

  it("5: not ready, unhealthy, or not in normal mode, with the reply on stdout", async () => {
    standIn.answers.set("GET /health/ready", { status: 503, body: samples.notReady });
    expect(await tollgate("health ready")).toMatchObject({ exitCode: 5, text: expect.stringContaining("not ready") });
    standIn.answers.set("GET /health/serving", { status: 503, body: { ...samples.serving, serving: false } });
    expect(await tollgate("health serving")).toMatchObject({
      exitCode: 5,
      text: expect.stringContaining("not serving"),
    });
    standIn.answers.set("GET /health/deep", { status: 503, body: { ...samples.deep, status: "unhealthy" } });
    expect(await tollgate("health")).toMatchObject({ exitCode: 5, text: expect.stringContaining("unhealthy") });
    standIn.answers.set("GET /health/deep", ok({ ...samples.deep, status: "degraded" }));
    expect((await tollgate("health")).exitCode).toBe(0);
    expect((await tollgate("health --strict")).exitCode).toBe(5);
    standIn.answers.set(`GET ${admin}/status`, ok({ ...samples.status, mode: "degraded", degradation_level: 1 }));
    expect(await tollgate("status")).toMatchObject({ exitCode: 5, text: expect.stringContaining("level 1") });
  });
});

describe("help", () => {
  it("of every command has its usage and an example", async () => {
    for (const { name } of commandGroups.flatMap(({ commands }) => commands)) {
      const { text: help, exitCode } = await runCommandLine([name, "--help"]);
      expect(exitCode).toBe(0);
      expect(help).toMatch(new RegExp(`^Usage: tollgate ${name}`));
      expect(help).toMatch(new RegExp(`^Examples?:\n(.*\\n)*? {2}.*tollgate ${name}`, "m"));
    }
  });

  it("of operator commands lists the common options, and --operator and --reason for those that change something", async () => {
    const help = (name: string) => runCommandLine([name, "--help"]).then(({ text }) => text);
    for (const name of ["status", "emergency"]) {
      const text = await help(name);
      for (const option of ["--url", "--config", "--token-file", "--timeout", "--json"]) expect(text).toContain(option);
    }
    expect(await help("emergency")).toContain("--reason TEXT");
    expect(await help("status")).not.toContain("--reason");
  });
});

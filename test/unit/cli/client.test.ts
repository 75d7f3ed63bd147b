/** Calls to a control listener that goes wrong in every way: one sentence each, with what, where and what to do. */
import { createServer, type Server, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { EXIT_NOT_ALLOWED, EXIT_REFUSED, EXIT_UNREACHABLE, Failure } from "../../../src/cli/command.js";
import { createControlClient } from "../../../src/cli/control/client.js";
import * as contract from "../../../src/service/operations/contract/contract.js";
import { freePort } from "../../support/ports.js";
import { ok, type StandIn, startStandIn } from "./control-stand-in.js";
import * as samples from "./sample-replies.js";

let standIn: StandIn;
beforeEach(async () => {
  standIn = await startStandIn();
});
afterEach(() => standIn.stop());

interface CallOptions {
  url?: string;
  token?: string;
  timeoutMs?: number;
  method?: "GET" | "POST";
}

async function call({ url = standIn.url, token = "", timeoutMs = 20_000, method = "GET" }: CallOptions = {}) {
  const client = createControlClient({ url, token, timeoutMs });
  try {
    return await client.call({
      method,
      path: "/admin/ratelimit/connections?x=1",
      reply: contract.connectionsReply,
      ...(method === "POST" ? { body: { amount: 1 } } : {}),
    });
  } finally {
    await client.close();
  }
}

async function failure(options: CallOptions = {}): Promise<{ message: string; exitCode: number }> {
  const error = await call(options).then(
    () => new Error("it did not fail"),
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof Failure)) throw error;
  return { message: error.message, exitCode: error.exitCode };
}

const answerWith = (status: number, body: unknown) =>
  standIn.answers.set("GET /admin/ratelimit/connections", { status, body });

describe("a reply", () => {
  it("is handed over when it is what the contract says; the token goes along as a header", async () => {
    standIn.answers.set("GET /admin/ratelimit/connections", ok(samples.connections));
    expect(await call({ token: "admin-token-0123456789" })).toEqual(samples.connections);
    expect(standIn.asked[0]?.headers.authorization).toBe("Bearer admin-token-0123456789");
    expect(standIn.asked[0]?.path).toBe("/admin/ratelimit/connections?x=1");
  });

  it("may say more than this version knows of", async () => {
    const more = { ...samples.connections, draining: 4 };
    answerWith(200, more);
    expect(await call()).toEqual(more);
  });

  it("that does not match the contract is reported", async () => {
    answerWith(200, { ...samples.connections, total: "many" });
    const { message, exitCode } = await failure();
    expect(message).toMatch(/replied to \/admin\/ratelimit\/connections with 200 and an unexpected reply \(total: /);
    expect(exitCode).toBe(EXIT_UNREACHABLE);
  });

  it("without JSON is reported; redirects are not followed, so the token stays here", async () => {
    standIn.answers.set("GET /admin/ratelimit/connections", (response) => response.end("<html>hello</html>"));
    expect(await failure()).toEqual({
      message: `${standIn.place} replied to /admin/ratelimit/connections with 200 and without JSON; is --url a control listener of tollgate?`,
      exitCode: EXIT_UNREACHABLE,
    });
    standIn.answers.set("GET /admin/ratelimit/connections", (response) => {
      response.writeHead(302, { location: `${standIn.url}/elsewhere` }).end("{}");
    });
    expect((await failure({ token: "admin-token-0123456789" })).exitCode).toBe(EXIT_UNREACHABLE);
    expect(standIn.asked.map(({ path }) => path)).not.toContain("/elsewhere");
  });
});

describe("a refusal", () => {
  it("without a token explains how to set it, with a wrong token that it was rejected", async () => {
    answerWith(401, { error: "unauthorized", reason: "wrong_token", detail: "the admin token is needed" });
    expect(await failure()).toEqual({
      message: `${standIn.place} requires the admin token; set TOLLGATE_ADMIN_TOKEN, or use --token-file or --config (wrong_token; the admin token is needed)`,
      exitCode: EXIT_NOT_ALLOWED,
    });
    expect((await failure({ token: "wrong-wrong-wrong-wrong" })).message).toMatch(
      /rejected the token; it must be control\.admin_token/,
    );
  });

  it("contains the reason if something is not allowed", async () => {
    answerWith(403, { error: "forbidden", reason: "admin_disabled", detail: "control.admin_token is not configured" });
    expect(await failure()).toEqual({
      message: `${standIn.place} does not allow this: admin_disabled; control.admin_token is not configured`,
      exitCode: EXIT_NOT_ALLOWED,
    });
    answerWith(429, { error: "too_many_requests", reason: "failed_logins" });
    expect((await failure()).exitCode).toBe(EXIT_NOT_ALLOWED);
  });

  it("names the invalid field and lists all problems of a configuration", async () => {
    answerWith(400, { error: "invalid_argument", reason: "must be a whole number", field: "amount" });
    expect(await failure()).toEqual({
      message: `${standIn.place} replied with 400 invalid_argument: must be a whole number, in amount`,
      exitCode: EXIT_REFUSED,
    });
    const problems = [
      { path: "apps.a.burst", value: "0", reason: "must be more" },
      { path: "apps.b", value: "", reason: "is no name\x1b[2J" },
    ];
    answerWith(422, { error: "invalid_config", reason: "not_valid", detail: "nothing was changed", problems });
    expect((await failure()).message).toBe(
      [
        `${standIn.place} rejected the configuration: nothing was changed`,
        "  apps.a.burst: must be more (is 0)",
        "  apps.b: is no name\\u001b[2J",
      ].join("\n"),
    );
  });

  it("of an unknown app suggests the nearest name", async () => {
    const reason = 'there is no app "vido" in the configuration';
    answerWith(404, { error: "unknown_app", reason, detail: "did you mean video?", field: "app_id" });
    expect(await failure()).toEqual({
      message: `${reason}; did you mean video? (${standIn.place}; tollgate apps lists them)`,
      exitCode: EXIT_REFUSED,
    });
  });

  it("reports an unknown endpoint and an unavailable store", async () => {
    expect(await failure({ method: "POST" })).toEqual({
      message: `${standIn.place} has no /admin/ratelimit/connections; is it another version of tollgate, is --url correct?`,
      exitCode: EXIT_REFUSED,
    });
    answerWith(503, { error: "store_unavailable", reason: "timeout" });
    expect(await failure()).toEqual({
      message: `${standIn.place} failed: store_unavailable, timeout; try again`,
      exitCode: EXIT_REFUSED,
    });
  });

  it("with an unexpected body counts as unreachable", async () => {
    answerWith(500, { oops: true });
    expect((await failure()).exitCode).toBe(EXIT_UNREACHABLE);
  });
});

describe("no reply", () => {
  let other: Server | undefined;
  const sockets = new Set<Socket>();
  afterEach(async () => {
    for (const socket of sockets) socket.destroy();
    const server = other;
    if (server !== undefined) await new Promise((resolve) => server.close(resolve));
    other = undefined;
  });

  async function listen(onConnection: (socket: Socket) => void): Promise<string> {
    const server = createServer((socket) => {
      sockets.add(socket);
      onConnection(socket);
    });
    other = server;
    const port = await freePort();
    await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
    return `127.0.0.1:${port}`;
  }

  it("because the connection is refused", async () => {
    const place = `127.0.0.1:${await freePort()}`;
    expect(await failure({ url: `http://${place}` })).toEqual({
      message: `connection to ${place} refused; is tollgate serve running, is --url correct?`,
      exitCode: EXIT_UNREACHABLE,
    });
  });

  it("because the host is unknown", async () => {
    expect(await failure({ url: "http://no-such-host.invalid:9145" })).toEqual({
      message: "unknown host in no-such-host.invalid:9145; is --url correct?",
      exitCode: EXIT_UNREACHABLE,
    });
  });

  it("within the timeout; for a change, the message says that it may have been performed", async () => {
    const hang = () => {};
    standIn.answers.set("GET /admin/ratelimit/connections", hang);
    standIn.answers.set("POST /admin/ratelimit/connections", hang);
    expect(await failure({ timeoutMs: 50 })).toEqual({
      message: `no reply from ${standIn.place} within 50ms; use --timeout to wait longer`,
      exitCode: EXIT_UNREACHABLE,
    });
    expect((await failure({ timeoutMs: 50, method: "POST" })).message).toMatch(
      /; the action may or may not have been performed$/,
    );
  });

  it("because only the head of the response arrives", async () => {
    standIn.answers.set("GET /admin/ratelimit/connections", (response) => void response.writeHead(200).write("{"));
    expect((await failure({ timeoutMs: 50 })).message).toContain("within 50ms");
  });

  it("because it is not an HTTP server", async () => {
    const place = await listen((socket) => socket.end("220 mail.example ESMTP\r\n"));
    expect(await failure({ url: `http://${place}` })).toEqual({
      message: `${place} is not an HTTP server; is --url correct?`,
      exitCode: EXIT_UNREACHABLE,
    });
  });

  it("because the connection is closed", async () => {
    const place = await listen((socket) => socket.destroy());
    const { message, exitCode } = await failure({ url: `http://${place}` });
    expect(message).toContain(`${place} closed the connection without a reply`);
    expect(exitCode).toBe(EXIT_UNREACHABLE);
  });

  it("because https was requested from a plain HTTP server", async () => {
    const { message, exitCode } = await failure({ url: `https://${standIn.place}` });
    expect(message).toBe(`${standIn.place} does not use TLS; use http:// in --url?`);
    expect(exitCode).toBe(EXIT_UNREACHABLE);
  });
});

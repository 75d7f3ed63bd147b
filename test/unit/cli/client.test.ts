/** Calls to a control listener that goes wrong in every way: one sentence each, with what, where and what to do. */
import { createServer, type Server, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createControlClient } from "../../../src/cli/control/client.js";
import { Failure, NOT_ALLOWED, REFUSED, UNREACHABLE } from "../../../src/cli/exit-codes.js";
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

  it("that is something else is not taken for one", async () => {
    answerWith(200, { ...samples.connections, total: "many" });
    const { message, exitCode } = await failure();
    expect(message).toMatch(
      /answers \/admin\/ratelimit\/connections with 200 and a reply that is not understood \(total: /,
    );
    expect(exitCode).toBe(UNREACHABLE);
  });

  it("that is no JSON, or a redirect, comes from something else; nothing follows a redirect with the token", async () => {
    standIn.answers.set("GET /admin/ratelimit/connections", (response) => response.end("<html>hello</html>"));
    expect(await failure()).toEqual({
      message: `${standIn.place} answers /admin/ratelimit/connections with 200 and no JSON; is --url the control listener of a tollgate?`,
      exitCode: UNREACHABLE,
    });
    standIn.answers.set("GET /admin/ratelimit/connections", (response) => {
      response.writeHead(302, { location: `${standIn.url}/elsewhere` }).end("{}");
    });
    expect((await failure({ token: "admin-token-0123456789" })).exitCode).toBe(UNREACHABLE);
    expect(standIn.asked.map(({ path }) => path)).not.toContain("/elsewhere");
  });
});

describe("a refusal", () => {
  it("without a token says where tokens come from, and with one that it is wrong", async () => {
    answerWith(401, { error: "unauthorized", reason: "wrong_token", detail: "the admin token is needed" });
    expect(await failure()).toEqual({
      message: `${standIn.place} wants the admin token; set TOLLGATE_ADMIN_TOKEN, or use --token-file or --config (wrong_token; the admin token is needed)`,
      exitCode: NOT_ALLOWED,
    });
    expect((await failure({ token: "wrong-wrong-wrong-wrong" })).message).toMatch(
      /does not take this token; it must be control\.admin_token/,
    );
  });

  it("says why something is not allowed", async () => {
    answerWith(403, { error: "forbidden", reason: "admin_disabled", detail: "control.admin_token is not configured" });
    expect(await failure()).toEqual({
      message: `${standIn.place} does not allow this: admin_disabled; control.admin_token is not configured`,
      exitCode: NOT_ALLOWED,
    });
    answerWith(429, { error: "too_many_requests", reason: "failed_logins" });
    expect((await failure()).exitCode).toBe(NOT_ALLOWED);
  });

  it("names the field, and lists everything that is wrong with a configuration", async () => {
    answerWith(400, { error: "invalid_argument", reason: "must be a whole number", field: "amount" });
    expect(await failure()).toEqual({
      message: `${standIn.place} refused it with 400 invalid_argument: must be a whole number, in amount`,
      exitCode: REFUSED,
    });
    const problems = [
      { path: "apps.a.burst", value: "0", reason: "must be more" },
      { path: "apps.b", value: "", reason: "is no name\x1b[2J" },
    ];
    answerWith(422, { error: "invalid_config", reason: "not_valid", detail: "nothing was changed", problems });
    expect((await failure()).message).toBe(
      [
        `${standIn.place} refused the configuration: nothing was changed`,
        "  apps.a.burst: must be more (is 0)",
        "  apps.b: is no name\\u001b[2J",
      ].join("\n"),
    );
  });

  it("of an app that is not there says so, with the one that was meant", async () => {
    const reason = 'there is no app "vido" in the configuration';
    answerWith(404, { error: "unknown_app", reason, detail: "did you mean video?", field: "app_id" });
    expect(await failure()).toEqual({
      message: `${reason}; did you mean video? (${standIn.place}; tollgate apps lists them)`,
      exitCode: REFUSED,
    });
  });

  it("says that an endpoint is not there, or that the store is gone", async () => {
    expect(await failure({ method: "POST" })).toEqual({
      message: `${standIn.place} has no /admin/ratelimit/connections; is it another version of tollgate, or the wrong --url?`,
      exitCode: REFUSED,
    });
    answerWith(503, { error: "store_unavailable", reason: "timeout" });
    expect(await failure()).toEqual({
      message: `${standIn.place} could not do it: store_unavailable, timeout; try again`,
      exitCode: REFUSED,
    });
  });

  it("that is no refusal of a tollgate's is none", async () => {
    answerWith(500, { oops: true });
    expect((await failure()).exitCode).toBe(UNREACHABLE);
  });
});

describe("nobody there", () => {
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

  it("on the port", async () => {
    const place = `127.0.0.1:${await freePort()}`;
    expect(await failure({ url: `http://${place}` })).toEqual({
      message: `nothing listens on ${place}; is tollgate serve running, or is --url wrong?`,
      exitCode: UNREACHABLE,
    });
  });

  it("by that name", async () => {
    expect(await failure({ url: "http://no-such-host.invalid:9145" })).toEqual({
      message: "the name in no-such-host.invalid:9145 is not known; is --url wrong?",
      exitCode: UNREACHABLE,
    });
  });

  it("in time; after an order it says that the order may have been carried out", async () => {
    const hang = () => {};
    standIn.answers.set("GET /admin/ratelimit/connections", hang);
    standIn.answers.set("POST /admin/ratelimit/connections", hang);
    expect(await failure({ timeoutMs: 50 })).toEqual({
      message: `${standIn.place} did not answer within 50ms; --timeout waits longer`,
      exitCode: UNREACHABLE,
    });
    expect((await failure({ timeoutMs: 50, method: "POST" })).message).toMatch(
      /; whether the order was carried out is not known$/,
    );
  });

  it("also where the head comes and the body does not", async () => {
    standIn.answers.set("GET /admin/ratelimit/connections", (response) => void response.writeHead(200).write("{"));
    expect((await failure({ timeoutMs: 50 })).message).toContain("did not answer within 50ms");
  });

  it("who speaks HTTP", async () => {
    const place = await listen((socket) => socket.end("220 mail.example ESMTP\r\n"));
    expect(await failure({ url: `http://${place}` })).toEqual({
      message: `what listens on ${place} does not speak HTTP; is --url wrong?`,
      exitCode: UNREACHABLE,
    });
  });

  it("who stays on the line", async () => {
    const place = await listen((socket) => socket.destroy());
    const { message, exitCode } = await failure({ url: `http://${place}` });
    expect(message).toContain(`${place} closed the connection without an answer`);
    expect(exitCode).toBe(UNREACHABLE);
  });

  it("who speaks TLS, where https was asked for", async () => {
    const { message, exitCode } = await failure({ url: `https://${standIn.place}` });
    expect(message).toBe(`${standIn.place} does not speak TLS; is it http:// in --url?`);
    expect(exitCode).toBe(UNREACHABLE);
  });
});

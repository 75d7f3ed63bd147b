/** JSON Web Tokens: only valid ones identify an app, keys stay in use while their URL is down, and rotated keys are found. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from "jose";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import type { TokenOptions } from "../../../../src/config/options/limiter.js";
import { createTokenKeys, type TokenKeys } from "../../../../src/planes/node/identity/token-keys.js";
import { createTokenVerifier } from "../../../../src/planes/node/identity/tokens.js";
import { createDrivenClock } from "../../../../src/simulate/driven-clock.js";

type KeyPair = Awaited<ReturnType<typeof generateKeyPair>>;

const NOW = Date.parse("2026-01-01T00:00:00Z");
const seconds = NOW / 1000;
const issuer = "https://issuer.example.com";

const options: TokenOptions = {
  keys: { url: "" },
  refreshMs: 600_000,
  issuer,
  audience: ["shop"],
  algorithms: ["RS256", "ES256"],
  appClaim: "https://example.com/app",
  userClaim: "sub",
  clockToleranceS: 10,
  required: false,
};

const payload: JWTPayload = {
  iss: issuer,
  aud: "shop",
  exp: seconds + 60,
  sub: "auth0|ann",
  "https://example.com/app": "shop",
};

let first: KeyPair;
let second: KeyPair;
let rsa: KeyPair;
beforeAll(async () => {
  first = await generateKeyPair("ES256");
  second = await generateKeyPair("ES256");
  rsa = await generateKeyPair("RS256");
});

function signed(
  own: Record<string, unknown> = {},
  { privateKey }: KeyPair = first,
  kid = "one",
  alg = "ES256",
): Promise<string> {
  return new SignJWT({ ...payload, ...own }).setProtectedHeader({ alg, kid }).sign(privateKey);
}

const publicKey = async ({ publicKey: key }: KeyPair, kid: string) => ({ ...(await exportJWK(key)), kid });

/** A server of keys whose answer a test may change. */
interface KeyServer {
  url: string;
  requests: number;
  status: number;
  body: string;
}

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function serveKeys(...keys: object[]): Promise<KeyServer> {
  const served: KeyServer = { url: "", requests: 0, status: 200, body: JSON.stringify({ keys }) };
  const server: Server = createServer((_request, response) => {
    served.requests++;
    response.writeHead(served.status).end(served.body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => new Promise((resolve) => server.close(resolve)));
  served.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks.json`;
  return served;
}

function start(url: string, own: Partial<TokenOptions> = {}) {
  const clock = createDrivenClock();
  const lines: string[] = [];
  const note = (fields: Record<string, unknown>, message: string) => lines.push(`${message} ${fields.reason ?? ""}`);
  const log = { info: note, warn: note, error: note };
  const keys: TokenKeys = createTokenKeys({ keys: { url }, refreshMs: 600_000, log, clock });
  closing.push(keys.close);
  const time = { now: NOW };
  const verifier = createTokenVerifier({ ...options, ...own }, keys, () => time.now);
  return { clock, keys, lines, time, verify: async (token: string) => verifier.verify(token), verifier };
}

const started = async () => start((await serveKeys(await publicKey(first, "one"))).url);

describe("a token", () => {
  it("that is valid names app and user, and is remembered", async () => {
    const { verify, verifier } = await started();
    const token = await signed();
    expect(await verify(token)).toEqual({ code: "ok", app: "shop", user: "auth0|ann", problem: "" });
    expect(verifier.verify(token)).not.toBeInstanceOf(Promise);
  });

  it("is refused when it has expired, also if it was remembered", async () => {
    const { verify, time } = await started();
    const token = await signed();
    await verify(token);
    time.now += 69_000;
    expect((await verify(token)).code).toBe("ok");
    time.now += 2_000;
    expect(await verify(token)).toMatchObject({ code: "invalid_token", problem: "the token has expired" });
  });

  it.each<[string, () => Promise<string> | string, string]>([
    ["expired", () => signed({ exp: seconds - 60 }), "the token has expired"],
    ["not valid yet", () => signed({ nbf: seconds + 60 }), "the token is not valid yet"],
    ["without exp", () => signed({ exp: undefined }), "the claim exp is missing"],
    ["for another audience", () => signed({ aud: "other" }), "the claim aud is not accepted"],
    ["without an audience", () => signed({ aud: undefined }), "the claim aud is missing"],
    ["of another issuer", () => signed({ iss: "https://evil.example.com" }), "the claim iss is not accepted"],
    ["with alg none", () => new UnsecuredJWT(payload).encode(), "the algorithm is not accepted"],
    ["with the key id of another key", () => signed({}, second), "the signature is wrong"],
    ["with an unknown key", () => signed({}, second, "two"), "no key matches the token"],
    ["with an algorithm that the key does not have", () => signed({}, rsa, "one", "RS256"), "no key matches the token"],
    ["that is not one", () => "abc", "the token is malformed"],
    ["with too many parts", () => "a.b.c.d", "the token is malformed"],
    [
      "without the app",
      () => signed({ "https://example.com/app": undefined }),
      "the claim with the app is missing or invalid",
    ],
    [
      "with an invalid app",
      () => signed({ "https://example.com/app": "a{b}" }),
      "the claim with the app is missing or invalid",
    ],
    [
      "with a list of apps",
      () => signed({ "https://example.com/app": ["shop"] }),
      "the claim with the app is missing or invalid",
    ],
    ["with an invalid user", () => signed({ sub: "a\r\nb" }), "the claim with the user is invalid"],
  ])("%s is refused", async (_name, make, problem) => {
    const { verify } = await started();
    expect(await verify(await make())).toEqual({ code: "invalid_token", app: "", user: "", problem });
  });

  it("signed with the public key as a secret is refused", async () => {
    const { verify } = await started();
    const secret = new TextEncoder().encode(JSON.stringify(await publicKey(first, "one")));
    const token = await new SignJWT(payload).setProtectedHeader({ alg: "HS256", kid: "one" }).sign(secret);
    expect(await verify(token)).toMatchObject({ code: "invalid_token", problem: "the algorithm is not accepted" });
  });

  it("without a key id is verified with each key", async () => {
    const served = await serveKeys(await publicKey(first, "one"), await publicKey(second, "two"));
    const { verify } = start(served.url);
    const token = await new SignJWT(payload).setProtectedHeader({ alg: "ES256" }).sign(second.privateKey);
    expect((await verify(token)).code).toBe("ok");
  });

  it("without a user is anonymous, and need not name an app if none is configured", async () => {
    const served = await serveKeys(await publicKey(first, "one"));
    const { verify } = start(served.url, { appClaim: undefined });
    const token = await signed({ sub: undefined, "https://example.com/app": undefined });
    expect(await verify(token)).toEqual({ code: "ok", app: "", user: "", problem: "" });
  });
});

describe("the keys", () => {
  it("that were read stay in use while the URL is down, and it is logged once", async () => {
    const served = await serveKeys(await publicKey(first, "one"));
    const { verify, keys, clock, lines } = start(served.url);
    expect((await verify(await signed())).code).toBe("ok");
    served.status = 500;
    for (let i = 0; i < 3; i++) {
      clock.moveTo(clock.now() + 6_000);
      await keys.refresh();
    }
    expect(served.requests).toBe(4);
    expect((await verify(await signed({ sub: "bob" }))).code).toBe("ok");
    expect(lines).toEqual(["cannot read the keys of tokens: the last ones stay in use status 500"]);
    served.status = 200;
    clock.moveTo(clock.now() + 6_000);
    await keys.refresh();
    expect(lines.at(-1)).toContain("the keys of tokens can be read again");
  });

  it("that cannot be read at first give 503 and a log line with the reason, until they can be read", async () => {
    const served = await serveKeys(await publicKey(first, "one"));
    served.status = 404;
    const { verify, clock, lines } = start(served.url);
    const token = await signed();
    expect(await verify(token)).toMatchObject({ code: "token_keys_unavailable" });
    expect(lines).toEqual(["cannot read the keys of tokens: requests with a token get 503 status 404"]);
    served.status = 200;
    clock.moveTo(clock.now() + 6_000);
    expect((await verify(token)).code).toBe("ok");
  });

  it.each(["", "{}", '{"keys":[]}', '{"keys":[5]}', "<html>"])("are not replaced by %j", async (body) => {
    const served = await serveKeys(await publicKey(first, "one"));
    const { verify, keys, clock } = start(served.url);
    await verify(await signed());
    served.body = body;
    clock.moveTo(clock.now() + 6_000);
    await keys.refresh();
    expect((await verify(await signed({ sub: "bob" }))).code).toBe("ok");
  });

  it("are read again for a token with a new key, but not for every such token", async () => {
    const served = await serveKeys(await publicKey(first, "one"));
    const { verify, clock } = start(served.url);
    const old = await signed();
    expect((await verify(old)).code).toBe("ok");
    served.body = JSON.stringify({ keys: [await publicKey(second, "two")] });
    clock.moveTo(clock.now() + 6_000);
    expect((await verify(await signed({}, second, "two"))).code).toBe("ok");
    expect(served.requests).toBe(2);
    // The first key was withdrawn.
    expect(await verify(old)).toMatchObject({ code: "invalid_token" });
    for (let i = 0; i < 20; i++) await verify(await signed({ sub: `u${i}` }, first, "three"));
    expect(served.requests).toBe(2);
  });

  it("are read again at the interval", async () => {
    const served = await serveKeys(await publicKey(first, "one"));
    const { verify, keys, clock } = start(served.url);
    await verify(await signed());
    clock.runNext();
    await keys.refresh();
    expect(clock.now()).toBe(600_000);
    expect(served.requests).toBe(2);
  });
});

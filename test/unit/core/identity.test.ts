/** Who is asking: headers count from trusted hops only, malformed ones are refused, unknown apps share one bucket. */
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { INVALID_IDENTITY, OK, UNKNOWN_APP } from "../../../src/core/codes.js";
import {
  ANONYMOUS_USER,
  DEFAULT_APP,
  type IdentityClaims,
  type IdentityRules,
  identify,
} from "../../../src/core/identity.js";

const nothing: IdentityClaims = {
  hopTrusted: true,
  appHeader: "",
  appHeaderCount: 0,
  userHeader: "",
  userHeaderCount: 0,
  apiKeyApp: "",
};
const lenient: IdentityRules = { refuseUntrustedHeaders: false, refuseUnknownApps: false };
const strict: IdentityRules = { refuseUntrustedHeaders: true, refuseUnknownApps: true };
const configured = ["video", "photos", DEFAULT_APP];

function ask(claims: Partial<IdentityClaims>, rules: IdentityRules = lenient, apps: string[] = configured) {
  return identify({ ...nothing, ...claims }, rules, (app) => apps.includes(app));
}
const refused = (code: string) => ({ code, app: "", user: "" });

describe("from a trusted hop", () => {
  it("the headers name app and user", () => {
    const claims = { appHeader: "video", appHeaderCount: 1, userHeader: "u:1", userHeaderCount: 1 };
    expect(ask(claims)).toEqual({ code: OK, app: "video", user: "u:1" });
    expect(ask(claims, strict)).toEqual({ code: OK, app: "video", user: "u:1" });
  });

  it("a header beats an API key, and the key counts where there is no header", () => {
    expect(ask({ appHeader: "video", appHeaderCount: 1, apiKeyApp: "photos" }).app).toBe("video");
    expect(ask({ apiKeyApp: "photos" })).toEqual({ code: OK, app: "photos", user: ANONYMOUS_USER });
  });

  it("a request without any identity belongs to the default app", () => {
    expect(ask({})).toEqual({ code: OK, app: DEFAULT_APP, user: ANONYMOUS_USER });
    expect(ask({}, strict)).toEqual({ code: OK, app: DEFAULT_APP, user: ANONYMOUS_USER });
  });

  test.each(["", " ", "a b", "a{b}", "a\r\nb", "a\0b", "ü", "１２", "a/b", "a@b", "x".repeat(129), "x".repeat(1e6)])(
    "a malformed id is refused, as app and as user (case %#)",
    (id) => {
      expect(ask({ appHeader: id, appHeaderCount: 1, apiKeyApp: "photos" })).toEqual(refused(INVALID_IDENTITY));
      expect(ask({ userHeader: id, userHeaderCount: 1, apiKeyApp: "photos" })).toEqual(refused(INVALID_IDENTITY));
    },
  );

  it("a repeated header is refused, even with equal values", () => {
    expect(ask({ appHeader: "video", appHeaderCount: 2 })).toEqual(refused(INVALID_IDENTITY));
    expect(ask({ appHeader: "video", appHeaderCount: 1, userHeader: "u", userHeaderCount: 3 })).toEqual(
      refused(INVALID_IDENTITY),
    );
  });
});

describe("from an untrusted hop", () => {
  const headers = { hopTrusted: false, appHeader: "video", appHeaderCount: 1, userHeader: "u", userHeaderCount: 1 };

  it("headers are ignored, even if malformed", () => {
    expect(ask(headers)).toEqual({ code: OK, app: DEFAULT_APP, user: ANONYMOUS_USER });
    expect(ask({ ...headers, appHeader: "{}", appHeaderCount: 7 }).code).toBe(OK);
  });

  it("headers are refused if the rules require it, also a single one", () => {
    expect(ask(headers, strict)).toEqual(refused(INVALID_IDENTITY));
    expect(ask({ ...headers, appHeaderCount: 0 }, strict)).toEqual(refused(INVALID_IDENTITY));
    expect(ask({ ...headers, userHeaderCount: 0 }, strict)).toEqual(refused(INVALID_IDENTITY));
    expect(ask({ ...headers, appHeaderCount: 0, userHeaderCount: 0 }, strict).code).toBe(OK);
  });

  it("an API key names the app, and beats the header", () => {
    expect(ask({ ...headers, apiKeyApp: "photos" })).toEqual({ code: OK, app: "photos", user: ANONYMOUS_USER });
    expect(ask({ hopTrusted: false, apiKeyApp: "photos" }, strict).app).toBe("photos");
  });
});

describe("an app that is not configured", () => {
  it("shares the default app, or is refused, as the rules say", () => {
    const stranger = { appHeader: "stranger", appHeaderCount: 1, userHeader: "u", userHeaderCount: 1 };
    expect(ask(stranger)).toEqual({ code: OK, app: DEFAULT_APP, user: "u" });
    expect(ask(stranger, strict)).toEqual(refused(UNKNOWN_APP));
  });

  it("includes the default app itself if it is not configured and unknown apps are refused", () => {
    expect(ask({}, strict, ["video"])).toEqual(refused(UNKNOWN_APP));
    expect(ask({}, lenient, ["video"]).app).toBe(DEFAULT_APP);
  });
});

it("the paying app is always a configured one or the default", () => {
  const text = fc.oneof(fc.string(), fc.constantFrom("video", "photos", "__proto__", "constructor", "a".repeat(128)));
  const claims = fc.record<IdentityClaims>({
    hopTrusted: fc.boolean(),
    appHeader: text,
    appHeaderCount: fc.nat(2),
    userHeader: text,
    userHeaderCount: fc.nat(2),
    apiKeyApp: fc.constantFrom("", "photos", "removed-app"),
  });
  const rules = fc.record({ refuseUntrustedHeaders: fc.boolean(), refuseUnknownApps: fc.boolean() });
  fc.assert(
    fc.property(claims, rules, (claimed, ruled) => {
      const { code, app, user } = ask(claimed, ruled);
      if (code === OK) {
        expect(configured).toContain(app);
        expect(user).toMatch(/^[A-Za-z0-9._:-]{1,128}$/);
      } else expect({ code, app, user }).toEqual(refused(code));
    }),
  );
});

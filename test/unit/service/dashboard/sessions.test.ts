/** Sessions of the dashboard. */
import { expect, it } from "vitest";
import { createSessions } from "../../../../src/service/dashboard/sessions.js";

function bench({ secure = false } = {}) {
  let now = 0;
  const sessions = createSessions({ clock: { now: () => now }, lifetimeMs: () => 60_000, isSecure: () => secure });
  const request = (cookie: string) => ({ headers: { cookie: cookie.split(";")[0] ?? "" } });
  return { sessions, request, pass: (ms: number) => (now += ms) };
}

it("stands for the token until its lifetime is over", () => {
  const { sessions, request, pass } = bench();
  const cookie = sessions.start("operator-token");
  expect(cookie).toMatch(/^tollgate_session=[A-Za-z0-9_-]{43}; Path=\/; Max-Age=60; HttpOnly; SameSite=Strict$/);
  expect(sessions.tokenOf(request(cookie))).toBe("operator-token");
  pass(59_999);
  expect(sessions.tokenOf(request(cookie))).toBe("operator-token");
  pass(1);
  expect(sessions.tokenOf(request(cookie))).toBe("");
});

it("is sent only over TLS if the listener has TLS", () => {
  expect(bench({ secure: true }).sessions.start("t")).toMatch(/; Secure$/);
});

it("is found among other cookies, and nothing else is", () => {
  const { sessions, request } = bench();
  const [own = ""] = sessions.start("t").split(";");
  expect(sessions.tokenOf({ headers: { cookie: `a=1; ${own}; b=2` } })).toBe("t");
  const wrong = ["", "tollgate_session=", `tollgate_session=${"x".repeat(43)}`, `${own}x`, `not_${own}`];
  for (const cookie of wrong) expect(sessions.tokenOf(request(cookie)), cookie).toBe("");
});

it("ends with all others of the same token when the operator signs out", () => {
  const { sessions, request } = bench();
  const [one, other, foreign] = [sessions.start("a"), sessions.start("a"), sessions.start("b")];
  expect(sessions.end("a")).toMatch(/^tollgate_session=; Path=\/; Max-Age=0;/);
  expect([one, other, foreign].map((cookie) => sessions.tokenOf(request(cookie)))).toEqual(["", "", "b"]);
});

it("is one of at most a thousand: the oldest ends first, and ended ones are removed", () => {
  const { sessions, request, pass } = bench();
  const first = sessions.start("first");
  for (let i = 0; i < 1_000; i++) sessions.start(`more-${i}`);
  expect(sessions.count()).toBe(1_000);
  expect(sessions.tokenOf(request(first))).toBe("");
  pass(60_000);
  sessions.start("last");
  expect(sessions.count()).toBe(1);
});

it("one token has at most 50 sessions, so that it cannot end those of others", () => {
  const { sessions, request } = bench();
  const operator = sessions.start("operator-token");
  for (let i = 0; i < 2_000; i++) sessions.start("viewer-token");
  expect(sessions.count()).toBe(51);
  expect(sessions.tokenOf(request(operator))).toBe("operator-token");
});

/** Sessions of the dashboard: a cookie stands for the token with which an operator signed in. Kept in memory. */
import { randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Clock } from "../../shared/clock.js";

export interface SessionOptions {
  clock: Pick<Clock, "now">;
  /** After this time the operator has to sign in again. */
  lifetimeMs(): number;
  /** The listener has TLS, so browsers must not send the cookie without it. */
  isSecure(): boolean;
}

export type Sessions = ReturnType<typeof createSessions>;

const COOKIE = "tollgate_session";
const cookiePattern = new RegExp(`(?:^|;)\\s*${COOKIE}=([A-Za-z0-9_-]{43})\\s*(?:;|$)`);
/** Beyond this number the oldest one ends. */
const MOST_SESSIONS = 1_000;
/** Of one token, so that one viewer cannot end the sessions of all others. */
const MOST_OF_TOKEN = 50;

export function createSessions({ clock, lifetimeMs, isSecure }: SessionOptions) {
  /** By id, the oldest first. The token is checked again with every request, so that a changed one ends its sessions. */
  const sessions = new Map<string, { token: string; endsAt: number }>();

  const cookie = (value: string, maxAgeSeconds: number) =>
    `${COOKIE}=${value}; Path=/; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Strict${isSecure() ? "; Secure" : ""}`;

  function removeEnded(): void {
    const now = clock.now();
    for (const [id, { endsAt }] of sessions) if (endsAt <= now) sessions.delete(id);
    for (const id of sessions.keys()) {
      if (sessions.size < MOST_SESSIONS) return;
      sessions.delete(id);
    }
  }

  return {
    /** Returns the Set-Cookie header. */
    start(token: string): string {
      removeEnded();
      const own = [...sessions].filter(([, session]) => session.token === token);
      for (const [old] of own.slice(0, Math.max(own.length - MOST_OF_TOKEN + 1, 0))) sessions.delete(old);
      const id = randomBytes(32).toString("base64url");
      sessions.set(id, { token, endsAt: clock.now() + lifetimeMs() });
      return cookie(id, Math.ceil(lifetimeMs() / 1000));
    },
    /** Ends all sessions of the token; returns the Set-Cookie header that removes the cookie. */
    end(token: string): string {
      for (const [id, session] of sessions) if (session.token === token) sessions.delete(id);
      return cookie("", 0);
    },
    /** The token of the request's session; empty without a session, or if it has ended. */
    tokenOf(request: Pick<IncomingMessage, "headers">): string {
      const [, id = ""] = cookiePattern.exec(request.headers.cookie ?? "") ?? [];
      const session = sessions.get(id);
      return session !== undefined && session.endsAt > clock.now() ? session.token : "";
    },
    count: () => sessions.size,
  };
}

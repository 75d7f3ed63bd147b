/** Calls to the control listener: the session, the admin API, and live data as server-sent events. */
import { useEffect, useState } from "preact/hooks";
import type { AppPoint, History, HistoryPoint, SessionReply, State } from "../../src/service/dashboard/contract.js";

export interface Failure {
  status: number;
  reason: string;
  detail: string;
}

export type Result<T> = { ok: true; value: T } | { ok: false; failure: Failure };

export async function call<T>(method: string, path: string, body?: unknown, token?: string): Promise<Result<T>> {
  const headers: Record<string, string> = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (token !== undefined) headers.Authorization = `Bearer ${token}`;
  const failed = (status: number, reason: string, detail = "") => ({
    ok: false as const,
    failure: { status, reason, detail },
  });
  try {
    const response = await fetch(path, { method, headers, body: body === undefined ? null : JSON.stringify(body) });
    const reply = (await response.json()) as Record<string, unknown>;
    if (response.ok) return { ok: true, value: reply as T };
    return failed(response.status, String(reply.reason ?? response.status), String(reply.detail ?? ""));
  } catch {
    return failed(0, "unreachable", "The service does not answer.");
  }
}

export const admin = <T>(method: string, path: string, body?: unknown) =>
  call<T>(method, `/admin/ratelimit/${path}`, body);

/** A reply of the admin API, read again at an interval. */
export function useReply<T>(path: string, refreshMs: number): { reply: T | undefined; failure: string } {
  const [reply, setReply] = useState<T | undefined>();
  const [failure, setFailure] = useState("");
  useEffect(() => {
    let isOver = false;
    let timer: ReturnType<typeof setTimeout>;
    setReply(undefined);
    const load = async () => {
      const result = await admin<T>("GET", path);
      if (isOver) return;
      if (result.ok) setReply(result.value);
      setFailure(result.ok ? "" : result.failure.detail || result.failure.reason);
      timer = setTimeout(() => void load(), refreshMs);
    };
    void load();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [path]);
  return { reply, failure };
}

export const isAppId = (id: string) => /^[A-Za-z0-9._:-]{1,128}$/.test(id);

export const getSession = () => call<SessionReply>("GET", "/dashboard/session");
export const signIn = (token: string) => call<SessionReply>("POST", "/dashboard/session", undefined, token);
export const signOut = () => call<SessionReply>("DELETE", "/dashboard/session");

export interface Live {
  state: State | undefined;
  points: HistoryPoint[];
  /** Of the app whose page is open. */
  traffic: readonly AppPoint[];
  /** When the last message arrived. */
  at: number;
  connection: "connecting" | "live" | "lost";
  /** Why the service could not collect the data. */
  failed: string;
}

const KEPT_SECONDS = 15 * 60;
/** Without a message for this long, the connection counts as lost. */
const SILENT_MS = 5_000;

const nothing: Live = { state: undefined, points: [], traffic: [], at: 0, connection: "connecting", failed: "" };

/** Follows a view. Numbers of the last view stay until the first message of the next one, so that nothing jumps. */
export function useLive(view: string, ended: () => void): Live {
  const [live, setLive] = useState<Live>(nothing);
  useEffect(() => {
    let lastAt = Date.now();
    setLive((before) => ({ ...before, traffic: [] }));
    const source = new EventSource(`/dashboard/events?view=${encodeURIComponent(view)}`);
    const on = <T>(name: string, handle: (data: T) => void) =>
      source.addEventListener(name, (event) => {
        lastAt = Date.now();
        handle(JSON.parse((event as MessageEvent<string>).data) as T);
      });
    on<History>("history", ({ points, traffic = [] }) =>
      // After a change of view, the page already has these points, and finer ones.
      setLive((before) => ({
        ...before,
        points: before.points.length > points.length ? before.points : points,
        // The same after a lost connection.
        traffic: before.traffic.length > traffic.length ? before.traffic : traffic,
        at: Date.now(),
        connection: "live",
      })),
    );
    on<State>("state", (state) =>
      setLive((before) => ({
        state,
        points: withPoint(before.points, state),
        traffic: withTraffic(before.traffic, state),
        at: Date.now(),
        connection: "live",
        failed: "",
      })),
    );
    on<{ reason: string }>("failed", ({ reason }) =>
      setLive((before) => ({ ...before, failed: reason, at: Date.now() })),
    );
    on("ended", ended);
    source.onerror = () => {
      setLive((before) => ({ ...before, connection: "lost" }));
      // A rejected request is not repeated by the browser: find out whether the session has ended.
      void getSession().then((result) => {
        if (!result.ok && (result.failure.status === 401 || result.failure.status === 403)) ended();
      });
    };
    const timer = setInterval(() => {
      if (Date.now() - lastAt > SILENT_MS) setLive((before) => ({ ...before, connection: "lost" }));
    }, 1_000);
    return () => {
      clearInterval(timer);
      source.close();
    };
  }, [view]);
  return live;
}

/** Adds the rates of the last second to the charts. */
function withPoint(points: HistoryPoint[], { overview }: State): HistoryPoint[] {
  const { rates, status, cluster } = overview;
  const at = Date.parse(status.timestamp) / 1000;
  if (rates === null || at <= (points.at(-1)?.at ?? 0)) return points;
  const { seconds: _, ...others } = rates;
  const level = status.degradation_level;
  const point = { at, ...others, level, connections: status.connections, l1_tokens: cluster.tokens };
  return [...points.filter((one) => one.at > at - KEPT_SECONDS), point];
}

function withTraffic(points: readonly AppPoint[], { overview, traffic }: State): readonly AppPoint[] {
  const at = Date.parse(overview.status.timestamp) / 1000;
  if (traffic === undefined || at <= (points.at(-1)?.at ?? 0)) return points;
  return [...points.filter((one) => one.at > at - KEPT_SECONDS), { at, ...traffic }];
}

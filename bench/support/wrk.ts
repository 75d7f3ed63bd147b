/** Loads a server with wrk and returns the number of responses. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";

const run = promisify(execFile);

export interface Load {
  url: string;
  seconds: number;
  connections: number;
  headers: Record<string, string>;
}

export interface Answered {
  requests: number;
  perSecond: number;
}

/** Throws if more than 1 % failed, because the result would be meaningless. */
export async function load({ url, seconds, connections, headers }: Load): Promise<Answered> {
  const lines = Object.entries(headers).flatMap(([name, value]) => ["-H", `${name}: ${value}`]);
  const { stdout } = await run("wrk", ["-t1", `-c${connections}`, `-d${seconds}s`, ...lines, url]);
  const requests = Number(/(\d+) requests in/.exec(stdout)?.[1]);
  const failed = Number(/Non-2xx or 3xx responses: (\d+)/.exec(stdout)?.[1] ?? 0);
  if (!(requests > 0) || failed > requests / 100) throw new Error(`${url}: ${failed} of ${requests} failed\n${stdout}`);
  return { requests, perSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1]) };
}

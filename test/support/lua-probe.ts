/** Measures the Lua of an nginx worker: allocated bytes, and whether its code is compiled. */
import { request } from "undici";
import type { NginxProcess } from "./nginx-process.js";

/** Counters since the worker started. */
export interface LuaNumbers {
  /** Memory in use; with the collector stopped, everything allocated since. */
  bytes: number;
  /** Exits from compiled code to the interpreter. */
  exits: number;
  /** Aborted compilations. */
  aborts: number;
}

const COUNT = `
    probe = { exits = 0, aborts = 0 }
    jit.attach(function() probe.exits = probe.exits + 1 end, "texit")
    jit.attach(function(what) if what == "abort" then probe.aborts = probe.aborts + 1 end end, "trace")
`;

const TELL = `
    location = /lua {
        content_by_lua_block {
            collectgarbage(ngx.var.arg_collector)
            ngx.print('{"bytes":', collectgarbage("count") * 1024, ',"exits":', probe.exits, ',"aborts":', probe.aborts, "}")
        }
    }
`;

/** For `edit` of `startNginx`, with one worker. Syncs are so rare that only requests are counted. */
export function probed(text: string, name: string): string {
  if (name === "tollgate-http.conf") return text.replace(/init_worker_by_lua_block \{/, (begin) => `${begin}${COUNT}`);
  if (name === "tollgate-settings.lua") {
    return text.replace(/syncIntervalMs = \d+/, "syncIntervalMs = 10000").replace(/reserve = \d+/, "reserve = 500000");
  }
  return name === "tollgate-status.conf" ? text.replace(/ {4}location \/ \{/, (end) => `${TELL}${end}`) : text;
}

/** Reads the first worker and stops Lua's collector. */
export async function luaNumbers({ statusUrl }: NginxProcess): Promise<LuaNumbers> {
  const { body } = await request(`${statusUrl}/lua?collector=stop`);
  return (await body.json()) as LuaNumbers;
}

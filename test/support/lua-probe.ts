/** Looks into the Lua of a worker: the bytes that it allocates, and whether what it runs is compiled. */
import { request } from "undici";
import type { NginxProcess } from "./nginx-process.js";

/** Counts since the worker began. */
export interface LuaNumbers {
  /** In use by Lua; while the collector is stopped, all that was ever allocated since. */
  bytes: number;
  /** Compiled code that went back to the interpreter in a way that is not compiled. */
  exits: number;
  /** Compilations that came to nothing. */
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

/** For `edit` of `startNginx`, with one worker. It talks to the service so seldom that what is counted is the requests' own. */
export function probed(text: string, name: string): string {
  if (name === "tollgate-http.conf") return text.replace(/init_worker_by_lua_block \{/, (begin) => `${begin}${COUNT}`);
  if (name === "tollgate-settings.lua") {
    return text.replace(/syncIntervalMs = \d+/, "syncIntervalMs = 10000").replace(/reserve = \d+/, "reserve = 500000");
  }
  return name === "tollgate-status.conf" ? text.replace(/ {4}location \/ \{/, (end) => `${TELL}${end}`) : text;
}

/** Of the first worker. Stops Lua's collector. */
export async function luaNumbers({ statusUrl }: NginxProcess): Promise<LuaNumbers> {
  const { body } = await request(`${statusUrl}/lua?collector=stop`);
  return (await body.json()) as LuaNumbers;
}

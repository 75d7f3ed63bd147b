/** The Lua chunks for LuaJIT: the plane for nginx, the plane for Envoy, and the core. */
import { luaBundle } from "./lua-bundle.js";

/** Returns the phases that nginx calls. */
export function nginxBundle(): string {
  return jitBundle("tollgate for nginx", "src/planes/nginx/main.ts");
}

/** Defines the global functions that Envoy calls. The rendered options precede it in the same file. */
export function envoyBundle(): string {
  return jitBundle("tollgate for Envoy", "src/planes/envoy/main.ts");
}

/** Returns a table of the core's functions. */
export function coreBundle(): string {
  return jitBundle("tollgate core", "src/core/portable.ts");
}

function jitBundle(title: string, entry: string): string {
  return `-- ${title}, generated from ${entry}: change it there\n${luaBundle({ entry, target: "JIT" })}`;
}

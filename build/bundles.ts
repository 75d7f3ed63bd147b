/** The Lua chunks for LuaJIT. */
import { luaBundle } from "./lua-bundle.js";

/** Returns the phases that nginx calls. */
export const nginxBundle = () => jitBundle("tollgate for nginx", "src/planes/nginx/main.ts");

/** Defines the global functions that Envoy's dynamic module calls. The rendered options precede it in the same file. */
export const envoyBundle = () => jitBundle("tollgate for Envoy", "src/planes/envoy/module-main.ts");

/** Returns a table of the core's functions. */
export const coreBundle = () => jitBundle("tollgate core", "src/core/portable.ts");

function jitBundle(title: string, entry: string): string {
  return `-- ${title}, generated from ${entry}: change it there\n${luaBundle({ entry, target: "JIT" })}`;
}
